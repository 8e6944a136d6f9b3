//! The NVML path against a stub library: real loading, symbols and structures, with devices that
//! fail in every way that a state file can describe.

#![allow(clippy::unwrap_used, missing_docs)] // A test may end by a panic, and has no readers.

mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_device::{DeviceSource, Inventory, Monitor, NvmlSource, Observation, PollRequest};
use gpool_model::device::{DeviceHealth, DeviceSample, Link};
use gpool_model::id::DeviceUuid;
use gpool_model::unit::{Bytes, Timestamp};
use gpool_stub_nvml::{Device, Event, Fabric, Instance, Process, STATE_FILE, State, install};
use tempfile::TempDir;

/// Long enough for every answer.
const LONG: Duration = Duration::from_secs(60);
/// The timeout for a hung device; the others must answer within it on a busy machine.
const SHORT: Duration = Duration::from_secs(1);

/// A driver with its state, and a monitor that uses it.
struct Machine {
    folder: TempDir,
    state: State,
    monitor: Monitor,
}

impl Machine {
    fn new(devices: Vec<Device>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = State { driver: "580.95.05".into(), devices, ..State::default() };
        let library = install(folder.path()).unwrap();
        state.write(&folder.path().join(STATE_FILE)).unwrap();
        let source = NvmlSource::open(library.as_os_str(), LONG).unwrap();
        let monitor = Monitor::new(Arc::new(source));
        Self { folder, state, monitor }
    }

    fn edit(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.state);
        self.state.write(&self.folder.path().join(STATE_FILE)).unwrap();
    }

    fn inventory(&mut self) -> Inventory {
        self.monitor.inventory(LONG).unwrap()
    }

    fn look(&mut self, ix: usize, wanted: PollRequest) -> Observation {
        let uuid = DeviceUuid::new(&self.state.devices[ix].uuid);
        self.look_at(&uuid, wanted)
    }

    fn look_at(&mut self, uuid: &DeviceUuid, wanted: PollRequest) -> Observation {
        self.monitor.look_at(uuid, wanted, Timestamp::new(5), LONG)
    }

    fn health(&mut self, ix: usize) -> DeviceHealth {
        self.look(ix, PollRequest { health: true, ..PollRequest::default() }).health
    }
}

/// A large device that supports everything.
fn full(ix: u32) -> Device {
    Device {
        uuid: format!("GPU-{ix}"),
        name: "NVIDIA H100 80GB HBM3".into(),
        memory: Some(80 << 30),
        used: 3 << 30,
        bus: format!("0000FE{ix:02X}:0{ix}:00.0"),
        minor: Some(ix),
        numa: Some(ix / 2),
        processes: Some(vec![]),
        mps_processes: Some(vec![]),
        utilization: Some(40),
        traffic: 12,
        temperature: Some(61),
        memory_temperature: Some(70),
        power_mw: Some(250_000),
        energy_mj: Some(9_000_000),
        sm_clock: Some(1980),
        // The power limit, and the temperature.
        capped_ns: BTreeMap::from([(0, 5_000_000_000), (1, 0)]),
        counters: Some(counters()),
        ecc_uncorrected: Some(0),
        remap_pending: Some(false),
        mig: Some(false),
        events: Some(vec![]),
        ..Device::default()
    }
}

/// By `nvmlGpmMetricId_t`: percentages, then MiB per second.
fn counters() -> BTreeMap<u32, f64> {
    BTreeMap::from([(2, 35.5), (5, 20.0), (10, 12.25), (20, 2.0), (21, 1.0), (60, 3.0), (61, 4.0)])
}

/// An old, small device that supports only the required calls.
fn bare(ix: u32) -> Device {
    Device {
        uuid: format!("GPU-{ix}"),
        name: "NVIDIA T400".into(),
        memory: Some(2 << 30),
        ..Device::default()
    }
}

fn is_unknown(health: &DeviceHealth) -> bool {
    matches!(health, DeviceHealth::Unknown { .. })
}

