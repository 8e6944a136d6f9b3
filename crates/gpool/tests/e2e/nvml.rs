//! The real path to the driver, with a stub library that reads its answers from a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gpool_stub_nvml::{Device, Event, Process, STATE_FILE, State, install};

use crate::harness::{Cluster, Gate, until_so};
use crate::http::Http;

/// `nvmlEventTypeXidCriticalError`.
pub(crate) const XID: u64 = 8;

/// The driver of a cluster: its state, and the file for it.
pub struct Driver {
    file: PathBuf,
    pub state: State,
}

impl Driver {
    pub fn write(&self) {
        self.state.write(&self.file).unwrap();
    }
}

pub fn device(index: u32) -> Device {
    Device {
        uuid: format!("GPU-0000000{index}-aaaa-bbbb-cccc-00000000000{index}"),
        name: "NVIDIA A100-SXM4-80GB".to_owned(),
        memory: Some(80 << 30),
        used: 1 << 30,
        bus: format!("00000000:0{}:00.0", index + 1),
        minor: Some(index),
        processes: Some(Vec::new()),
        utilization: Some(7),
        temperature: Some(41),
        power_mw: Some(65_500),
        ..Device::default()
    }
}

/// A cluster with three free devices.
pub fn cluster() -> (Cluster, Driver) {
    cluster_of((0..3).map(device).collect())
}

pub fn cluster_of(devices: Vec<Device>) -> (Cluster, Driver) {
    cluster_with("570.124.06", devices)
}

/// A cluster with this version of the driver.
pub fn cluster_with(version: &str, devices: Vec<Device>) -> (Cluster, Driver) {
    cluster_set(version, devices, "")
}

/// A cluster with these settings.
pub fn cluster_set(version: &str, devices: Vec<Device>, settings: &str) -> (Cluster, Driver) {
    let mut cluster = Cluster::unstarted(&["--devices", "nvml"]);
    let folder = cluster.path("driver");
    std::fs::create_dir(&folder).unwrap();
    let library = install(&folder).unwrap();
    let cuda = gpool_stub_cuda::install(&folder).unwrap();
    let state = State { driver: version.to_owned(), devices, ..State::default() };
    let driver = Driver { file: folder.join(STATE_FILE), state };
    driver.write();
    cluster.variables.push(("GPOOL_NVML_PATH".to_owned(), library.display().to_string()));
    if !settings.is_empty() {
        let file = cluster.path("gpool.toml");
        std::fs::write(&file, settings).unwrap();
        cluster.variables.push(("GPOOL_CONFIG".to_owned(), file.display().to_string()));
        cluster.variables.push(("GPOOL_CUDA_PATH".to_owned(), cuda.display().to_string()));
    }
    cluster.up();
    (cluster, driver)
}

#[test]
fn the_inventory_is_the_drivers() {
    let (cluster, _driver) = cluster();
    let gpus = cluster.gpool(["gpus", "--json"]).json();
    assert_eq!(gpus["items"].as_array().unwrap().len(), 3);
    let first = &gpus["items"][0];
    assert_eq!(first["uuid"], "GPU-00000000-aaaa-bbbb-cccc-000000000000");
    assert_eq!(first["model"], "NVIDIA A100-SXM4-80GB");
    assert_eq!((&first["memory_total"], &first["minor"]), (&(80_u64 << 30).into(), &0.into()));
    assert_eq!(first["pci_bus"], "00000000:01:00.0");
    until_so("it is sampled", || {
        let gpus = cluster.gpool(["gpus", "--json"]).json();
        gpus["items"][0]["temperature_c"] == 41 && gpus["items"][0]["power_w"] == 65.5
    });
    let line = "echo $CUDA_VISIBLE_DEVICES";
    let out = cluster.gpool(["run", "--gpus", "a100:1", "--", "sh", "-c", line]).ok();
    assert_eq!(out, "GPU-00000000-aaaa-bbbb-cccc-000000000000\n");
    assert_eq!(cluster.client().nodes().unwrap().items[0].name, "lab1");
}

