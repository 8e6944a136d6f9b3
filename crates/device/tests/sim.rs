//! Simulated devices through the monitor: the text form, and a control file that is edited while
//! the monitor runs.

#![allow(clippy::unwrap_used, missing_docs)] // A test may end by a panic, and has no readers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpool_device::{
    Breakage, ChoiceError, DevicesArg, Follows, Inventory, Monitor, NodeDevices, NodesArg,
    Observation, Opened, PollRequest, Query, SimControl, SimLoad, SimProcess, Stated,
};
use gpool_model::device::{DeviceHealth, Link};
use gpool_model::gpu::GpuRequest;
use gpool_model::id::{NodeName, TaskId};
use gpool_model::unit::{Bytes, Timestamp};
use tempfile::TempDir;

/// Long enough for every answer.
const LONG: Duration = Duration::from_secs(60);
/// The timeout for a hung device.
const SHORT: Duration = Duration::from_millis(200);

fn open(argument: &DevicesArg, node: &str, control: &Path) -> Monitor {
    let node = NodeName::new(node);
    match argument.nodes(&node).unwrap().nodes[0].devices.open(&node, control) {
        Opened::Source(source) => Monitor::new(source),
        Opened::Nothing { why } => panic!("{why}"),
    }
}

/// Devices and their control file.
struct Machine {
    folder: TempDir,
    monitor: Monitor,
    control: SimControl,
}

impl Machine {
    fn new(words: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control.toml");
        let mut monitor = open(&DevicesArg::parse(words).unwrap(), "n1", &file);
        let n_devices = monitor.inventory(LONG).unwrap().devices.len();
        Self { folder, monitor, control: SimControl::new(&file, 0..n_devices) }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("control.toml")
    }

    fn inventory(&mut self) -> Inventory {
        self.monitor.inventory(LONG).unwrap()
    }

    fn look(&mut self, ix: usize) -> Observation {
        let uuid = self.inventory().devices[ix].uuid.clone();
        self.monitor.look_at(&uuid, PollRequest::ALL, Timestamp::new(3), LONG)
    }
}

fn refusal(words: &str) -> String {
    DevicesArg::parse(words).unwrap_err().to_string()
}

