//! Facts about this machine apart from its devices.

use gpool_model::node::NodeFacts;
use gpool_model::resource::{ResourceKind, Resources};
use gpool_model::unit::{Bytes, MilliCpu};

use super::AgentConfig;

/// The host resources that jobs can book: those of the machine unless the configuration says
/// otherwise. Paused jobs stay in memory, so pause memory is offered only if jobs can be paused.
/// One user may have a part of the task slots, and a node with devices reserves some for jobs with
/// GPUs.
pub(super) fn capacity(config: &AgentConfig, can_pause: bool) -> Resources {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = || MilliCpu::from_cores(u32::try_from(cores()).unwrap_or(u32::MAX));
    let meminfo = || std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = config.memory.unwrap_or_else(|| memory(&meminfo()));
    let mut capacity = Resources::none()
        .with_cpus(config.cpus.unwrap_or_else(cpus))
        .with_memory(memory)
        .with_tasks(config.tasks_max);
    capacity.set(ResourceKind::PauseMemory, if can_pause { memory.get() } else { 0 });
    let most = config.tasks_max;
    let kept = config.gpu_tasks_kept.unwrap_or(AgentConfig::gpu_tasks_kept(most));
    let user = config.user_tasks_max.unwrap_or(AgentConfig::user_tasks_max(most));
    capacity.set(ResourceKind::PlainTasks, u64::from(most.saturating_sub(kept).max(1)));
    capacity.set(ResourceKind::UserTasks, u64::from(user));
    capacity
}

/// The same for a node with this number of devices: without devices, no slots are reserved for jobs
/// with GPUs.
pub(super) fn capacity_with(capacity: &Resources, n_devices: usize) -> Resources {
    let mut capacity = capacity.clone();
    if n_devices == 0 {
        capacity.set(ResourceKind::PlainTasks, 0);
    }
    capacity
}

fn memory(meminfo: &str) -> Bytes {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse().ok());
    Bytes::new(1024).checked_mul(kibibytes.unwrap_or(0)).unwrap_or(Bytes::MAX)
}

/// Facts that are shown to users.
pub(super) fn node_facts(devices_from: String) -> NodeFacts {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let name = name.unwrap_or("Linux").trim_matches('"');
    NodeFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        devices_from,
        system: format!("{name}, Linux {}", kernel.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        (config.gpu_tasks_kept, config.user_tasks_max) = (Some(30), Some(50));
        assert_eq!(parts(&config, 8), [70, 50]);
    }
}
