//! Facts about this machine apart from its devices.

use gpool_model::container::Engine;
use gpool_model::id::TaskId;
use gpool_model::label::Labels;
use gpool_model::node::{IdleTask, ImagePulls, NodeFacts, Remap, StalledTask};
use gpool_model::resource::{ResourceKind, Resources};
use gpool_model::unit::{Bytes, MilliCpu, Millis, Timestamp};
use gpool_protocol::AgentProcess;
use gpool_sys::clock;

use crate::config::AgentConfig;

/// The host resources that jobs can book: those of the machine unless the configuration says
/// otherwise. Paused jobs stay in memory, so pause memory is offered only if jobs can be paused.
/// One user may have a part of the task slots, and a node with devices reserves some for jobs with
/// GPUs.
pub fn capacity(config: &AgentConfig, can_pause: bool) -> Resources {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = || MilliCpu::from_cores(u32::try_from(cores()).unwrap_or(u32::MAX));
    let meminfo = || std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = config.memory.unwrap_or_else(|| memory(&meminfo()));
    let mut capacity = Resources::none()
        .with_cpus(config.cpus.unwrap_or_else(cpus))
        .with_memory(memory)
        .with_tasks(config.tasks_max);
    if can_pause {
        allow_pauses(&mut capacity);
    }
    let most = config.tasks_max;
    let kept = config.reserved_gpu_tasks.unwrap_or(AgentConfig::reserved_gpu_tasks(most));
    let user = config.user_tasks_max.unwrap_or(AgentConfig::user_tasks_max(most));
    capacity.set(ResourceKind::PlainTasks, u64::from(most.saturating_sub(kept).max(1)));
    capacity.set(ResourceKind::UserTasks, u64::from(user));
    capacity
}

/// Offers the node's memory to paused tasks.
pub(crate) fn allow_pauses(capacity: &mut Resources) {
    let memory = capacity.get(&ResourceKind::Memory);
    capacity.set(ResourceKind::PauseMemory, memory);
}

/// The same for a node with this number of devices: without devices, no slots are reserved for jobs
/// with GPUs.
pub fn capacity_with(capacity: &Resources, n_devices: usize) -> Resources {
    let mut capacity = capacity.clone();
    if n_devices == 0 {
        capacity.set(ResourceKind::PlainTasks, 0);
    }
    capacity
}

/// The memory of the machine, from `/proc/meminfo`.
pub fn memory(meminfo: &str) -> Bytes {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse().ok());
    Bytes::new(1024).checked_mul(kibibytes.unwrap_or(0)).unwrap_or(Bytes::MAX)
}

/// This process.
pub(crate) fn agent_process() -> AgentProcess {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    AgentProcess {
        clock: now(),
        cpu: Millis::new(clock::process_cpu_ms()),
        memory: Bytes::new(pages.saturating_mul(rustix::param::page_size() as u64)),
    }
}

/// Tasks of the node that are reported with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notable {
    pub idle: Vec<IdleTask>,
    pub stalled: Vec<StalledTask>,
    pub returning: Vec<TaskId>,
    pub remap: Remap,
    pub moves: Remap,
    pub engine: Result<Option<Engine>, String>,
    pub images: ImagePulls,
    pub labels: Labels,
}

/// The time, as reports have it.
pub(crate) fn now() -> Timestamp {
    Timestamp::new(clock::unix_ms())
}

/// Facts that are shown to users.
pub(crate) fn node_facts(devices_from: String, address: String, notable: Notable) -> NodeFacts {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let name = name.unwrap_or("Linux").trim_matches('"');
    NodeFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        devices_from,
        address,
        system: format!("{name}, Linux {}", kernel.trim()),
        engine_fault: notable.engine.as_ref().err().cloned().unwrap_or_default(),
        engine: notable.engine.unwrap_or_default(),
        images: notable.images,
        found_labels: notable.labels,
        idle: notable.idle,
        stalled: notable.stalled,
        returning: notable.returning,
        remap: notable.remap,
        moves: notable.moves,
    }
}