#[test]
fn text_makes_devices_that_match_requests() {
    let mut machine = Machine::new("sim:4xA100-40G,2xH100-80G");
    let devices = machine.inventory().devices;
    assert_eq!(devices.iter().map(|it| it.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(devices[3].memory, Bytes::from_gib(40));
    assert_eq!(devices[4].model, "NVIDIA H100-80G");
    for (request, fits) in
        [("h100:1", true), ("h100-80g:1", true), ("a100:1", false), ("h10:1", false)]
    {
        let request = GpuRequest::parse(request).unwrap();
        assert_eq!(request.rank_of(&devices[4]).is_some(), fits, "{request:?}");
    }
}

#[test]
fn uuids_are_the_same_at_each_start_and_differ_between_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let argument = DevicesArg::parse("sim:3xH100-80G").unwrap();
    let uuids = |node| -> Vec<String> {
        let inventory = open(&argument, node, &folder.path().join("c")).inventory(LONG).unwrap();
        inventory.devices.iter().map(|device| device.uuid.to_string()).collect()
    };
    let (first, again, other) = (uuids("n1"), uuids("n1"), uuids("n2"));
    assert_eq!(first, again);
    let mut all = [first, other].concat();
    assert!(all.iter().all(|uuid| uuid.starts_with("GPU-sim-")), "{all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6, "{all:?}");
}

#[test]
fn bad_text_is_refused_with_a_correct_example() {
    for words in [
        "sim:",
        "sim:8",
        "sim:H100-80G",
        "sim:0xH100-80G",
        "sim:-3xH100-80G",
        "sim:65xH100-80G",
        "sim:99999999999xH100-80G",
        "sim:2xH100",
        "sim:2xH100-80",
        "sim:2xH100-0G",
        "sim:2x-80G",
        "sim:60xH100-80G,5xA100-40G",
        "sim:2xH100-80G,",
        "sim:2xH\u{7}-80G",
        "nvm",
        "",
        "8xH100-80G",
    ] {
        let refusal = refusal(words);
        assert!(refusal.contains("sim:"), "{words}: {refusal}");
        assert!(!refusal.contains('\u{7}'), "{refusal:?}");
    }
    let expected = "\"sim:2xH100-80\": \"80\" is not an amount of memory; write, for example, \
                    20G or 512M, at \"2xH100-80\"; write, for example, sim:4xA100-40G,4xH100-80G";
    assert_eq!(refusal("sim:2xH100-80"), expected);
    let expected = "\"sim:2xA100-40G,0xH100-80G\": the number of devices is \"0\"; write a \
                    number from 1 to 64, at \"0xH100-80G\"; write, for example, \
                    sim:4xA100-40G,4xH100-80G";
    assert_eq!(refusal("sim:2xA100-40G,0xH100-80G"), expected);
}

#[test]
fn a_file_mixes_models_links_and_numa_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("devices.toml");
    let text = "[[device]]\nmodel = \"NVIDIA H100 80GB HBM3\"\nmemory = \"80G\"\ncount = 2\n\
                numa = 1\nlinks = \"nvlink:18\"\n\
                [[device]]\nmodel = \"NVIDIA T4\"\nmemory = \"16G\"\ncount = 2\nlinks = \"pcie\"\n";
    std::fs::write(&file, text).unwrap();
    let argument = DevicesArg::parse(file.to_str().unwrap()).unwrap();
    let devices = open(&argument, "n1", &folder.path().join("c")).inventory(LONG).unwrap().devices;
    assert_eq!(devices.len(), 4);
    assert_eq!((devices[0].numa, devices[2].numa), (Some(1), None));
    let link = |from: usize, to: usize| devices[from].links.get(&devices[to].uuid).copied();
    assert_eq!(link(0, 1), Some(Link::NvLink(18)));
    assert_eq!(link(3, 2), Some(Link::Switch));
    assert_eq!(link(0, 2), None);
}

#[test]
fn a_bad_file_is_refused_with_its_place_and_the_nearest_word() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("devices.toml");
    let fine = "[[device]]\nmodel = \"T4\"\nmemory = \"16G\"\n";
    for (text, place, hint) in [
        (format!("{fine}memori = \"1G\"\n"), ":4:1:", "did you mean \"memory\"?"),
        (format!("{fine}count = 0\n"), ":4:9:", "from 1 to 64"),
        (format!("{fine}count = -1\n"), ":4:9:", "from 1 to 64"),
        (format!("{fine}links = \"nvlink:0\"\n"), ":4:9:", "host-bridge"),
        ("[[device]]\nmodel = \"T4\"\nmemory = 16\n".into(), ":3:10:", "string"),
        ("[[device]]\nmodel = \"T4\"\nmemory = \"16\"\n".into(), ":3:10:", "20G"),
        ("[[device]]\nmodel = \"T4\"\n".into(), ":1:1:", "memory"),
        ("[[devices]]\n".into(), ":1:3:", "did you mean \"device\"?"),
        ("[[device]\n".into(), ":1:", "]"),
        (String::new(), "devices.toml: ", "[[device]]"),
        (format!("{fine}count = 60\n{fine}count = 5\n"), "devices.toml: ", "at most 64"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let argument = DevicesArg::parse(file.to_str().unwrap()).unwrap();
        let opened = argument.nodes(&NodeName::new("n1"));
        let Err(error @ ChoiceError::File { .. }) = opened else { panic!("{text}") };
        let error = error.to_string();
        assert!(error.contains(place) && error.contains(hint), "{text}\n{error}");
    }
    for path in ["./missing.toml", "/", "/dev/null/x"] {
        let argument = DevicesArg::parse(path).unwrap();
        assert!(argument.nodes(&NodeName::new("n1")).is_err(), "{path}");
    }
}

#[test]
fn none_opens_no_source_and_says_why() {
    let opened = NodeDevices::None.open(&NodeName::new("n"), Path::new("c"));
    assert!(matches!(opened, Opened::Nothing { why } if why.contains("no devices")));
}

fn nodes(asked: &str) -> NodesArg {
    DevicesArg::parse(asked).unwrap().nodes(&NodeName::new("lab")).unwrap()
}

#[test]
fn several_equal_nodes_are_numbered_and_a_single_one_is_not() {
    let several = nodes("3x(sim:2xH100-80G,1xT4-16G)");
    let names: Vec<&str> = several.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!((names, several.are_named), (vec!["lab-1", "lab-2", "lab-3"], false));
    for node in &several.nodes {
        assert_eq!(node.devices, nodes("sim:2xH100-80G,1xT4-16G").nodes[0].devices);
    }
    assert_eq!(nodes("1x(sim:2xH100-80G)"), nodes("sim:2xH100-80G"));
    for (text, why) in [
        ("0x(sim:1xT4-16G)", "1 to 64"),
        ("65x(sim:1xT4-16G)", "1 to 64"),
        ("99999999999999999999x(sim:1xT4-16G)", "number of nodes"),
        ("-1x(sim:1xT4-16G)", "number of nodes"),
        ("2x(sim:1xT4)", "dash"),
        ("2x(nvml)", "2x(sim:8xH100-80G)"),
        ("2x(none)", "2x(sim:8xH100-80G)"),
        ("x(sim:1xT4-16G)", "not a choice of devices"),
        ("2x(sim:1xT4-16G", "not a choice of devices"),
    ] {
        assert!(refusal(text).contains(why), "{text}: {}", refusal(text));
    }
}

#[test]
fn a_file_describes_nodes_with_their_devices() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    let text = "[[node]]\nname = \"a\"\ncpus = 3\nmemory = \"5G\"\n\
                [[node.device]]\nmodel = \"T4\"\nmemory = \"16G\"\ncount = 2\n\
                [[node.device]]\nmodel = \"L4\"\nmemory = \"24G\"\n\
                [[node]]\nname = \"b\"\n";
    std::fs::write(&file, text).unwrap();
    let asked = nodes(file.to_str().unwrap());
    let [a, b] = asked.nodes.as_slice() else { panic!("{asked:?}") };
    assert!(asked.are_named);
    assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
    assert_eq!((a.cpus.unwrap().get(), a.memory), (3000, Some(Bytes::from_gib(5))));
    assert_eq!((b.cpus, b.memory, &b.devices), (None, None, &NodeDevices::None));
    let NodeDevices::Simulated(devices) = &a.devices else { panic!("{a:?}") };
    assert_eq!(devices.iter().map(|it| it.model.as_str()).collect::<Vec<_>>(), ["T4", "T4", "L4"]);
}

