//! All failures of the driver while jobs run: it hangs, returns errors, loses GPUs, reports faults,
//! and returns with other numbers and another order.

use gpool_stub_nvml::{Device, Event};

use crate::harness::{Cluster, Gate, until_so};
use crate::nvml::{self, Driver, XID, device};

/// `NVML_ERROR_GPU_IS_LOST`, `NVML_ERROR_RESET_REQUIRED` and `NVML_ERROR_UNKNOWN`.
const IS_LOST: u32 = 15;
const RESET_REQUIRED: u32 = 16;
const UNKNOWN: u32 = 999;

const PROCESSES: &str = "nvmlDeviceGetComputeRunningProcesses_v3";
const MEMORY: &str = "nvmlDeviceGetMemoryInfo_v2";

/// A job on one GPU that waits at a gate and exits with 5.
fn waiting(cluster: &Cluster, gate: &Gate) -> String {
    let id = cluster.sh(&["--gpus", "1"], &format!("echo begun; {}; exit 5", gate.line()));
    until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
    id
}

#[test]
fn a_hung_driver_blocks_only_jobs_that_need_it() {
    let (mut cluster, mut driver) = nvml::cluster();
    let gate = Gate::new(&cluster, "gate");
    let runs = waiting(&cluster, &gate);
    let short = cluster.sh(&["--gpus", "1", "--time", "3s", "--grace", "1s"], "sleep 1000");
    cluster.until_is(&short, "running");
    driver.state.hang = [PROCESSES, MEMORY].map(str::to_owned).into();
    driver.write();
    for gpu in 0..3 {
        let hung = cluster.until_gpu_is(gpu, "unknown");
        assert!(hung.health_why.is_some_and(|why| why.contains("answer")), "GPU {gpu}");
    }
    // All of this while the driver still hangs.
    assert_eq!(cluster.until_ended(&short).state.as_str(), "timed_out");
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 3"]).code, 3);
    let waits = cluster.sh(&["--gpus", "1"], "exit 6");
    assert_eq!(cluster.job(&waits).state.as_str(), "pending");
    let stopped = cluster.sh(&[], "sleep 1000");
    cluster.until_is(&stopped, "running");
    cluster.gpool(["cancel", &stopped]).ok();
    assert_eq!(cluster.until_ended(&stopped).state.as_str(), "cancelled");
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
    gate.open();
    assert_eq!(cluster.until_ended(&runs).run.exit_code, Some(5));
    assert_eq!(cluster.job(&waits).state.as_str(), "pending");
    assert_eq!(cluster.down(&[]).code, 0, "it can be stopped as well");
    driver.state.hang.clear();
    driver.write();
    cluster.up();
    assert_eq!(cluster.until_ended(&waits).run.exit_code, Some(6));
}

#[test]
fn a_failed_gpu_is_not_used_and_the_others_work() {
    type Fault = (&'static str, &'static str, fn(&mut Device));
    let faults: [Fault; 6] = [
        ("unhealthy", "Xid 79", |gpu| gpu.events = Some(vec![Event { kind: XID, data: 79 }])),
        ("unhealthy", "Xid 48", |gpu| gpu.events = Some(vec![Event { kind: XID, data: 48 }])),
        ("unhealthy", "uncorrected memory", |gpu| gpu.ecc_uncorrected = Some(3)),
        ("lost", "fallen off the bus", |gpu| gpu.errors = [(MEMORY.to_owned(), IS_LOST)].into()),
        ("unhealthy", "reset", |gpu| gpu.errors = [(MEMORY.to_owned(), RESET_REQUIRED)].into()),
        ("unknown", PROCESSES_SHOWN, |gpu| gpu.errors = [(PROCESSES.to_owned(), UNKNOWN)].into()),
    ];
    let devices =
        (0..7).map(|n| Device { events: Some(Vec::new()), ecc_uncorrected: Some(0), ..device(n) });
    let (cluster, mut driver) = nvml::cluster_of(devices.collect());
    let gate = Gate::new(&cluster, "gate");
    // One job on each: none is ended because its GPU fails.
    let ids: Vec<_> = (0..7).map(|_| waiting(&cluster, &gate)).collect();
    for (gpu, (_, _, fail)) in faults.iter().enumerate() {
        fail(&mut driver.state.devices[gpu]);
    }
    driver.write();
    for (gpu, (state, why, _)) in faults.iter().enumerate() {
        // A slow driver may be the shown reason for a moment.
        until_so(&format!("GPU {gpu} is {state}: {why}"), || {
            let shown = cluster.until_gpu_is(gpu, state).health_why;
            shown.is_some_and(|shown| shown.contains(why))
        });
        assert_eq!(cluster.job(&ids[gpu]).state.as_str(), "running", "{state} {why}");
    }
    let next: Vec<_> = (0..2).map(|_| cluster.sh(&["--gpus", "1"], "sleep 1000")).collect();
    for _ in &ids {
        gate.open();
    }
    for id in &ids {
        assert_eq!(cluster.until_ended(id).run.exit_code, Some(5));
    }
    // Only the healthy GPU is allocated.
    cluster.until_is(&next[0], "running");
    assert_eq!(cluster.devices_of(&next[0]), [6]);
    assert_eq!(cluster.job(&next[1]).state.as_str(), "pending");
}

