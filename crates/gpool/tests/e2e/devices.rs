//! Devices that other processes use, that break, that hang, or that do not exist.

use crate::harness::{Cluster, until_so};

#[test]
fn an_unmanaged_process_is_shown_and_left_alone() {
    let cluster = Cluster::new("sim:2xH100-80G");
    cluster
        .gpool([
            "sim",
            "add-process",
            "0",
            "--pid",
            "4000001",
            "--memory",
            "61G",
            "--name",
            "python",
            "--user",
            "eve",
        ])
        .ok();
    let seen = cluster.until_gpu_is(0, "unmanaged");
    let process = &seen.unmanaged[0];
    assert_eq!((process.pid, process.user.as_deref()), (4_000_001, Some("eve")));
    assert_eq!((process.name.as_deref(), process.memory), (Some("python"), Some(61 << 30)));
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains("unmanaged") && table.contains("eve"), "{table}");
    // No job gets that device.
    let one = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&one, "running");
    assert_eq!(cluster.devices_of(&one), [1]);
    let two = cluster.sh(&["--gpus", "1"], "true");
    let why = cluster.why(&two);
    assert!(why.contains("eve") && why.contains("python"), "{why}");
    let why = cluster.gpool(["why", &two, "--json"]).json();
    let codes: Vec<_> = why["items"][0]["reasons"].as_array().unwrap().clone();
    assert!(codes.iter().any(|reason| reason["code"] == "unmanaged_process"), "{why}");
    // A job on both is not impossible: the other process may end.
    let all = cluster.sh(&["--gpus", "2"], "true");
    assert_eq!(cluster.job(&all).state.as_str(), "pending");
    cluster.gpool(["sim", "remove-process", "0", "--pid", "4000001"]).ok();
    assert_eq!(cluster.until_ended(&two).placement[0].devices, [0]);
    cluster.gpool(["cancel", &one]).ok();
    assert_eq!(cluster.until_ended(&all).run.exit_code, Some(0));
}

#[test]
fn a_job_that_started_just_before_keeps_its_device() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&id, "running");
    cluster.gpool(["sim", "add-process", "0", "--pid", "4000002", "--user", "eve"]).ok();
    until_so("the process is seen", || !cluster.gpu(0).unmanaged.is_empty());
    assert_eq!(cluster.job(&id).state.as_str(), "running");
}

#[test]
fn broken_and_lost_devices_are_not_used_until_they_recover() {
    let cluster = Cluster::new("sim:3xH100-80G");
    cluster.gpool(["sim", "break", "0", "--why", "Xid 48"]).ok();
    cluster.gpool(["sim", "break", "1", "--lost"]).ok();
    let broken = cluster.until_gpu_is(0, "unhealthy");
    assert!(broken.health_why.is_some_and(|why| why.contains("Xid 48")));
    cluster.until_gpu_is(1, "lost");
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&id, "running");
    assert_eq!(cluster.devices_of(&id), [2]);
    let next = cluster.sh(&["--gpus", "1"], "true");
    let why = cluster.why(&next);
    assert!(why.contains("Xid 48"), "{why}");
    cluster.gpool(["sim", "heal", "0"]).ok();
    assert_eq!(cluster.until_ended(&next).placement[0].devices, [0]);
    cluster.gpool(["sim", "heal", "1"]).ok();
    cluster.until_gpu_is(1, "free");
}

#[test]
fn a_device_that_hangs_stops_nothing_else() {
    let cluster = Cluster::new("sim:3xH100-80G");
    cluster.gpool(["sim", "hang", "0"]).ok();
    let hung = cluster.until_gpu_is(0, "unknown");
    assert!(hung.health_why.is_some());
    let id = cluster.sh(&["--gpus", "2"], "sleep 1000");
    cluster.until_is(&id, "running");
    assert_eq!(cluster.devices_of(&id), [1, 2]);
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 3"]).code, 3);
    let next = cluster.sh(&["--gpus", "1"], "true");
    assert_eq!(cluster.job(&next).state.as_str(), "pending");
    // Meanwhile faults of other devices are still noticed.
    cluster.gpool(["sim", "break", "2"]).ok();
    cluster.until_gpu_is(2, "unhealthy");
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    cluster.gpool(["sim", "unhang", "0"]).ok();
    assert_eq!(cluster.until_ended(&next).placement[0].devices, [0]);
}

#[test]
fn a_server_starts_beside_a_device_that_hangs() {
    let mut cluster = Cluster::new("sim:2xH100-80G");
    cluster.gpool(["sim", "hang", "1"]).ok();
    cluster.until_gpu_is(1, "unknown");
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&id, "running");
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 3"]).code, 3);
    cluster.gpool(["cancel", &id]).ok();
    assert_eq!(cluster.gpool(["run", "--gpus", "1", "--", "sh", "-c", "exit 4"]).code, 4);
}

#[test]
fn without_devices_all_else_works_and_the_reason_is_shown() {
    let cluster = Cluster::new("none");
    let ran = cluster.gpool(["submit", "--gpus", "1", "--", "true"]);
    ran.refused(4, &["GP0413", "no GPU"]);
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 3"]).code, 3);
    assert_eq!(cluster.gpool(["gpus", "-o", "json"]).json()["items"], serde_json::json!([]));
    assert_eq!(cluster.gpool(["gpus"]).code, 0);
    let ran = cluster.gpool(["sim", "break", "0"]);
    ran.refused(6, &["no simulated GPUs"]);
    // The same with the default devices on a machine without driver.
    let mut other = Cluster::unstarted(&["--devices", "nvml"]);
    other.variables.push(("GPOOL_NVML_PATH".to_owned(), "/no/such/driver.so".to_owned()));
    other.up();
    let ran = other.gpool(["submit", "--gpus", "1", "--", "true"]);
    ran.refused(4, &["GP0413", "driver"]);
    assert_eq!(other.gpool(["run", "--", "true"]).code, 0);
}