#[test]
fn an_inventory_lists_the_drivers_devices_in_its_order() {
    let mut machine = Machine::new(vec![full(1), full(0)]);
    let inventory = machine.inventory();
    assert_eq!(inventory.driver, "NVIDIA 580.95.05");
    assert_eq!(inventory.silent, []);
    let uuids: Vec<_> = inventory.devices.iter().map(|it| (it.index, it.uuid.as_str())).collect();
    assert_eq!(uuids, [(0, "GPU-1"), (1, "GPU-0")], "the driver's order, not ours");
    let first = &inventory.devices[0];
    assert_eq!(first.model, "NVIDIA H100 80GB HBM3");
    assert_eq!(first.memory, Bytes::from_gib(80));
    assert_eq!(first.pci_bus, "0000FE01:01:00.0");
    assert_eq!((first.minor, first.numa), (Some(1), Some(0)));
    assert_eq!(first.mig.as_ref().map(|mig| mig.enabled), Some(false));
    assert_eq!(first.health, DeviceHealth::Healthy);
}

#[test]
fn unsupported_values_are_absent_and_no_fault() {
    let mut machine = Machine::new(vec![bare(0)]);
    let inventory = machine.inventory();
    let device = &inventory.devices[0];
    assert_eq!((device.minor, device.numa, device.mig.as_ref()), (None, None, None));
    assert!(device.links.is_empty());
    let seen = machine.look(0, PollRequest::ALL);
    assert_eq!(seen.health, DeviceHealth::Healthy);
    assert_eq!(seen.processes, None, "the list is unknown, not empty");
    let expected = DeviceSample {
        memory_used: Some(Bytes::ZERO),
        memory_free: Some(Bytes::from_gib(2)),
        ..DeviceSample::default()
    };
    assert_eq!(seen.sample, expected);
}

#[test]
fn a_device_without_its_own_memory_reports_the_hosts() {
    let mut machine = Machine::new(vec![Device { memory: None, ..bare(0) }]);
    assert!(machine.inventory().devices[0].memory > Bytes::ZERO);
    assert_eq!(machine.look(0, PollRequest::ALL).sample, DeviceSample::default());
}

#[test]
fn unknown_answers_of_a_driver_are_absent_and_not_errors() {
    let mut strange = full(0);
    strange.topology = BTreeMap::from([(1, 77)]);
    for symbol in ["nvmlDeviceGetMigMode", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetNvLinkState"] {
        strange.errors.insert(symbol.into(), 4321);
    }
    let mut machine = Machine::new(vec![strange, full(1)]);
    let inventory = machine.inventory();
    assert_eq!(inventory.devices[0].links, BTreeMap::new());
    assert_eq!(inventory.devices[0].mig, None);
    let seen = machine.look(0, PollRequest::ALL);
    assert_eq!((seen.health, seen.sample.detail.power_mw), (DeviceHealth::Healthy, None));
}

#[test]
fn the_nvlink_domain_is_that_of_a_fabric_which_the_devices_have_joined() {
    let mut machine = Machine::new((0..2).map(full).collect());
    assert_eq!(machine.inventory().nvlink, None);
    let mut fabric = Fabric { cluster_uuid: [0xab; 16], clique: 7, state: 2 };
    let mut join = |fabric: &Fabric| {
        machine.edit(|state| state.devices[0].fabric = Some(fabric.clone()));
        machine.inventory().nvlink
    };
    assert_eq!(join(&fabric), None, "it has not joined yet");
    fabric.state = 3;
    assert_eq!(join(&fabric).as_deref(), Some("abababab-abab-abab-abab-abababababab.7"));
    fabric.cluster_uuid = [0; 16];
    assert_eq!(join(&fabric), None, "the fabric of one machine has no number");
}

