//! Machines with agents that differ from each other, or change: their place in the network, clocks,
//! versions of gpool, devices after a restart, the name of the server, and a stolen key.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gpool_protocol::VERSION;
use gpool_stub_nvml::{STATE_FILE, State, install};
use gpool_wire::Node;

use crate::clock::Clock;
use crate::harness::{Cluster, Gate, Machine, is_root, kill_9, processes_of, skip, until_so};
use crate::nvml::device;
use crate::recovery::waits_at;

fn cluster() -> Cluster {
    Cluster::with(&["--devices", "sim:1xT4-16G", "--listen", "127.0.0.1:0"])
}

fn node(cluster: &Cluster, name: &str) -> Node {
    cluster.client().nodes().unwrap().items.into_iter().find(|it| it.name == name).unwrap()
}

fn has_label(cluster: &Cluster, label: &str) -> bool {
    node(cluster, "lab2").labels.iter().any(|it| it == label)
}

/// Writes a program that prints a text in place of `lldpctl`.
fn neighbours(folder: &Path, switch: &str) {
    let chassis = format!(
        r#"[{{"name":[{{"value":"{switch}"}}],"capability":[{{"type":"Bridge","enabled":true}}]}}]"#
    );
    let answer = format!(r#"{{"lldp":[{{"interface":[{{"chassis":{chassis}}}]}}]}}"#);
    let program = folder.join("lldpctl");
    std::fs::write(&program, format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_machine_tells_its_switch_and_jobs_choose_by_it() {
    let cluster = cluster();
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    neighbours(&machine.path(""), "leaf-7");
    let path = format!("{}:/usr/bin:/bin", machine.path("").display());
    machine.variables = vec![("PATH".to_owned(), path)];
    machine.join("lab2");
    until_so("the label is there", || has_label(&cluster, "gpool/switch=leaf-7"));
    let id = cluster.sh(&["--where", "gpool/switch=leaf-7"], "echo $GPOOL_NODE");
    cluster.until_ended(&id);
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "lab2\n");
    // An admin knows better, until the label is removed.
    cluster.gpool(["nodes", "label", "lab2", "gpool/switch=leaf-9"]).ok();
    assert!(has_label(&cluster, "gpool/switch=leaf-9"));
    let none = ["submit", "--where", "gpool/switch=leaf-7", "--", "true"];
    cluster.gpool(none).refused(4, &["GP0418", "gpool/switch=leaf-9"]);
    cluster.gpool(["nodes", "label", "lab2", "gpool/switch-"]).ok();
    assert!(has_label(&cluster, "gpool/switch=leaf-7"));
}

#[test]
fn the_clock_and_the_use_of_a_machine_are_shown() {
    let cluster = cluster();
    let Some((clock, variables)) = Clock::of_program(&cluster, "+1h") else { return };
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    machine.variables = variables;
    machine.join("lab2");
    let offset = || node(&cluster, "lab2").clock_offset_ms;
    until_so("it is ahead", || offset().is_some_and(|ms| (3_590_000..=3_610_000).contains(&ms)));
    let table = cluster.gpool(["nodes", "-o", "wide"]).ok();
    assert!(table.contains("its clock is off by +3"), "{table}");
    until_so("its CPU is known", || node(&cluster, "lab2").agent_cpu_percent.is_some());
    let shown = node(&cluster, "lab2");
    assert!(shown.agent_memory.is_some_and(|bytes| bytes > 1 << 20), "{shown:?}");
    assert!(shown.last_message_at.is_some());
    let metrics = cluster.client().metrics().unwrap();
    assert!(metrics.contains("gpool_node_clock_offset_seconds{node=\"lab2\"} 3"), "{metrics}");
    // A step backwards in the middle of a job ends neither the job nor its output.
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "a100", "--time", "1h"], &waits_at(&gate));
    until_so("it has begun", || cluster.gpool(["logs", &id]).out.starts_with("begun"));
    clock.set("-2h");
    until_so("it is behind", || offset().is_some_and(|ms| ms < -7_000_000));
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "begun\ndone\n");
}

#[test]
fn agents_of_the_next_version_work_and_a_later_one_is_refused_without_harm_to_its_jobs() {
    let cluster = cluster();
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    let version = |version: u32| {
        let point = format!("agent-protocol-version=return({version})");
        vec![("GPOOL_WRONGPOINT".to_owned(), point)]
    };
    machine.variables = version(VERSION + 1);
    machine.join("lab2");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "a100"], &waits_at(&gate));
    until_so("it has begun", || cluster.gpool(["logs", &id]).out.starts_with("begun"));
    machine.kill_agent();
    machine.variables = version(VERSION + 2);
    machine.start(&[]);
    machine.until_says("refuses this agent");
    let refusal = || node(&cluster, "lab2").agent_refusal;
    assert!(refusal().is_some_and(|why| why.ends_with("upgrade the server")), "{:?}", refusal());
    let table = cluster.gpool(["nodes"]).ok();
    assert!(table.contains("agent refused: gpool"), "{table}");
    machine.kill_agent();
    machine.variables.clear();
    machine.start(&[]);
    until_so("it is welcome", || refusal().is_none());
    gate.open();
    let ended = cluster.until_ended(&id);
    assert_eq!((ended.run.exit_code, ended.run.attempt), (Some(5), 1));
}

/// The words before a command that sees other contents in a file of the system.
fn with_file(file: &Path, system: &str) -> Option<Vec<String>> {
    let probe = std::process::Command::new("unshare").args(["--mount", "true"]).status();
    if !is_root() || !probe.is_ok_and(|status| status.success()) {
        skip("only root makes mount namespaces");
        return None;
    }
    let line = format!("mount --bind {} {system} && exec \"$@\"", file.display());
    Some(["unshare", "--mount", "sh", "-c", &line, "sh"].map(str::to_owned).to_vec())
}