#[test]
fn the_activity_of_the_units_is_shown_and_exported() {
    let mut hopper = device(0);
    hopper.memory_temperature = Some(52);
    hopper.sm_clock = Some(1410);
    hopper.energy_mj = Some(7_500);
    hopper.capped_ns = BTreeMap::from([(0, 4_000_000_000)]);
    (hopper.ecc_corrected, hopper.rows_remapped) = (Some(3), Some((1, 0)));
    // An Xid of a program, which is no fault of the GPU.
    hopper.events = Some(vec![Event { kind: XID, data: 31 }]);
    // Multiprocessors, tensor cores and memory bandwidth, by `nvmlGpmMetricId_t`.
    hopper.counters = Some(BTreeMap::from([(2, 35.5), (5, 20.0), (10, 12.0)]));
    let (cluster, _driver) = cluster_of(vec![hopper, device(1)]);
    until_so("the counters were read twice", || {
        cluster.gpool(["gpus", "--json"]).json()["items"][0]["detail"]["sm_active"] == 0.355
    });
    let gpus = cluster.gpool(["gpus", "--json"]).json();
    assert_eq!(gpus["items"][1]["detail"], serde_json::json!({}), "absent is not zero");
    let page = cluster.gpool(["gpus", "0"]).ok();
    for line in [
        "active   multiprocessors 36 %, tensor cores 20 %, memory bandwidth 12 %",
        "temp     41 °C, memory 52 °C",
        "power    66 W, 1410 MHz",
        "slowed   4 s by its power limit",
        "errors   3 corrected memory errors, 1 replaced memory row, Xid 31",
    ] {
        let is_there = page.lines().any(|it| it.split_whitespace().eq(line.split_whitespace()));
        assert!(is_there, "{line}: {page}");
    }
    let metrics = Http::new(&cluster).get("/metrics").body;
    for (name, rest) in [
        ("gpool_gpu_sm_active_ratio", "} 0.355"),
        ("gpool_gpu_energy_joules_total", "} 7.5"),
        ("gpool_gpu_throttle_seconds_total", "reason=\"power\"} 4.0"),
        ("gpool_gpu_ecc_errors_total", "type=\"corrected\"} 3.0"),
        ("gpool_gpu_xid_errors_total", "xid=\"31\"} 1.0"),
    ] {
        let rows = || metrics.lines().filter(|line| line.starts_with(name));
        assert_eq!(rows().count(), 1, "{name}: {metrics}");
        assert!(rows().all(|line| line.ends_with(rest)), "{name}: {metrics}");
    }
}

#[test]
fn unmanaged_processes_and_faults_are_read_from_the_driver() {
    let (cluster, mut driver) = cluster();
    // A process that exists, so that its owner can be looked up.
    let pid = std::process::id();
    driver.state.devices[0].processes = Some(vec![Process { pid, memory: Some(5 << 30) }]);
    driver.write();
    let process = cluster.until_gpu_is(0, "unmanaged").unmanaged.swap_remove(0);
    assert_eq!((process.pid, process.memory), (pid, Some(5 << 30)));
    assert!(process.user.is_some() && process.name.is_some(), "{process:?}");
    driver.state.devices[1].lost = true;
    driver.write();
    cluster.until_gpu_is(1, "lost");
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&id, "running");
    assert_eq!(cluster.devices_of(&id), [2]);
    let next = cluster.sh(&["--gpus", "1"], "true");
    assert_eq!(cluster.job(&next).state.as_str(), "pending");
    driver.state.devices[0].processes = Some(Vec::new());
    driver.write();
    assert_eq!(cluster.until_ended(&next).placement[0].devices, [0]);
}