#[test]
fn links_are_the_nearest_way_between_two_devices() {
    let mut devices: Vec<_> = (0..4).map(full).collect();
    // 0 and 1 by three direct NVLinks, with one more link elsewhere; 2 and 3 through switches.
    let bus = |ix: usize, n: usize| vec![devices[ix].bus.to_lowercase(); n];
    let direct = [bus(1, 3), vec!["00000000:99:00.0".into()]].concat();
    let back = bus(0, 3);
    let switches = vec!["00000000:aa:00.0".to_string(), "00000000:bb:00.0".to_string()];
    devices[0].nv_links = Some(direct);
    devices[1].nv_links = Some(back);
    devices[2].nv_links = Some(switches.clone());
    devices[3].nv_links = Some(switches);
    devices[2].nv_peers = BTreeSet::from([3]);
    devices[3].nv_peers = BTreeSet::from([2]);
    devices[0].topology = BTreeMap::from([(1, 20), (2, 30), (3, 50)]);
    devices[1].topology = BTreeMap::from([(0, 20), (2, 40), (3, 50)]);
    devices[3].topology = BTreeMap::from([(2, 10)]);
    let inventory = Machine::new(devices).inventory();
    let link = |from: usize, to: usize| {
        inventory.devices[from].links.get(&inventory.devices[to].uuid).copied()
    };
    assert_eq!(link(0, 1), Some(Link::NvLink(3)));
    assert_eq!(link(1, 0), Some(Link::NvLink(3)));
    assert_eq!(link(2, 3), Some(Link::NvLink(2)), "through switches");
    assert_eq!(link(3, 2), Some(Link::NvLink(2)));
    assert_eq!(link(0, 2), Some(Link::HostBridge), "links that end elsewhere do not count");
    assert_eq!(link(1, 2), Some(Link::Numa));
    assert_eq!(link(0, 3), None, "a link across sockets is not listed");
}

fn part(uuid: &str, memory_mb: u64, slices: u32) -> Instance {
    Instance { uuid: uuid.into(), memory_mb, slices, ..Instance::default() }
}

/// A divided device; its first instance has the driver's own name.
fn divided(ix: u32) -> Device {
    let large = part(&format!("MIG-{ix}b"), 40_192, 3);
    let name = Some("NVIDIA H100 80GB HBM3 MIG 3g.40gb".to_owned());
    let instances = vec![Instance { name, ..large }, part(&format!("MIG-{ix}a"), 9_856, 1)];
    Device { mig: Some(true), instances, ..full(ix) }
}