#[test]
fn a_machine_that_was_restarted_with_its_devices_in_another_order_keeps_them_apart() {
    let cluster = cluster();
    let boot_id = cluster.path("boot_id");
    std::fs::write(&boot_id, "00000000-0000-4000-8000-000000000000\n").unwrap();
    let Some(rebooted) = with_file(&boot_id, "/proc/sys/kernel/random/boot_id") else { return };
    let mut machine = Machine::new(&cluster, "lab2", "nvml");
    let library = install(&machine.path("")).unwrap();
    let write = |devices: Vec<gpool_stub_nvml::Device>| {
        let state = State { driver: "580.95.05".into(), devices, ..State::default() };
        state.write(&library.with_file_name(STATE_FILE)).unwrap();
    };
    let (first, mut second) = (device(0), device(1));
    second.name = "NVIDIA H100 80GB HBM3".to_owned();
    write(vec![first.clone(), second.clone()]);
    machine.variables = vec![("GPOOL_NVML_PATH".to_owned(), library.display().to_string())];
    machine.join("lab2");
    let again = cluster.sh(&["--gpus", "h100", "--on-node-lost", "requeue"], "echo; sleep 1000");
    let lost = cluster.sh(&["--gpus", "a100"], "echo; sleep 1000");
    for id in [&again, &lost] {
        until_so("it has begun", || cluster.gpool(["logs", id]).out == "\n");
    }
    // Its shepherds first, or they would see the ends of their programs.
    let shepherds = [&again, &lost].map(|id| cluster.shepherd(id));
    machine.kill_agent();
    shepherds.into_iter().for_each(kill_9);
    until_so("all are dead", || {
        let left = processes_of(&machine.path(""));
        left.iter().copied().for_each(kill_9);
        left.is_empty()
    });
    let (mut moved, mut other) = (first, second);
    (moved.minor, other.minor) = (Some(1), Some(0));
    write(vec![other.clone(), moved]);
    machine = machine.on(rebooted);
    machine.start(&[]);
    assert_eq!(cluster.until_ended(&lost).run.cause.as_deref(), Some("rebooted"));
    until_so("it runs again", || cluster.job(&again).run.attempt == 2);
    let placed = cluster.job(&again).placement;
    assert_eq!((&placed[0].uuids[..], &placed[0].devices[..]), (&[other.uuid][..], &[0][..]));
    cluster.gpool(["cancel", &again]).ok();
    cluster.until_ended(&again);
}

#[test]
fn a_machine_that_cannot_resolve_the_server_waits_until_it_can() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listen = address.to_string();
    let mut cluster = Cluster::unstarted(&["--devices", "none", "--listen", &listen]);
    let (settings, hosts) = (cluster.path("gpool.toml"), cluster.path("hosts"));
    std::fs::write(&settings, "tls_names = [\"server.test\"]\n").unwrap();
    cluster.variables = vec![("GPOOL_CONFIG".to_owned(), settings.display().to_string())];
    cluster.up();
    let resolves = "127.0.0.1 localhost server.test\n";
    std::fs::write(&hosts, resolves).unwrap();
    let Some(within) = with_file(&hosts, "/etc/hosts") else { return };
    let mut machine = Machine::new(&cluster, "lab2", "sim:1xA100-80G").on(within);
    machine.join_at("lab2", &format!("https://server.test:{}", address.port()));
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "1"], &waits_at(&gate));
    until_so("it has begun", || cluster.gpool(["logs", &id]).out.starts_with("begun"));
    machine.kill_agent();
    // The file is the same one, as the mount shows it.
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    machine.start(&[]);
    machine.until_says("no connection to the server; trying again");
    gate.open();
    std::fs::write(&hosts, resolves).unwrap();
    let ended = cluster.until_ended(&id);
    assert_eq!((ended.run.exit_code, ended.run.attempt), (Some(5), 1));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "begun\ndone\n");
}

#[test]
fn a_stolen_key_reaches_the_jobs_of_its_own_node_only() {
    let cluster = cluster();
    let mut machine = Machine::new(&cluster, "lab2", "sim:1xA100-80G");
    machine.join("lab2");
    let mut other = Machine::new(&cluster, "lab3", "sim:1xH100-80G");
    other.join("lab3");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "h100"], &waits_at(&gate));
    until_so("it has begun", || cluster.gpool(["logs", &id]).out.starts_with("begun"));
    let mut thief = Machine::new(&cluster, "thief", "sim:1xH100-80G");
    std::fs::create_dir(thief.path("agent")).unwrap();
    let key = "agent/enrollment.json";
    std::fs::copy(machine.path(key), thief.path(key)).unwrap();
    thief.start(&[]);
    thief.until_says("connected to the server");
    gate.open();
    let ended = cluster.until_ended(&id);
    assert_eq!((ended.run.exit_code, ended.placement[0].node.as_str()), (Some(5), "lab3"));
    // A new token for the machine makes the stolen key worthless.
    machine.kill_agent();
    std::fs::remove_file(machine.path(key)).unwrap();
    machine.join("lab2");
    thief.end().refused(5, &["GP0531"]);
    // Its GPUs may not be known yet.
    let id = cluster.sh(&["--gpus", "a100", "--allow-unsatisfiable"], "echo $GPOOL_NODE");
    cluster.until_ended(&id);
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "lab2\n");
}