#[test]
fn a_bad_file_of_nodes_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.toml");
    let many =
        |n: usize| (0..n).map(|n| format!("[[node]]\nname = \"n{n}\"\n")).collect::<String>();
    let device = "[[node.device]]\nmodel = \"T4\"\nmemory = \"16G\"\n";
    for (text, place, hint) in [
        ("[[node]]\nname = \"a\"\n\n[[node]]\nname = \"a\"\n".to_owned(), ":5:8:", "given twice"),
        ("[[node]]\nname = \"../a\"\n".into(), ":2:8:", "for example n1"),
        ("[[node]]\nname = \"\"\n".into(), ":2:8:", "for example n1"),
        ("[[node]]\nname = \"7\"\n".into(), ":2:8:", "for example n1"),
        ("[[node]]\nname = 7\n".into(), ":2:8:", "string"),
        ("[[node]]\ncpus = 1\n".into(), ":1:1:", "name"),
        ("[[node]]\nname = \"a\"\ncpus = 0\n".into(), ":3:8:", "1 to 4096"),
        ("[[node]]\nname = \"a\"\nmemory = \"0G\"\n".into(), ":3:10:", "needs memory"),
        ("[[node]]\nname = \"a\"\nmemori = \"1G\"\n".into(), ":3:1:", "\"memory\"?"),
        (format!("[[node]]\nname = \"a\"\n{device}count = 65\n"), ":6:9:", "from 1 to 64"),
        (format!("[[node]]\nname = \"a\"\n{device}count = 64\n{device}"), ":1:1:", "node a"),
        (
            "[[node]]\nname = \"a\"\n[[device]]\nmodel = \"T4\"\nmemory = \"1G\"\n".into(),
            ":1:1:",
            "[[node.device]]",
        ),
        (many(65), ":129:1:", "1 to 64"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let asked = DevicesArg::parse(file.to_str().unwrap()).unwrap();
        let error = asked.nodes(&NodeName::new("lab")).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(hint), "{text}\n{error}");
    }
    std::fs::write(&file, many(64)).unwrap();
    assert_eq!(nodes(file.to_str().unwrap()).nodes.len(), 64);
}