#[test]
fn mig_instances_are_devices_behind_all_others() {
    let inventory = Machine::new(vec![divided(0), divided(1)]).inventory();
    let devices = &inventory.devices;
    assert!(devices[0].is_divided() && devices[1].is_divided());
    let listed: Vec<_> = devices.iter().map(|it| (it.index, it.uuid.as_str())).collect();
    let instances = [(1000, "MIG-0b"), (1001, "MIG-0a"), (2000, "MIG-1b"), (2001, "MIG-1a")];
    assert_eq!(listed[..2], [(0, "GPU-0"), (1, "GPU-1")]);
    assert_eq!(listed[2..], instances);
    assert_eq!(devices[4].model, "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
    assert_eq!(devices[5].model, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "derived from its size");
    assert_eq!(devices[5].memory, Bytes::from_mib(9_856));
    assert_eq!((devices[4].counts_as().get(), devices[5].counts_as().get()), (490, 142));
    assert_eq!((devices[5].minor, &devices[5].mig), (Some(1), &None), "that of its device");
    assert_eq!(devices[5].instance.as_ref().map(|it| it.parent), Some(1));
}

#[test]
fn processes_belong_to_their_instance_only() {
    let process = |pid| Process { pid, memory: Some(1 << 30) };
    let mut device = divided(0);
    device.instances[0].processes = vec![process(10)];
    device.instances[1].processes = vec![process(11)];
    let mut machine = Machine::new(vec![device]);
    let devices = machine.inventory().devices;
    let mut pids = |ix: usize| -> Vec<u32> {
        let seen = machine.look_at(&devices[ix].uuid, PollRequest::ALL);
        assert_eq!(seen.health, DeviceHealth::Healthy);
        seen.processes.unwrap().iter().map(|it| it.pid).collect()
    };
    assert_eq!((pids(0), pids(1), pids(2)), (vec![], vec![10], vec![11]));
}

#[test]
fn an_instance_has_its_devices_health_and_is_gone_after_a_new_division() {
    let mut machine = Machine::new(vec![divided(0)]);
    let first = machine.inventory().devices;
    machine.edit(|state| state.devices[0].events = Some(vec![Event { kind: 8, data: 79 }]));
    let seen = machine.look_at(&first[1].uuid, PollRequest::ALL);
    assert!(matches!(seen.health, DeviceHealth::Unhealthy { .. }), "{:?}", seen.health);
    machine.edit(|state| state.devices[0].instances = vec![part("MIG-c", 9_856, 1)]);
    let uuids: Vec<_> = machine.inventory().devices.iter().map(|it| it.uuid.clone()).collect();
    assert_eq!(uuids, [DeviceUuid::new("GPU-0"), DeviceUuid::new("MIG-c")]);
    let seen = machine.look_at(&first[1].uuid, PollRequest::ALL);
    assert!(is_unknown(&seen.health), "{:?}", seen.health);
}

#[test]
fn processes_of_both_lists_are_merged_with_owner_program_and_first_sight() {
    let me = std::process::id();
    let mut device = full(0);
    let process = |pid, memory| Process { pid, memory };
    device.processes = Some(vec![process(me, Some(1 << 30)), process(me, None)]);
    device.mps_processes = Some(vec![process(me, Some(2 << 30)), process(u32::MAX, None)]);
    let mut machine = Machine::new(vec![device]);
    machine.inventory();
    let found = machine.look(0, PollRequest::PROCESSES).processes.unwrap();
    assert_eq!(found.iter().map(|it| it.pid).collect::<Vec<_>>(), [me, u32::MAX]);
    assert_eq!(found[0].memory, Some(Bytes::from_gib(2)));
    assert!(found[0].user.is_some() && found[0].name.is_some(), "{found:?}");
    assert_eq!((&found[1].user, &found[1].name, found[1].memory), (&None, &None, None));
    assert_eq!(found[0].seen_since, Timestamp::new(5));
    let uuid = DeviceUuid::new("GPU-0");
    let later = machine.monitor.look_at(&uuid, PollRequest::PROCESSES, Timestamp::new(9), LONG);
    assert_eq!(later.processes.unwrap()[0].seen_since, Timestamp::new(5), "still the first");
    machine.edit(|state| state.devices[0].processes = Some(vec![]));
    machine.edit(|state| state.devices[0].mps_processes = Some(vec![]));
    assert_eq!(machine.look(0, PollRequest::PROCESSES).processes, Some(vec![]));
}

#[test]
fn a_list_of_processes_that_fails_is_not_an_empty_one() {
    let mut machine = Machine::new(vec![full(0)]);
    machine.inventory();
    let symbol = "nvmlDeviceGetComputeRunningProcesses_v3".to_string();
    machine.edit(|state| state.devices[0].errors = BTreeMap::from([(symbol, 999)]));
    let seen = machine.look(0, PollRequest::PROCESSES);
    assert_eq!(seen.processes, None);
    assert!(is_unknown(&seen.health), "{seen:?}");
    let usage = machine.look(0, PollRequest { usage: true, ..PollRequest::default() });
    assert!(is_unknown(&usage.health), "another answer does not clear the error");
    machine.edit(|state| state.devices[0].errors.clear());
    assert_eq!(machine.health(0), DeviceHealth::Healthy, "failed questions are repeated");
}

#[test]
fn a_device_that_falls_off_the_bus_is_lost_and_others_are_not() {
    let mut machine = Machine::new(vec![full(0), full(1)]);
    machine.inventory();
    machine.edit(|state| state.devices[0].lost = true);
    assert_eq!(
        machine.look(0, PollRequest { usage: true, ..PollRequest::default() }).health,
        DeviceHealth::Lost
    );
    assert_eq!(machine.look(1, PollRequest::ALL).health, DeviceHealth::Healthy);
    let inventory = machine.inventory();
    assert_eq!(inventory.devices[0].health, DeviceHealth::Lost, "and is still listed");
    assert_eq!(inventory.devices[0].uuid.as_str(), "GPU-0");
    machine.edit(|state| state.devices[0].lost = false);
    assert_eq!(machine.inventory().devices[0].health, DeviceHealth::Healthy);
}

#[test]
fn a_device_that_never_answered_is_silent_and_hides_no_other() {
    let mut machine = Machine::new(vec![Device { lost: true, ..full(0) }, full(1)]);
    let inventory = machine.inventory();
    assert_eq!(inventory.devices.len(), 1);
    assert_eq!(inventory.devices[0].index, 1);
    assert_eq!(inventory.silent[0].index, 0);
    assert!(inventory.silent[0].why.contains("fallen off the bus"), "{:?}", inventory.silent);
}

#[test]
fn faults_of_the_device_make_it_unhealthy_and_faults_of_programs_do_not() {
    const XID: u64 = 8;
    let mut machine = Machine::new((0..4).map(full).collect());
    machine.inventory();
    machine.edit(|state| {
        state.devices[0].ecc_uncorrected = Some(2);
        state.devices[1].remap_pending = Some(true);
        let events = [13, 31].map(|data| Event { kind: XID, data });
        state.devices[2].events = Some(events.to_vec());
        state.devices[3].events = Some(vec![Event { kind: XID, data: 79 }]);
    });
    let why = |health| match health {
        DeviceHealth::Unhealthy { why } => why,
        other => panic!("{other:?}"),
    };
    assert!(why(machine.health(0)).starts_with("2 uncorrected memory errors"));
    assert!(why(machine.health(1)).contains("waits for a reset"));
    assert_eq!(machine.health(2), DeviceHealth::Healthy);
    assert_eq!(why(machine.health(3)), "Xid 79");
    machine.edit(|state| {
        state.devices[2].events.as_mut().unwrap().push(Event { kind: XID, data: 48 })
    });
    assert_eq!(why(machine.health(2)), "Xid 48");
    assert_eq!(why(machine.health(3)), "Xid 79", "it stays until a reset");
    machine.edit(|state| state.devices[1].remap_pending = Some(false));
    assert_eq!(machine.health(1), DeviceHealth::Healthy);
    machine.edit(|state| state.devices[1].retire_pending = Some(true));
    assert!(why(machine.health(1)).contains("waits"), "pages of older devices");
    machine.edit(|state| state.devices[1].remap_failed = Some(true));
    assert!(why(machine.health(1)).contains("no spare row"));
}

#[test]
fn drivers_may_know_only_some_kinds_of_events_or_none() {
    const XID: u64 = 8;
    let xid_only = Device { event_kinds: Some(XID), ..full(0) };
    let without = Device { event_kinds: Some(0), ..full(1) };
    let mut machine = Machine::new(vec![xid_only, without]);
    machine.inventory();
    machine.edit(|state| {
        for device in &mut state.devices {
            device.events = Some(vec![Event { kind: XID, data: 79 }]);
        }
    });
    assert_eq!(machine.health(0), DeviceHealth::Unhealthy { why: "Xid 79".into() });
    assert_eq!(machine.health(1), DeviceHealth::Healthy, "a device without events is healthy");
}

#[test]
fn newer_kinds_of_events_make_a_device_unhealthy_too() {
    const UNAVAILABLE: u64 = 0x4000;
    let mut machine = Machine::new(vec![full(0)]);
    machine.inventory();
    machine.edit(|state| {
        state.devices[0].events = Some(vec![Event { kind: UNAVAILABLE, data: 0 }]);
    });
    assert!(matches!(machine.health(0), DeviceHealth::Unhealthy { .. }));
}

#[test]
fn a_hung_device_is_unknown_in_time_while_others_answer_and_recovers() {
    let mut machine = Machine::new((0..3).map(full).collect());
    machine.inventory();
    let symbol = "nvmlDeviceGetComputeRunningProcesses_v3".to_string();
    machine.edit(|state| state.devices[1].hang = BTreeSet::from([symbol]));
    let uuids: Vec<_> = (0..3).map(|ix| DeviceUuid::new(format!("GPU-{ix}"))).collect();
    let all: BTreeMap<_, _> = uuids.iter().map(|uuid| (uuid.clone(), PollRequest::ALL)).collect();
    let seen = machine.monitor.look(&all, Timestamp::ZERO, SHORT);
    let DeviceHealth::Unknown { why } = &seen[&uuids[1]].health else { panic!("{seen:?}") };
    assert!(why.contains("usage and processes"), "{why}");
    assert_eq!(seen[&uuids[1]].sample, DeviceSample::default());
    for ix in [0, 2] {
        assert_eq!(seen[&uuids[ix]].health, DeviceHealth::Healthy, "{ix}");
        assert_eq!(seen[&uuids[ix]].processes, Some(vec![]));
    }
    // A second poll returns at once, even with a long timeout; an inventory is not delayed either.
    assert!(is_unknown(&machine.look(1, PollRequest::ALL).health));
    let inventory = machine.inventory();
    assert_eq!(inventory.devices.len(), 3);
    assert!(is_unknown(&inventory.devices[1].health));
    assert_eq!(inventory.devices[2].health, DeviceHealth::Healthy);
    machine.edit(|state| state.devices[1].hang.clear());
    let give_up = Instant::now() + LONG;
    while is_unknown(&machine.look(1, PollRequest::PROCESSES).health) {
        assert!(Instant::now() < give_up, "the device did not recover");
        std::thread::yield_now();
    }
    assert_eq!(machine.look(1, PollRequest::ALL).health, DeviceHealth::Healthy);
}

#[test]
fn a_device_that_hangs_in_the_first_inventory_hides_no_other() {
    let mut hung = full(0);
    hung.hang.insert("nvmlDeviceGetHandleByIndex_v2".into());
    let mut machine = Machine::new(vec![hung, full(1)]);
    // Each step has a third of the timeout.
    let inventory = machine.monitor.inventory(SHORT * 6).unwrap();
    assert_eq!(inventory.devices.iter().map(|it| it.index).collect::<Vec<_>>(), [1]);
    assert_eq!(inventory.silent[0].index, 0);
    assert!(inventory.silent[0].why.contains("did not answer"), "{:?}", inventory.silent);
    machine.edit(|state| state.devices[0].hang.clear());
    let give_up = Instant::now() + LONG;
    while machine.inventory().devices.len() < 2 {
        assert!(Instant::now() < give_up, "the device did not recover");
        std::thread::yield_now();
    }
}

#[test]
fn no_library_and_no_driver_are_normal_and_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere: PathBuf = folder.path().join("libnvidia-ml.so.1");
    let nothing = NvmlSource::open(nowhere.as_os_str(), LONG).err().unwrap();
    assert!(nothing.to_string().contains("libnvidia-ml.so.1"), "{nothing}");
    // A library without a state file acts like one without a driver.
    let library = install(folder.path()).unwrap();
    let nothing = NvmlSource::open(library.as_os_str(), LONG).err().unwrap();
    assert!(nothing.to_string().contains("driver is not loaded"), "{nothing}");
}