/// The name of that call in error messages.
const PROCESSES_SHOWN: &str = "nvmlDeviceGetComputeRunningProcesses";

#[test]
fn a_job_names_the_errors_of_its_gpus() {
    let devices = (0..2).map(|n| Device { events: Some(Vec::new()), ..device(n) });
    let (cluster, mut driver) = nvml::cluster_of(devices.collect());
    let gate = Gate::new(&cluster, "gate");
    let [fails, other] = [(); 2].map(|()| waiting(&cluster, &gate));
    assert_eq!(cluster.devices_of(&fails), [0]);
    // Just before its end, so that only a last look at its GPU finds it.
    driver.state.devices[0].events = Some(vec![Event { kind: XID, data: 31 }]);
    driver.write();
    gate.open();
    gate.open();
    for id in [&fails, &other] {
        assert_eq!(cluster.until_ended(id).run.exit_code, Some(5));
    }
    let text = "Xid 31 on lab1:0: access to an invalid address of GPU memory (usually caused by a \
                program)";
    let show = cluster.gpool(["show", &fails, "--json"]).json();
    let expected = serde_json::json!([{
        "node": "lab1", "index": 0, "xid": 31, "count": 1, "of_program": true,
        "meaning": "access to an invalid address of GPU memory",
    }]);
    assert_eq!(show["items"][0]["run"]["xids"], expected, "{show}");
    for words in [["show", &fails].as_slice(), &["report", &fails], &["shim", "seff", &fails]] {
        let page = cluster.gpool(words).ok();
        assert!(page.contains(text), "{words:?}: {page}");
    }
    let events = cluster.gpool(["events", &fails]).ok();
    assert!(events.contains(text), "{events}");
    let none = cluster.gpool(["show", &other, "--json"]).json();
    assert_eq!(none["items"][0]["run"]["xids"], serde_json::Value::Null, "{none}");
}

#[test]
fn gpus_keep_their_jobs_when_their_order_and_number_change() {
    let (mut cluster, mut driver) = nvml::cluster();
    let gate = Gate::new(&cluster, "gate");
    let uuids: Vec<_> = driver.state.devices.iter().map(|it| it.uuid.clone()).collect();
    let runs = waiting(&cluster, &gate);
    assert_eq!(cluster.devices_of(&runs), [0]);
    // The driver was reloaded: in reverse order, without one GPU, and with a new one.
    cluster.kill();
    driver.state.devices.reverse();
    driver.state.devices.remove(1);
    driver.state.devices.push(device(7));
    driver.write();
    cluster.up();
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
    let shown = cluster.gpool(["gpus", "--json"]).json();
    let job_of = |uuid: &str| {
        let items = shown["items"].as_array().unwrap();
        let gpu = items.iter().find(|gpu| gpu["uuid"] == uuid);
        gpu.map(|gpu| (gpu["index"].as_u64().unwrap(), gpu["job"].as_str().unwrap().to_owned()))
    };
    assert_eq!(job_of(&uuids[0]), Some((1, runs.clone())), "its index is different: {shown}");
    let both = cluster.sh(&["--gpus", "2"], "echo $CUDA_VISIBLE_DEVICES");
    assert_eq!(cluster.until_ended(&both).run.exit_code, Some(0));
    let new = &driver.state.devices[2].uuid;
    assert_eq!(cluster.stdout_of(&both), format!("{},{new}\n", uuids[2]));
    gate.open();
    assert_eq!(cluster.until_ended(&runs).run.exit_code, Some(5));
}

#[test]
fn a_gpu_that_the_driver_no_longer_counts_is_not_allocated() {
    let (cluster, mut driver) = nvml::cluster();
    let gate = Gate::new(&cluster, "gate");
    let runs = waiting(&cluster, &gate);
    let gone = driver.state.devices.split_off(2);
    driver.write();
    cluster.until_gpu_is(2, "unknown");
    let ids: Vec<_> = (0..2).map(|_| cluster.sh(&["--gpus", "1"], "sleep 1000")).collect();
    cluster.until_is(&ids[0], "running");
    assert_eq!(cluster.devices_of(&ids[0]), [1]);
    assert_eq!(cluster.job(&ids[1]).state.as_str(), "pending");
    gate.open();
    assert_eq!(cluster.until_ended(&runs).run.exit_code, Some(5));
    cluster.until_is(&ids[1], "running");
    // It is used again when the driver counts it again.
    let next = cluster.sh(&["--gpus", "1"], "exit 6");
    back(&mut driver, gone);
    assert_eq!(cluster.until_ended(&next).run.exit_code, Some(6));
}

fn back(driver: &mut Driver, gone: Vec<Device>) {
    driver.state.devices.extend(gone);
    driver.write();
}
