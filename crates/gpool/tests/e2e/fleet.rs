//! The files of `docs/operating/fleet` on machines of namespaces: Ansible installs, joins and
//! upgrades them while jobs run, and cloud-init makes a node of a new one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::comfort::has;
use crate::harness::{Cluster, Gate, Guest, Hosts, Ran, Running, skip, until_so};
use crate::packages::{NEW, OLD, built, machine, path};
use crate::recovery::waits_at;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/fleet");
/// Where `cargo xtask test` installs Ansible and cloud-init.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/fleet");
const SSH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/ssh");
/// A server that has no devices of its own.
const SETTINGS: &str = "listen = \"0.0.0.0:7443\"\ndevices = \"none\"\n";

/// The machines `lab1`, with the server, and `big1`, `big2`, each on a host of the network.
struct Fleet {
    cluster: Cluster,
    guests: Vec<Guest>,
    server: String,
    _hosts: Hosts,
}

impl Fleet {
    /// `None` where it can't be made, with the reason as text.
    fn new(names: &[&str]) -> Option<Self> {
        built()?;
        if let Some(missing) = ["ip", "hostname", "curl"].into_iter().find(|it| !has(it)) {
            skip(&format!("there is no {missing}"));
            return None;
        }
        let hosts = Hosts::new(names)?;
        let cluster = Cluster::unstarted(&[]);
        let guest = |name: &&str| machine(&cluster, name, &hosts.on(name));
        let guests: Vec<Guest> = names.iter().map(guest).collect::<Option<_>>()?;
        std::fs::create_dir(cluster.path("hosts")).unwrap();
        for (name, guest) in names.iter().zip(&guests) {
            let file = cluster.path("hosts").join(name);
            std::fs::write(file, guest.within().join(" ")).unwrap();
        }
        let server = format!("https://{}:7443", hosts.address("lab1"));
        Some(Self { cluster, guests, server, _hosts: hosts })
    }

    /// Runs a shell line on the machine of the server.
    fn on_server(&self, line: &str) -> Ran {
        self.guests[0].sh(&format!("cd /; {line}"))
    }

    /// Runs the playbook with these flags.
    fn play(&self, flags: &[&str]) -> Ran {
        let settings = serde_json::json!({ "gpool_settings": SETTINGS, "gpool_url": self.server });
        let variables = settings.to_string();
        let inventory = format!("{FILES}/inventory.ini");
        let mut command = Command::new(format!("{TOOLS}/bin/ansible-playbook"));
        command.arg(format!("{FILES}/playbook.yml")).args(["-i", &inventory]);
        command.args(["-e", "ansible_python_interpreter=/usr/bin/python3", "-e", &variables]);
        command.args(flags).env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
        let home = self.cluster.path("home");
        command.env("HOME", &home).env("ANSIBLE_HOME", &home);
        command.env("GPOOL_TEST_HOSTS", self.cluster.path("hosts"));
        command.env("ANSIBLE_SSH_EXECUTABLE", SSH).env("ANSIBLE_SSH_TRANSFER_METHOD", "piped");
        command.env("ANSIBLE_REMOTE_USER", "root").env("ANSIBLE_PIPELINING", "true");
        command.env("ANSIBLE_NOCOLOR", "1").current_dir(self.cluster.work());
        Running::start(&mut command, None).end()
    }

    /// Runs it with this version of the package, and returns the changes of each machine.
    #[track_caller]
    fn install(&self, version: &str) -> Vec<(String, u32)> {
        let deb = path(built().unwrap(), version, ".deb");
        let said = self.play(&["-e", &format!("gpool_deb={}", deb.display())]).ok();
        let recap = said.split("PLAY RECAP").nth(1).unwrap();
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            let changed = words.find_map(|word| word.strip_prefix("changed="))?;
            Some((name, changed.parse().unwrap()))
        };
        recap.lines().filter_map(row).collect()
    }

    /// The process of the main service of each machine.
    fn pids(&self) -> Vec<String> {
        self.guests.iter().map(|it| it.sh("cat /run/services/*.service").ok()).collect()
    }
}

fn is_installed(file: &str, what: &str) -> bool {
    let is_there = Path::new(TOOLS).join(file).exists();
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "{what} is missing");
        skip(&format!("{what} is missing; cargo xtask test installs it"));
    }
    is_there
}

/// How often a job has run, and where; its state.
fn run_of(fleet: &Fleet, id: &str) -> (u64, String, String) {
    let job = &fleet.on_server(&format!("gpool show {id} --json")).json()["items"][0];
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let attempt = job["run"]["attempt"].as_u64().unwrap();
    (attempt, text(&job["placement"][0]["node"]), text(&job["state"]))
}