#[test]
fn processes_and_memory_follow_the_file() {
    let mut machine = Machine::new("sim:2xH100-80G");
    assert_eq!(machine.look(0).processes, Some(vec![]));
    let process = SimProcess {
        pid: 4_000_000_000,
        memory: Some(Bytes::from_gib(2)),
        name: Some("python".into()),
        user: Some("alice".into()),
    };
    machine.control.add_process(0, process.clone()).unwrap();
    machine.control.use_memory(0, Bytes::from_gib(1)).unwrap();
    machine.control.utilize(0, 70).unwrap();
    let seen = machine.look(0);
    assert_eq!(seen.sample.memory_used, Some(Bytes::from_gib(3)));
    assert_eq!(seen.sample.memory_free, Some(Bytes::from_gib(77)));
    assert_eq!(seen.sample.utilization_percent, Some(70));
    let found = &seen.processes.unwrap()[0];
    assert_eq!((found.pid, found.seen_since), (process.pid, Timestamp::new(3)));
    assert_eq!((&found.user, &found.name), (&process.user, &process.name));
    assert_eq!(machine.look(1).processes, Some(vec![]), "the other device is unaffected");
    machine.control.remove_process(0, process.pid).unwrap();
    machine.control.use_memory(0, Bytes::ZERO).unwrap();
    let seen = machine.look(0);
    assert_eq!((seen.processes, seen.sample.memory_used), (Some(vec![]), Some(Bytes::ZERO)));
}

#[test]
fn device_health_follows_the_file() {
    let mut machine = Machine::new("sim:2xH100-80G");
    machine.control.break_device(0, Breakage::Unhealthy, Some("Xid 79")).unwrap();
    machine.control.break_device(1, Breakage::Lost, None).unwrap();
    assert_eq!(machine.look(0).health, DeviceHealth::Unhealthy { why: "Xid 79".into() });
    assert_eq!(machine.look(1).health, DeviceHealth::Lost);
    assert_eq!(machine.inventory().devices[1].health, DeviceHealth::Lost);
    machine.control.heal(0).unwrap();
    machine.control.heal(1).unwrap();
    assert_eq!(machine.look(0).health, DeviceHealth::Healthy);
    assert_eq!(machine.look(1).health, DeviceHealth::Healthy);
}

#[test]
fn a_hang_makes_one_device_unknown_until_the_file_ends_it() {
    let mut machine = Machine::new("sim:2xH100-80G");
    let uuids: Vec<_> = machine.inventory().devices.into_iter().map(|it| it.uuid).collect();
    machine.control.hang(0, Query::Processes).unwrap();
    let mut look = |ix: usize, wanted, timeout| {
        machine.monitor.look_at(&uuids[ix], wanted, Timestamp::ZERO, timeout).health
    };
    let usage = PollRequest { usage: true, ..PollRequest::default() };
    assert_eq!(look(0, usage, LONG), DeviceHealth::Healthy, "that question does not hang");
    assert!(matches!(look(0, PollRequest::ALL, SHORT), DeviceHealth::Unknown { .. }));
    assert!(matches!(look(0, usage, LONG), DeviceHealth::Unknown { .. }), "an answer is missing");
    assert_eq!(look(1, PollRequest::ALL, LONG), DeviceHealth::Healthy);
    machine.control.unhang(0).unwrap();
    let give_up = Instant::now() + LONG;
    while look(0, PollRequest::ALL, LONG) != DeviceHealth::Healthy {
        assert!(Instant::now() < give_up, "the device did not recover");
        std::thread::yield_now();
    }
}

#[test]
fn a_malformed_control_file_makes_devices_unknown_and_says_where() {
    let mut machine = Machine::new("sim:2xH100-80G");
    for (text, part) in [
        ("[device.0]\nhealth = \"lots\"\n", ":2:10: unknown word \"lots\"; did you mean \"lost\"?"),
        ("[device.0]\nhangs = [\"all\"]\n", "did you mean \"hang\"?"),
        ("[device.2]\nutilization_percent = 3\n", "device \"2\": the node has devices 0 to 1"),
        ("[device.00]\nutilization_percent = 3\n", "there is no device \"00\""),
        ("[[device.0.process]]\npid = -1\n", ":2:7:"),
        ("[device.0\n", ":1:"),
        ("\u{0}\u{1}", ":1:"),
    ] {
        std::fs::write(machine.file(), text).unwrap();
        let DeviceHealth::Unknown { why } = machine.look(0).health else { panic!("{text}") };
        assert!(why.contains(part), "{text}\n{why}");
        assert!(machine.control.heal(0).is_err(), "an edit does not overwrite what it can't read");
        assert_eq!(std::fs::read_to_string(machine.file()).unwrap(), text);
    }
    std::fs::remove_file(machine.file()).unwrap();
    std::fs::create_dir(machine.file()).unwrap();
    assert!(matches!(machine.look(0).health, DeviceHealth::Unknown { .. }), "a directory");
    std::fs::remove_dir(machine.file()).unwrap();
    assert_eq!(machine.look(0).health, DeviceHealth::Healthy);
    assert!(machine.control.heal(2).is_err(), "there are two");
}

