//! The phase of a job in a scenario, and its allocations.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::job::{Holder, StopCause};
use gpool_model::pause::pause_memory;
use gpool_model::{
    Allocation, AllocationState, Attempt, Bytes, DeviceUuid, Job, JobId, JobSpec, Millis, Node,
    PauseCause, Phase, ResourceKind, Resources, Slot, SlotPart, TaskId, parse,
};

use crate::reader::{Reader, before};
use crate::words::{ScenarioError, Words};

impl Reader {
    /// Reads the phase of a job with `n_tasks` tasks, and its age.
    pub(crate) fn phase(
        &self,
        state: &str,
        n_tasks: u32,
        words: &mut Words<'_>,
    ) -> Result<(Phase, Millis), ScenarioError> {
        let now = self.situation.now;
        let by = holder(state, words)?;
        let allocations = self.allocations(state, n_tasks, words)?;
        let age = match words.peek() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                words.parse("a length of time", parse::span)?
            }
            _ => Millis::ZERO,
        };
        let since = before(now, age);
        let phase = match state {
            "pending" => Phase::Pending { since },
            "waiting" => Phase::Waiting { since },
            "held" => Phase::Held { by, since, missing: None },
            "starting" | "claiming" => Phase::Starting { allocations, since },
            "running" => Phase::Running { allocations, started_at: since },
            "pausing" | "paused" | "resuming" => Phase::Paused {
                allocations,
                started_at: since,
                since,
                why: PauseCause::Asked { by: Arc::from("ana") },
                held: None,
            },
            "stopping" | "stopping-paused" => Phase::Stopping {
                allocations,
                started_at: Some(since),
                cause: StopCause::Cancelled { by: Arc::from("ana") },
                since: now,
            },
            "requeuing" | "requeuing-paused" => Phase::Stopping {
                allocations,
                started_at: Some(since),
                cause: StopCause::Requeued { by: Arc::from("ana"), hold: false },
                since: now,
            },
            word => {
                let known = "pending, waiting, held, starting, claiming, running, pausing, \
                     paused, resuming, stopping, requeuing, stopping-paused or requeuing-paused";
                return Err(words.unknown(word, known));
            }
        };
        Ok((phase, age))
    }

    /// Reads the allocations of a job's tasks in a state.
    fn allocations(
        &self,
        state: &str,
        n_tasks: u32,
        words: &mut Words<'_>,
    ) -> Result<Vec<Allocation>, ScenarioError> {
        match state {
            "starting" | "claiming" | "running" | "pausing" | "paused" | "resuming"
            | "stopping" | "requeuing" | "stopping-paused" | "requeuing-paused" => {
                let held = match state {
                    "claiming" | "resuming" => AllocationState::Claimed { after: Vec::new() },
                    "pausing" => AllocationState::Pausing,
                    "stopping-paused" | "requeuing-paused" => AllocationState::Paused {
                        host_bytes: Bytes::ZERO,
                        home: Vec::new(),
                        kinds: Vec::new(),
                    },
                    _ => AllocationState::Placed,
                };
                let allocations = (0..n_tasks).map(|_| self.allocation(words, &held));
                allocations.collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Reads `lab1[0,2-3]`, or `lab1` for a task without devices; the caller sets the task.
    fn allocation(
        &self,
        words: &mut Words<'_>,
        state: &AllocationState,
    ) -> Result<Allocation, ScenarioError> {
        let (node, positions) = self.devices_of(words)?;
        let node = &self.situation.nodes[node];
        let slot = |position: &usize| {
            let device = &node.devices[*position];
            Slot { index: device.index, device: device.uuid.clone(), part: SlotPart::Whole }
        };
        let task = TaskId { job: JobId::single(0), attempt: Attempt::FIRST, rank: 0 };
        Ok(Allocation {
            task,
            node: node.name.clone(),
            slots: positions.iter().map(slot).collect(),
            resources: Resources::none(),
            state: state.clone(),
        })
    }
}

/// Reads the holder of a held job: `held by admin`.
fn holder(state: &str, words: &mut Words<'_>) -> Result<Holder, ScenarioError> {
    if state != "held" || !words.take("by") {
        return Ok(Holder::User);
    }
    match words.need("user, admin, idle, scheduler or budget")? {
        "user" => Ok(Holder::User),
        "admin" => Ok(Holder::Admin),
        "idle" => Ok(Holder::Idle),
        "scheduler" => Ok(Holder::Scheduler),
        "budget" => Ok(Holder::Budget),
        word => Err(words.unknown(word, "user, admin, idle, scheduler or budget")),
    }
}

/// Sets the run time of a paused job, and the time since a stopping job was asked to end.
pub(crate) fn began(mut phase: Phase, ran: Millis, told: Millis) -> Phase {
    match &mut phase {
        Phase::Paused { started_at, since, .. } => *started_at = before(*since, ran),
        Phase::Stopping { since, .. } => *since = before(*since, told),
        _ => {}
    }
    phase
}

/// Makes the allocations of a phase those of a job.
pub(crate) fn held_by(mut phase: Phase, spec: &JobSpec, attempt: Attempt, nodes: &[Node]) -> Phase {
    let state = match &phase {
        Phase::Running { .. } => AllocationState::Running,
        Phase::Paused { .. } => {
            AllocationState::Paused { host_bytes: Bytes::ZERO, home: Vec::new(), kinds: Vec::new() }
        }
        Phase::Stopping { since, .. } => {
            AllocationState::Releasing { deadline: since.after(spec.grace) }
        }
        _ => AllocationState::Placed,
    };
    let leaves = matches!(phase, Phase::Stopping { .. });
    let is_halted = matches!(phase, Phase::Paused { .. });
    for (rank, allocation) in (0..).zip(phase.allocations_mut()) {
        allocation.task = TaskId { job: spec.id, attempt, rank };
        let of_task = spec.of_task(rank);
        for slot in &mut allocation.slots {
            let mut devices = nodes.iter().flat_map(|node| &node.devices);
            let device = devices.find(|device| device.uuid == slot.device);
            if let Some(device) = device {
                let whole = || SlotPart::all_of(device);
                slot.part = of_task.gpus.share().map_or_else(whole, |it| it.slot_of(device.memory));
            }
        }
        if allocation.state == AllocationState::Placed {
            allocation.state = state.clone();
        }
        allocation.resources = match &allocation.state {
            AllocationState::Paused { .. } => spec.resources_paused(),
            _ => spec.resources(allocation.task.rank, &allocation.slots),
        };
        if is_halted || allocation.is_paused() {
            book_memory(allocation, spec, nodes);
        }
        if leaves && allocation.is_paused() {
            allocation.state = state.clone();
        }
    }
    phase
}

/// Books the host memory for the GPU memory of a task that pauses, is paused, or will resume.
fn book_memory(allocation: &mut Allocation, spec: &JobSpec, nodes: &[Node]) {
    let state = std::mem::replace(&mut allocation.state, AllocationState::Running);
    let node = nodes.iter().find(|node| node.name == allocation.node);
    let bytes = node.map_or(Bytes::ZERO, |node| pause_memory(node, spec, allocation));
    allocation.resources.set(ResourceKind::PauseMemory, bytes.get());
    allocation.state = match state {
        AllocationState::Paused { home, kinds, .. } => {
            AllocationState::Paused { host_bytes: bytes, home, kinds }
        }
        state => state,
    };
}

/// The word for a phase: the state, or the scenario's own word for a part of it.
pub(crate) fn word(phase: &Phase, spec: &JobSpec) -> &'static str {
    let any = |wanted: fn(&AllocationState) -> bool| {
        let mut held = phase.allocations().iter();
        held.any(|it| wanted(&it.state))
    };
    let claims = any(|state| matches!(state, AllocationState::Claimed { .. }));
    let stops = any(|state| matches!(state, AllocationState::Pausing));
    match phase {
        Phase::Starting { .. } if claims => "claiming",
        Phase::Paused { .. } if claims => "resuming",
        Phase::Paused { .. } if stops => "pausing",
        Phase::Stopping { cause, allocations, .. } => {
            let was_paused = |it: &Allocation| {
                let mut resources = it.resources.clone();
                resources.set(ResourceKind::PauseMemory, 0);
                resources != spec.resources(it.task.rank, &it.slots)
            };
            let returns = matches!(cause, StopCause::TakenBack { .. } | StopCause::Requeued { .. });
            match (returns, allocations.iter().any(was_paused)) {
                (true, false) => "requeuing",
                (true, true) => "requeuing-paused",
                (false, false) => "stopping",
                (false, true) => "stopping-paused",
            }
        }
        _ => phase.state().as_str(),
    }
}

/// Fills in the victims that each claiming job waits for, in any order of lines.
pub(crate) fn fill_claims(jobs: &mut [(Arc<JobSpec>, Job)]) {
    let mut leaving = BTreeMap::<DeviceUuid, Vec<TaskId>>::new();
    for (_, job) in jobs.iter() {
        for it in job.phase.allocations() {
            for slot in it.slots.iter().filter(|_| it.is_leaving()) {
                leaving.entry(slot.device.clone()).or_default().push(it.task);
            }
        }
    }
    for (_, job) in jobs.iter_mut() {
        for it in job.phase.allocations_mut() {
            if let AllocationState::Claimed { after } = &mut it.state {
                let slots = it.slots.iter();
                *after =
                    slots.filter_map(|it| leaving.get(&it.device)).flatten().copied().collect();
                after.sort_unstable();
                after.dedup();
            }
        }
    }
}