#[test]
fn a_playbook_installs_joins_and_upgrades_node_by_node_while_jobs_run() {
    if !is_installed("bin/ansible-playbook", "Ansible") {
        return;
    }
    let Some(fleet) = Fleet::new(&["lab1", "big1", "big2"]) else { return };
    let without = fleet.play(&[]);
    assert_ne!(without.code, 0, "{without:?}");
    assert!(without.out.contains("try -e gpool_deb=gpool_0.1.0_amd64.deb"), "{without:?}");

    let changed = fleet.install(OLD);
    let names: Vec<&str> = changed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["big1", "big2", "lab1"]);
    assert!(changed.iter().all(|(_, n)| *n > 0), "{changed:?}");
    for guest in &fleet.guests[1..] {
        assert_eq!(guest.sh("systemctl is-enabled gpool-agent").ok(), "enabled\n");
    }
    assert!(fleet.install(OLD).iter().all(|(_, n)| *n == 0), "nothing is left to change");

    // Each takes all GPUs of a node.
    let gates = ["one", "two"].map(|name| Gate::new(&fleet.cluster, name));
    let jobs = gates.each_ref().map(|gate| {
        let line = format!("gpool submit --gpus 2 -- sh -c '{}'", waits_at(gate));
        let id = fleet.on_server(&line).ok().trim().to_owned();
        let logs = format!("gpool logs {id}");
        until_so("it has begun", || fleet.on_server(&logs).out.starts_with("begun"));
        id
    });
    let (runs, pids) = (jobs.each_ref().map(|id| run_of(&fleet, id)), fleet.pids());
    let changed = fleet.install(NEW);
    assert!(changed.iter().all(|(_, n)| *n > 0), "{changed:?}");
    for (guest, (before, after)) in fleet.guests.iter().zip(pids.iter().zip(fleet.pids())) {
        assert_ne!(*before, after, "the new version runs");
        assert_eq!(guest.sh("dpkg-query -W -f '${Version}' gpool").ok(), NEW);
    }
    assert_eq!(jobs.each_ref().map(|id| run_of(&fleet, id)), runs, "the jobs went on");
    assert!(runs.iter().all(|(attempt, _, state)| (*attempt, state.as_str()) == (1, "running")));
    assert_ne!(runs[0].1, runs[1].1, "one on each node");
    let pids = fleet.pids();
    assert!(fleet.install(NEW).iter().all(|(_, n)| *n == 0), "nothing is left to change");
    assert_eq!(fleet.pids(), pids);
    for (id, gate) in jobs.iter().zip(&gates) {
        gate.open();
        assert_eq!(fleet.on_server(&format!("gpool wait {id}")).code, 5);
        assert_eq!(fleet.on_server(&format!("gpool logs {id}")).ok(), "begun\ndone\n");
    }
}

/// The user data of the document, with values.
fn user_data(values: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(format!("{FILES}/user-data.yml")).unwrap();
    let with_value = |line: &str| {
        let name = line.trim_start().split('=').next().unwrap();
        match values.iter().find(|(key, _)| *key == name) {
            Some((key, value)) => format!("      {key}={value}\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(with_value).collect()
}

/// The commands of cloud-init that a boot runs, with only the modules that the user data needs: the
/// others would change the host name, disks and keys of a machine.
const BOOT: &str = "
cp -a TOOLS/cloud-init/. /
cat > /etc/cloud/cloud.cfg << END
datasource_list: [NoCloud]
cloud_init_modules: [write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
END
rm -f /etc/cloud/cloud.cfg.d/*
mkdir -p /var/lib/cloud/seed/nocloud
cp SEED/user-data /var/lib/cloud/seed/nocloud
echo 'instance-id: first' > /var/lib/cloud/seed/nocloud/meta-data
export PYTHONPATH=/usr/lib/python3/dist-packages
cloud_init() { TOOLS/bin/python /usr/bin/cloud-init \"$@\"; }
cloud_init schema --config-file SEED/user-data &&
cloud_init init &&
cloud_init modules --mode=config &&
cloud_init modules --mode=final
";

#[test]
fn cloud_init_makes_a_node_at_the_first_boot() {
    if !is_installed("cloud-init/usr/bin/cloud-init", "cloud-init") {
        return;
    }
    let Some(fleet) = Fleet::new(&["lab1", "big3"]) else { return };
    let folder = built().unwrap();
    let deb = path(folder, NEW, ".deb");
    std::fs::write(fleet.guests[0].path("/etc/gpool/gpool.toml"), SETTINGS).unwrap();
    let deb = deb.display();
    fleet.on_server(&format!("dpkg --install {deb} && systemctl enable --now gpool")).ok();
    let hash = fleet.on_server(&format!("sha256sum {deb}")).ok();
    let added = fleet.on_server("gpool nodes add big3 --json").json();
    let address = fleet.server.trim_start_matches("https://").trim_end_matches(":7443");
    let files = "python3 -m http.server 8000 > /tmp/files.log 2>&1 &";
    fleet.on_server(&format!("cd {}; {files}", folder.display())).ok();
    let name = Path::new(&deb.to_string()).file_name().unwrap().to_string_lossy().into_owned();
    let package = format!("http://{address}:8000/{name}");
    let head = format!("curl --fail --silent --head {package}");
    until_so("the package is offered", || fleet.on_server(&head).code == 0);
    let data = user_data(&[
        ("PACKAGE", &package),
        ("SHA256", hash.split(' ').next().unwrap()),
        ("SERVER", &fleet.server),
        ("TOKEN", added["token"].as_str().unwrap()),
    ]);
    let seed: PathBuf = fleet.cluster.path("seed");
    std::fs::create_dir(&seed).unwrap();
    std::fs::write(seed.join("user-data"), data).unwrap();
    let boot = BOOT.replace("TOOLS", TOOLS).replace("SEED", seed.to_str().unwrap());
    let booted = fleet.guests[1].sh(&boot);
    assert_eq!(booted.code, 0, "{booted:?}");
    until_so("the node is there", || {
        let nodes = fleet.on_server("gpool nodes --json").json();
        let items = nodes["items"].as_array().unwrap().clone();
        items.iter().any(|it| it["name"] == "big3" && it["membership"] == "connected")
    });
    let ran = fleet.on_server("gpool run --gpus 1 -- sh -c 'echo on $GPOOL_NODE'");
    assert_eq!((ran.code, ran.out.as_str()), (0, "on big3\n"), "{ran:?}");
    assert_eq!(fleet.guests[1].sh("ls /run/gpool/join").code, 2, "the token is removed");
    assert_eq!(fleet.guests[1].sh("systemctl is-enabled gpool-agent").ok(), "enabled\n");
}
