//! Facts about this machine apart from its devices.

use gpool_agent::AgentConfig;
use gpool_agent::testing::{capacity, capacity_with, memory};
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
