//! Public clients of Slurm from Python's package index, with gpool's commands in `PATH`, and the
//! scripts of `docs/using/python-tools.md`.
//! `docs/using/compat.md` names their versions; `cargo xtask clients` runs larger ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Cluster, Ran, Running, skip};
use crate::shims::installed;

/// Where `cargo xtask test` installs the clients.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients/bin/python");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
/// The page with scripts for users.
const PAGE: &str = include_str!("../../../../docs/using/python-tools.md");
/// The folder of the Python client.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");

/// A cluster of two nodes, and the folder of its commands.
struct Clients {
    cluster: Cluster,
    bin: PathBuf,
}

impl Clients {
    /// Starts the cluster; `None` if the clients are not installed.
    fn start() -> Option<Self> {
        if !Path::new(PYTHON).exists() {
            assert!(std::env::var_os("CI").is_none(), "{PYTHON} is missing");
            skip("clients of Slurm are missing; cargo xtask test installs them");
            return None;
        }
        let mut cluster = Cluster::unstarted(&[]);
        let nodes = cluster.path("nodes.toml");
        std::fs::copy(Path::new(SCRIPTS).join("nodes.toml"), &nodes).unwrap();
        cluster.set_flags(&["--devices", nodes.to_str().unwrap()]);
        cluster.up();
        let bin = installed(&cluster);
        Some(Self { cluster, bin })
    }