#[test]
fn a_monitor_may_live_on_any_thread() {
    fn check<T: Send>() {}
    check::<Monitor>();
}

#[test]
fn a_file_written_by_hand_can_set_all_values() {
    let mut machine = Machine::new("sim:1xH100-80G");
    let text = "[device.0] # a comment\nmemory_used = \"1536M\"\nutilization_percent = 400\n\
                temperature_c = 61\npower_mw = 300000\nprocess = [{ pid = 1 }]\n";
    std::fs::write(machine.file(), text).unwrap();
    let seen = machine.look(0);
    assert_eq!(seen.sample.memory_used, Some(Bytes::from_mib(1536)));
    assert_eq!(seen.sample.utilization_percent, Some(100), "at most 100");
    assert_eq!(
        (seen.sample.detail.temperature_c, seen.sample.detail.power_mw),
        (Some(61), Some(300_000))
    );
    assert!(seen.processes.unwrap()[0].name.is_some(), "a process that exists is looked up");
    machine.control.remove_process(0, 1).unwrap();
    let text = std::fs::read_to_string(machine.file()).unwrap();
    assert!(text.contains("memory_used = \"1536M\""), "other values stay: {text}");
}

#[test]
fn devices_follow_their_tasks_and_the_control_file_wins() {
    let folder = tempfile::tempdir().unwrap();
    let (file, node) = (folder.path().join("control.toml"), NodeName::new("n1"));
    let argument = DevicesArg::parse("sim:2xH100-80G").unwrap();
    let devices = argument.nodes(&node).unwrap().nodes.remove(0).devices;
    let usual = Follows::of_server(Some("50"));
    let Opened::Source(source) = devices.open_following(&node, &file, usual) else {
        panic!("simulated devices open")
    };
    let mut monitor = Monitor::new(source);
    let uuids: Vec<_> =
        monitor.inventory(LONG).unwrap().devices.into_iter().map(|it| it.uuid).collect();
    let task: TaskId = "7#1/0".parse().unwrap();
    let load = |milli, text| SimLoad { task, milli, stated: Stated::parse(text) };
    let mut look = |loads: Vec<SimLoad>| {
        monitor.simulate(|| [(uuids[0].clone(), loads)].into());
        let seen = |uuid| monitor.look_at(uuid, PollRequest::ALL, Timestamp::new(3), LONG).sample;
        uuids.iter().map(seen).collect::<Vec<_>>()
    };
    let seen = look(vec![load(1000, "80,20G")]);
    let of = |ix: usize| (seen[ix].utilization_percent, seen[ix].memory_used);
    assert_eq!(of(0), (Some(80), Some(Bytes::from_gib(20))));
    assert_eq!(of(1), (Some(0), Some(Bytes::ZERO)), "no task uses it");
    assert!(seen[0].detail.power_mw > seen[1].detail.power_mw, "{seen:?}");
    assert!(seen[0].detail.temperature_c > seen[1].detail.temperature_c, "{seen:?}");
    // Half of the device at half load, and a task that states nothing.
    let seen = look(vec![load(500, "50"), load(500, "")]);
    assert_eq!(seen[0].utilization_percent, Some(50));
    SimControl::new(&file, 0..2).utilize(0, 7).unwrap();
    assert_eq!(look(vec![load(1000, "80")])[0].utilization_percent, Some(7));
    for (text, percent) in [("100%", Some(100)), ("101", None), ("off", None), ("5,x", None)] {
        assert_eq!(Stated::parse(text).map(|it| it.percent), percent, "{text}");
    }
    assert_eq!(Follows::of_server(Some("off")), Follows::Nothing);
}

#[test]
fn concurrent_edits_are_all_kept() {
    let mut machine = Machine::new("sim:1xH100-80G");
    std::thread::scope(|scope| {
        for writer in 0..8u32 {
            let control = &machine.control;
            scope.spawn(move || {
                for number in 0..10 {
                    let pid = 3_000_000_000 + writer * 100 + number;
                    control.add_process(0, SimProcess { pid, ..SimProcess::default() }).unwrap();
                }
            });
        }
    });
    assert_eq!(machine.look(0).processes.unwrap().len(), 80);
}