#[test]
fn a_driver_that_hangs_at_its_start_times_out() {
    let folder = tempfile::tempdir().unwrap();
    let library = install(folder.path()).unwrap();
    let mut state = State { hang: BTreeSet::from(["nvmlInit_v2".into()]), ..State::default() };
    let file = folder.path().join(STATE_FILE);
    state.write(&file).unwrap();
    let nothing = NvmlSource::open(library.as_os_str(), SHORT).err().unwrap();
    assert!(nothing.to_string().contains("no answer"), "{nothing}");
    state.hang.clear();
    state.write(&file).unwrap();
    let source = NvmlSource::open(library.as_os_str(), LONG).unwrap();
    assert_eq!(source.outline().unwrap().n_devices, 0, "a driver without devices is one too");
}

#[test]
fn the_activity_of_each_process_is_told_where_the_driver_knows() {
    let processes = [11, 12].map(|pid| Process { pid, memory: Some(1 << 30) });
    let device = Device { processes: Some(processes.to_vec()), ..full(0) };
    let mut machine = Machine::new(vec![device]);
    machine.inventory();
    assert_eq!(machine.look(0, PollRequest::ALL).activity, None, "this driver does not tell");
    let busy = |machine: &mut Machine, all: &[(u32, u32)]| {
        let all = all.iter().copied().collect();
        machine.edit(|state| state.devices[0].process_utilization = Some(all));
        let all = machine.look(0, PollRequest::ALL).activity?.into_iter();
        Some(all.map(|(pid, it)| (pid, it.compute_percent)).collect::<Vec<_>>())
    };
    assert_eq!(busy(&mut machine, &[(12, 40)]), Some(vec![(11, 0), (12, 40)]));
    assert_eq!(busy(&mut machine, &[(12, 0), (11, 3)]), Some(vec![(11, 3), (12, 0)]));
    assert_eq!(busy(&mut machine, &[]), Some(vec![(11, 0), (12, 0)]), "no sample is no use");
}
