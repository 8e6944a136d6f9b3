//! Facts about this machine apart from its devices.

use gpool_agent::AgentConfig;
use gpool_agent::testing::{capacity, capacity_with, memory, rack, switches};
use gpool_model::resource::ResourceKind;
use gpool_model::unit::{Bytes, MilliCpu};

#[test]
fn memory_is_read_in_kibibytes() {
    assert_eq!(memory("MemTotal:       24000 kB\nMemFree: 1 kB\n"), Bytes::new(24_576_000));
    assert_eq!(memory("nothing"), Bytes::ZERO);
}

#[test]
fn this_machine_has_resources() {
    use gpool_model::id::NodeName;

    let mut config =
        AgentConfig::new("/nowhere", NodeName::new("n1")).expect("this program has a path");
    let found = capacity(&config, true);
    for kind in [ResourceKind::Cpu, ResourceKind::Memory, ResourceKind::Tasks] {
        assert!(found.get(&kind) > 0, "{kind}");
    }
    config.cpus = Some(MilliCpu::from_cores(3));
    config.memory = Some(Bytes::from_gib(5));
    let said = capacity(&config, false);
    assert!(found.get(&ResourceKind::PauseMemory) > 0);
    assert_eq!(said.get(&ResourceKind::PauseMemory), 0);
    assert_eq!(said.get(&ResourceKind::Cpu), 3000);
    assert_eq!(said.get(&ResourceKind::Memory), Bytes::from_gib(5).get());
    assert_eq!(said.get(&ResourceKind::Tasks), found.get(&ResourceKind::Tasks));
}

#[test]
fn a_node_with_devices_reserves_task_slots_for_jobs_with_gpus() {
    use gpool_model::id::NodeName;

    let mut config =
        AgentConfig::new("/nowhere", NodeName::new("n1")).expect("this program has a path");
    let parts = |config: &AgentConfig, n_devices| {
        let found = capacity_with(&capacity(config, true), n_devices);
        [ResourceKind::PlainTasks, ResourceKind::UserTasks].map(|kind| found.get(&kind))
    };
    assert_eq!(parts(&config, 8), [448, 409]);
    assert_eq!(parts(&config, 0), [0, 409], "without devices no slots are reserved");
    for (tasks, expected) in [(1, [1, 1]), (4, [4, 3]), (10, [9, 8]), (100, [88, 80])] {
        config.tasks_max = tasks;
        assert_eq!(parts(&config, 8), expected, "{tasks}");
    }
    (config.reserved_gpu_tasks, config.user_tasks_max) = (Some(30), Some(50));
    assert_eq!(parts(&config, 8), [70, 50]);
}

/// The answer of lldpctl 1.0.16 about one neighbour, without its ports. This neighbour is a
/// computer.
const NEIGHBOUR: &str = r#"{"lldp": [{"interface": [{"name": "eth0", "via": "LLDP", "rid": "1",
  "age": "0 day, 00:00:10", "chassis": [{
    "id": [{"type": "mac", "value": "e2:5c:1d:48:c2:ca"}],
    "name": [{"value": "leaf-7"}], "descr": [{"value": "leaf-7"}],
    "mgmt-ip": [{"value": "fe80::e05c:1dff:fe48:c2ca"}], "mgmt-iface": [{"value": "10"}],
    "capability": [
      {"type": "Bridge", "enabled": false}, {"type": "Router", "enabled": false},
      {"type": "Wlan", "enabled": false}, {"type": "Station", "enabled": true}]}]}]}]}"#;

#[test]
fn the_switches_of_a_machine_are_its_neighbours_that_forward() {
    assert_eq!(switches(NEIGHBOUR), None, "a computer");
    let bridge = NEIGHBOUR.replacen("\"enabled\": false", "\"enabled\": true", 1);
    assert_eq!(switches(&bridge).as_deref(), Some("leaf-7"));
    let odd =
        bridge.replace(r#""name": [{"value": "leaf-7"}]"#, r#""name": [{"value": "Säule 7"}]"#);
    assert_eq!(switches(&odd).as_deref(), Some("S-ule-7"));
    let nameless = bridge.replace(r#""name": [{"value": "leaf-7"}],"#, "");
    assert_eq!(switches(&nameless).as_deref(), Some("e2:5c:1d:48:c2:ca"));
    let (_, chassis) = bridge.split_once("\"chassis\": ").unwrap();
    let chassis = chassis.strip_suffix("}]}]}").unwrap();
    let two = bridge.replace(chassis, &format!("{chassis}}}, {{\"chassis\": {chassis}"));
    assert_eq!(switches(&two).as_deref(), Some("leaf-7"));
    let two = two.replacen("leaf-7", "leaf-2", 1);
    assert_eq!(switches(&two).as_deref(), Some("leaf-2+leaf-7"));
    for nothing in ["", "{}", r#"{"lldp": [{}]}"#, r#"{"lldp": 5}"#] {
        assert_eq!(switches(nothing), None, "{nothing}");
    }
}

#[test]
fn the_rack_of_a_machine_is_its_location() {
    let rack = |text: &str| rack(text);
    assert_eq!(
        rack("CHASSIS=server\nLOCATION=\"row 3, rack 12\"\n").as_deref(),
        Some("row-3--rack-12")
    );
    assert_eq!(rack("LOCATION=r12").as_deref(), Some("r12"));
    assert_eq!(rack("LOCATION=\n"), None);
    assert_eq!(rack(""), None);
}