#[test]
fn processes_of_jobs_are_not_unmanaged() {
    let (cluster, mut driver) = cluster();
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000 & echo $!; wait");
    until_so("its child is known", || cluster.stdout_of(&id).ends_with('\n'));
    let pid = cluster.stdout_of(&id).trim().parse().unwrap();
    driver.state.devices[0].processes = Some(vec![Process { pid, memory: None }]);
    // Both appear in the same poll, so once this one is shown, the other was checked too.
    let stranger = Process { pid: std::process::id(), memory: None };
    driver.state.devices[1].processes = Some(vec![stranger]);
    driver.write();
    cluster.until_gpu_is(1, "unmanaged");
    assert!(cluster.gpu(0).unmanaged.is_empty());
    assert_eq!(cluster.gpu_state(0), "busy");
}

#[test]
fn earlier_runs_with_little_memory_suggest_a_share() {
    let (cluster, mut driver) = cluster_of(vec![device(0)]);
    for gib in [9_u64, 11, 10] {
        let gate = Gate::new(&cluster, &format!("gate-{gib}"));
        let (name, line) = (format!("train-{gib}"), gate.line());
        let flags = ["submit", "--gpus", "1", "--name", &name, "--", "sh", "-c", &line];
        let out = cluster.gpool(flags);
        assert!(!out.err.contains("earlier runs"), "{out:?}");
        let id = out.ok().trim().to_owned();
        cluster.until_is(&id, "running");
        driver.state.devices[0].used = gib << 30;
        driver.write();
        until_so("it was sampled", || cluster.gpu(0).memory_used == Some(gib << 30));
        gate.open();
        assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    }
    let note = "note: 3 earlier runs of train-4 used at most 11 GiB of 80 GiB of GPU memory; \
                --gpu-memory 14G would let it share a GPU\n";
    // Held, so that none of them runs and is counted too.
    let submit = |flags: &[&str]| {
        cluster.gpool([&["submit", "--hold", "--name", "train-4"], flags, &["--", "true"]].concat())
    };
    let out = submit(&["--gpus", "1"]);
    assert!(out.err.contains(note), "{out:?}");
    let out = submit(&["--gpus", "1", "--json"]);
    assert!(out.err.contains(note), "{out:?}");
    assert_eq!(out.json()["hints"][0]["flags"], "--gpu-memory 14G");
    assert_eq!(submit(&["--gpus", "1", "-q"]).err, "");
    for flags in [&["--gpu-memory", "14G"][..], &[]] {
        let out = submit(flags);
        assert!(!out.err.contains("earlier runs"), "{out:?}");
    }
}

#[test]
fn the_compute_of_each_share_is_measured_and_labelled_as_booked() {
    let (cluster, mut driver) = cluster_of(vec![device(0)]);
    let job = || cluster.sh(&["--gpus", "0.5"], "echo $$; exec sleep 1000");
    let jobs = [job(), job()];
    let pid = |job: &String| {
        until_so("it printed its process", || cluster.stdout_of(job).ends_with('\n'));
        cluster.stdout_of(job).trim().parse::<u32>().unwrap()
    };
    let pids = [pid(&jobs[0]), pid(&jobs[1])];
    let running = pids.map(|pid| Process { pid, memory: Some(2 << 30) });
    driver.state.devices[0].processes = Some(running.to_vec());
    driver.write();
    let compute = || cluster.gpu(0).shares.iter().map(|it| it.compute).collect::<Vec<_>>();
    assert_eq!(compute(), [None, None], "this driver does not report it");
    driver.state.devices[0].process_utilization = Some([(pids[0], 35), (pids[1], 0)].into());
    driver.write();
    until_so("it is measured", || compute() == [Some(0.35), Some(0.0)]);
    assert!(cluster.gpu(0).shares.iter().all(|it| it.compute_enforcement == "booked"));
    let page = cluster.gpool(["gpus", "0"]).ok();
    assert!(page.contains("compute 35 % (booked)"), "{page}");
}