    /// Runs a command of gpool, or a program of the clients' Python, in the working folder.
    fn run(&self, words: &[&str]) -> Ran {
        let python = Path::new(PYTHON).parent().unwrap();
        let own = self.bin.join(words[0]);
        let program = if own.exists() { own } else { python.join(words[0]) };
        let mut command = Command::new(program);
        let of = self.cluster.command();
        command.env_clear().current_dir(self.cluster.work());
        command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let path = [&*self.bin.to_string_lossy(), &*python.to_string_lossy(), "/usr/bin:/bin"];
        command.env("PATH", path.join(":")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("PYTHONPATH", self.cluster.path("packages"));
        Running::start(command.args(&words[1..]), None).end()
    }

    /// Runs a script of `tests/clients`; returns its output.
    fn script(&self, name: &str, words: &[&str]) -> String {
        let script = format!("{SCRIPTS}/with_{name}.py");
        self.run(&[&["python", &*script], words].concat()).ok()
    }

    /// Runs a command of the page in a folder with the script that it names; returns its output.
    fn page(&self, command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        let name = words[1];
        let begin = format!("```python\n# {name}\n");
        let block = PAGE.split_once(&begin).and_then(|(_, rest)| rest.split_once("```\n"));
        let (script, _) = block.unwrap_or_else(|| panic!("{name} is not on the page"));
        std::fs::write(self.cluster.work().join(name), script).unwrap();
        self.run(&words).ok()
    }

    /// Installs the wheel of the client, with a text in place of the command.
    fn install_package(&self) {
        let (wheels, packages) = (self.cluster.path("wheels"), self.cluster.path("packages"));
        let [wheels, packages] = [wheels, packages].map(|it| it.to_str().unwrap().to_owned());
        let (tool, readme) = (format!("{PACKAGE}/tools/wheel.py"), format!("{PACKAGE}/README.md"));
        let name = self.run(&["python", &tool, &readme, &wheels]).ok();
        let wheel = format!("{wheels}/{}", name.trim());
        let flags = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--target", &packages];
        self.run(&[&["python", "-m", "pip", "install"][..], &flags, &[&wheel]].concat()).ok();
    }
}

#[test]
fn submitit_gets_results_errors_and_arrays() {
    let Some(clients) = Clients::start() else { return };
    let expected = "result 42\nerror FailedJobError True\narray [10, 20, 30, 40, 50]\n\
                    states ['COMPLETED']\n";
    assert_eq!(clients.script("submitit", &[]), expected);
}

#[test]
fn submitit_finds_the_cluster_gpool() {
    let Some(clients) = Clients::start() else { return };
    clients.install_package();
    let expected = "result 42 of submitit\nerror FailedJobError True\narray [10, 20, 30, 40, 50]\n\
                    elements 5 0.5\nstates ['COMPLETED']\n\
                    tasks [('gpool', 2, 0), ('gpool', 2, 1)]\ncancelled CANCELLED\n\
                    checkpoint ('resumed', '2')\nrefused True\n";
    assert_eq!(clients.script("submitit_gpool", &[]), expected);
    let expected = "['rate 0.1 on gpool', 'rate 0.01 on gpool']\n";
    assert_eq!(clients.page("python tune.py"), expected);
}

#[test]
fn hydra_sweeps_over_parameters() {
    let Some(clients) = Clients::start() else { return };
    let sweep = PAGE.lines().find(|line| line.starts_with("python sweep.py")).unwrap();
    clients.page(sweep);
    for rate in ["0.1", "0.01"] {
        let file = clients.cluster.work().join(format!("rate-{rate}"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "1");
    }
    // A result is there before its job has ended.
    let job = clients.cluster.until_is("1", "succeeded");
    assert_eq!(job.array.unwrap().n_elements, 2);
}

#[test]
fn dask_starts_workers_and_ends_them() {
    let Some(clients) = Clients::start() else { return };
    assert_eq!(clients.page("python squares.py"), "285\n");
    assert_eq!(clients.cluster.all_ids().len(), 2);
    for id in ["1", "2"] {
        let job = clients.cluster.until_ended(id);
        assert_eq!((&*job.name, job.request.gpus.as_deref()), ("dask-worker", Some("1")));
    }
}

#[test]
fn parsl_runs_calls_on_a_block() {
    let Some(clients) = Clients::start() else { return };
    assert_eq!(clients.page("python calls.py"), "[0, 1, 4, 9]\n");
    let job = clients.cluster.until_ended("1");
    assert_eq!(job.request.gpus.as_deref(), Some("1"));
    assert_eq!(clients.cluster.all_ids(), ["1"]);
}

#[test]
fn psij_follows_a_job_a_failure_and_a_cancellation() {
    let Some(clients) = Clients::start() else { return };
    let expected = "COMPLETED 0 GPUs 1\nFAILED 3\nCANCELED\n";
    assert_eq!(clients.script("psij", &[]), expected);
    assert_eq!(clients.page("python hello.py"), "COMPLETED 1 GPU\n");
}

#[test]
fn simple_slurm_submits_arrays_with_dependencies() {
    let Some(clients) = Clients::start() else { return };
    let said = clients.script("simple_slurm", &[]);
    let expected = "queue ['held']\n['GPUs 1', 'name first']\n['element 2', 'element 3']\n";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn dpdispatcher_fetches_the_results_of_its_tasks() {
    let Some(clients) = Clients::start() else { return };
    let said = clients.script("dpdispatcher", &[]);
    assert_eq!(said.lines().last(), Some("['a 1', 'b 1']"), "{said}");
}

#[test]
fn qtoolkit_reads_nodes_and_cpus_and_cancels() {
    let Some(clients) = Clients::start() else { return };
    let expected = "True\ntwo 2 4 2 default\n1\nTrue\n";
    assert_eq!(clients.script("qtoolkit", &[]), expected);
}

#[test]
fn reportseff_compares_use_and_request() {
    let Some(clients) = Clients::start() else { return };
    let script = "#!/bin/bash\n#SBATCH -J eff --mem=1G -c 1 -t 10\n\
                  python3 -c 'x = bytearray(300_000_000)'\n";
    std::fs::write(clients.cluster.work().join("a.sh"), script).unwrap();
    clients.run(&["sbatch", "--wait", "a.sh"]).ok();
    let report = clients.run(&["reportseff", "--no-color", "1"]).ok();
    let row: Vec<&str> = report.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row[..2], ["1", "COMPLETED"], "{report}");
    // Of 1 GiB.
    let memory: f64 = row.last().unwrap().trim_end_matches('%').parse().unwrap();
    assert!((25.0..45.0).contains(&memory), "{report}");
    let user = clients.cluster.job("1").user;
    let listed = clients.run(&["reportseff", "--no-color", "--user", &user, "--since", "d=1"]).ok();
    assert!(listed.contains("COMPLETED"), "{listed}");
}

#[test]
fn slurm_gpustat_counts_gpus_by_user() {
    let Some(clients) = Clients::start() else { return };
    let id = clients.run(&["sbatch", "--parsable", "--gres=gpu:3", "--wrap=sleep 1000"]).ok();
    let job = clients.cluster.until_is(id.trim(), "running");
    let said = clients.run(&["slurm_gpustat"]).ok();
    let is_of_user = |line: &str| line.contains(&job.user) && line.contains('3');
    assert!(said.lines().any(is_of_user), "{said}");
}

/// The commands of batchspawner 1.3.0 (`SlurmSpawner.batch_query_cmd`), of turm 0.17.0
/// (`job_watcher.rs`) and of slurm-top.
#[test]
fn queries_of_batchspawner_and_turm_have_all_fields() {
    let Some(clients) = Clients::start() else { return };
    let words = ["sbatch", "--parsable", "-J", "web", "-G", "1", "-o", "out-%j"];
    let id = clients.run(&[&words[..], &["--wrap=sleep 1000"]].concat()).ok();
    let id = id.trim();
    let job = clients.cluster.until_is(id, "running");
    let node = &job.placement[0].node;
    let state = clients.run(&["squeue", "-h", "-j", id, "-o", "%T %B"]).ok();
    assert_eq!(state, format!("RUNNING {node}\n"));
    let fields = [
        "jobid",
        "name",
        "state",
        "username",
        "timeused",
        "tres-alloc",
        "partition",
        "nodelist",
        "stdout",
        "stderr",
        "command",
        "statecompact",
        "reason",
        "ArrayJobID",
        "ArrayTaskID",
        "NodeList",
        "WorkDir",
    ];
    let format: Vec<String> = fields.iter().map(|field| format!("{field}:###turm###")).collect();
    let row = clients.run(&["squeue", "--array", "--noheader", "--Format", &format.join(",")]).ok();
    let cells: Vec<&str> = row.trim_end_matches('\n').split("###turm###").collect();
    assert_eq!(cells.len(), fields.len() + 1, "{row}");
    let of = |name: &str| cells[fields.iter().position(|field| *field == name).unwrap()].trim();
    assert_eq!(
        (of("jobid"), of("name"), of("state"), of("statecompact")),
        (id, "web", "RUNNING", "R")
    );
    assert!(of("tres-alloc").contains("gres/gpu"), "{row}");
    assert!(of("stdout").ends_with(&format!("out-{id}")), "{row}");
    let row = clients.run(&["squeue", "-h", "-O", "JobID:|,Name:|,State:|"]).ok();
    assert_eq!(row, format!("{id}|web|RUNNING|\n"));
}
