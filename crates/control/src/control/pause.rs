//! Paused jobs. A job pauses as a whole, with all its tasks on all its nodes, or leaves by another
//! exit. It keeps its host memory and its place in the queue order; it resumes by a decision like a
//! start.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::agent::Order;
use gpool_model::job::StopCause;
use gpool_model::pause::pause_memory;
use gpool_model::{
    Allocation, AllocationState, Bytes, Caller, DeviceKind, DeviceUuid, Exit, Generation, Job,
    JobId, JobVerb, NodeName, PauseCause, Phase, Placement, Refusal, ResourceKind, Slot, TaskId,
};

use crate::control::Control;
use crate::control::gang::{forget_paused, has_ended, has_paused, is_gang, set_paused};

impl Control {
    /// Pauses running jobs for a caller.
    pub(crate) fn pause(&mut self, caller: &Caller, jobs: &[JobId]) -> Result<(), Refusal> {
        let mut all = self.rows_for(jobs, JobVerb::Pause);
        self.check_verb(&all, JobVerb::Pause)?;
        all.retain(|id| self.world.job(*id).is_some_and(|row| row.job.array.is_none()));
        for id in &all {
            self.check_pausable(*id)?;
        }
        for id in all {
            let hold = self.admin_hold(caller, id);
            let cause = PauseCause::Asked { by: Arc::clone(&caller.owner.user) };
            self.pause_one(id, cause);
            self.hold_paused(id, hold.as_ref());
        }
        Ok(())
    }

    /// Lets paused jobs resume when capacity is free.
    pub(crate) fn resume(&mut self, caller: &Caller, jobs: &[JobId]) -> Result<(), Refusal> {
        let all = self.rows_for(jobs, JobVerb::Resume);
        self.check_verb(&all, JobVerb::Resume)?;
        for id in &all {
            self.check_may_start(caller, *id, "resume")?;
        }
        for id in all {
            let mut job = self.job(id);
            if let Phase::Paused { held, .. } = &mut job.phase
                && held.take().is_some()
            {
                job.course.admin_hold = None;
                job.version = job.version.next();
                self.put_job(job);
            }
        }
        Ok(())
    }

    fn check_pausable(&self, id: JobId) -> Result<(), Refusal> {
        let refused = |why: String| Err(Refusal::Invalid { field: "jobs".to_owned(), why });
        let row = self.world.job(id).expect("checked before");
        if !row.spec.is_of_one_size() {
            let what = if row.spec.has_parts() { "jobs with parts" } else { "elastic jobs" };
            return refused(format!("job {id} can't be paused: {what} can't"));
        }
        if row.spec.yields().is_some() {
            return Ok(());
        }
        for allocation in row.job.phase.allocations() {
            let node = self.world.node(&allocation.node);
            if !node.is_some_and(|row| row.node.can_pause()) {
                return refused(format!(
                    "node {} can't pause jobs: its GPU driver does not support it (gpool doctor \
                     says why); gpool requeue {id} stops and requeues the job",
                    allocation.node
                ));
            }
        }
        Ok(())
    }

    /// Orders the nodes of a job to pause its tasks.
    pub(crate) fn pause_one(&mut self, id: JobId, why: PauseCause) {
        let mut job = self.job(id);
        let Phase::Running { mut allocations, started_at } = job.phase.clone() else { return };
        self.book_to_pause(id, &mut allocations);
        job.generation = job.generation.next();
        let since = self.now;
        job.phase = Phase::Paused { allocations, started_at, since, why, held: None };
        let ended: Vec<TaskId> = ended_tasks(&job);
        self.put_job(job.clone());
        self.order_halt(&job, true);
        for task in ended {
            self.task_paused(task);
        }
    }

    /// Books the host memory for the GPU memory of a job's tasks, as far as the nodes have it: a
    /// pause that a user asked for is tried even if their tasks may use more GPU memory than that.
    fn book_to_pause(&self, id: JobId, allocations: &mut [Allocation]) {
        let Some(spec) = self.world.job(id).map(|row| Arc::clone(&row.spec)) else { return };
        let mut free = BTreeMap::<NodeName, u64>::new();
        for allocation in allocations {
            let needed = self.world.node(&allocation.node).map_or(0, |row| {
                let left = || u64::try_from(row.memory.now.min(row.memory.later)).unwrap_or(0);
                let left = free.entry(allocation.node.clone()).or_insert_with(left);
                let needed = pause_memory(&row.node, &spec, allocation).get().min(*left);
                *left -= needed;
                needed
            });
            allocation.resources.set(ResourceKind::PauseMemory, needed);
            allocation.state = AllocationState::Pausing;
        }
    }

    /// Records that a task is paused. Once all tasks of its job are, everything but their host
    /// memory is free. Not earlier: if one can't be paused, the others need their devices again.
    pub(crate) fn task_paused(&mut self, task: TaskId) {
        let Some(row) = self.world.job(task.job) else { return };
        let (resources, mut job) = (row.spec.resources_paused(), row.job.clone());
        let is_pausing = |it: &&mut Allocation| it.state == AllocationState::Pausing;
        let mut all = job.phase.allocations().iter();
        if !matches!(job.phase, Phase::Paused { .. })
            || !all.any(|it| it.task == task && it.state == AllocationState::Pausing)
        {
            return;
        }
        if is_gang(&job) {
            set_paused(&mut job, task);
        }
        if !has_paused(&job) {
            return self.put_job(job);
        }
        forget_paused(&mut job);
        for own in job.phase.allocations_mut().iter_mut().filter(is_pausing) {
            let host_bytes = own.resources.get(&ResourceKind::PauseMemory);
            own.state = AllocationState::Paused {
                host_bytes: Bytes::new(host_bytes),
                home: Vec::new(),
                kinds: self.kinds_of(own),
            };
            own.resources = resources.clone();
            own.resources.set(ResourceKind::PauseMemory, host_bytes);
        }
        self.put_job(job);
    }

    /// The kinds of the devices of a task; empty if its node does not list them all.
    fn kinds_of(&self, own: &Allocation) -> Vec<DeviceKind> {
        let listed = self.world.node(&own.node).map_or(&[][..], |row| &row.node.devices);
        let find = |slot: &Slot| listed.iter().find(|device| device.uuid == slot.device);
        let kinds: Option<_> =
            own.slots.iter().map(|slot| find(slot).map(DeviceKind::of)).collect();
        kinds.unwrap_or_default()
    }

    /// Handles a task that could not be paused: its job leaves by the next exit that it allows, or
    /// runs on if a user asked for the pause.
    pub(crate) fn task_not_paused(&mut self, task: TaskId, reason: &str) {
        let Some(row) = self.world.job(task.job) else { return };
        let Phase::Paused { allocations, why, .. } = &row.job.phase else { return };
        let is_pausing = |it: &Allocation| it.task == task && it.state == AllocationState::Pausing;
        if !allocations.iter().any(is_pausing) {
            return;
        }
        if *why == PauseCause::Idle {
            self.give_up_claims_on(task.job);
            return self.not_released(task.job, reason);
        }
        let (why, mut exits) = (why.clone(), row.spec.life.allowed_exits());
        exits.remove(&Exit::Pause);
        let mut job = row.job.clone();
        job.course.not_pausable = Some(reason.into());
        self.put_job(job);
        match (why, exits.first()) {
            (PauseCause::TakenBack { why, beneficiary }, Some(exit)) => {
                self.stop(task.job, StopCause::TakenBack { why, beneficiary, exit: *exit });
            }
            _ => {
                self.give_up_claims_on(task.job);
                self.go_on_now(task.job);
            }
        }
    }

    /// Handles a task that could not resume on the devices that were booked for it: its job is
    /// paused again, and waits for the devices that the agent names.
    pub(crate) fn task_not_moved(
        &mut self,
        (task, generation): (TaskId, Generation),
        why: &str,
        devices: &[DeviceUuid],
    ) {
        let mut job = self.job(task.job);
        let current = job.generation;
        match &mut job.phase {
            Phase::Paused { .. } => return self.is_halted(task, generation),
            // The order to resume it may not have arrived.
            Phase::Running { .. } if generation < current => {
                return self.is_halted(task, generation);
            }
            Phase::Running { allocations, .. } => {
                let own = allocations.iter_mut().find(|it| it.task == task);
                own.into_iter().for_each(|it| self.book_slots(it, devices));
            }
            _ => return,
        }
        self.put_job(job);
        self.pause_one(task.job, PauseCause::NotMoved { why: why.into() });
        self.task_paused(task);
    }

    /// Resumes a paused job, at once or when the leaving jobs have left.
    pub(crate) fn resume_one(&mut self, id: JobId, leaving: &[JobId]) {
        let row = self.world.job(id).expect("a verified plan resumes jobs that are there");
        let (spec, mut job) = (Arc::clone(&row.spec), row.job.clone());
        let Phase::Paused { allocations, .. } = &mut job.phase else { return };
        let placement =
            |it: &Allocation| Placement { node: it.node.clone(), slots: it.slots.clone() };
        let placements: Vec<Placement> = allocations.iter().map(placement).collect();
        let afters = self.claims_after(id, &placements, leaving);
        if afters.iter().all(Vec::is_empty) {
            return self.go_on_now(id);
        }
        for (allocation, after) in allocations.iter_mut().zip(afters) {
            // Its GPU memory stays in host memory until it has its devices.
            let host_bytes = allocation.resources.get(&ResourceKind::PauseMemory);
            allocation.resources = spec.resources(allocation.task.rank, &allocation.slots);
            allocation.resources.set(ResourceKind::PauseMemory, host_bytes);
            allocation.state = AllocationState::Claimed { after };
        }
        self.put_job(job);
    }

    /// Takes back the decision to resume a job that waits for its devices.
    pub(crate) fn stay_paused(&mut self, id: JobId) {
        let mut job = self.job(id);
        let all = job.phase.allocations_mut();
        all.iter_mut().for_each(|it| it.state = AllocationState::Pausing);
        let tasks: Vec<TaskId> = all.iter().map(|it| it.task).collect();
        self.put_job(job);
        tasks.into_iter().for_each(|task| self.task_paused(task));
    }

    /// Resumes a paused job that has its resources back.
    pub(crate) fn go_on_now(&mut self, id: JobId) {
        let row = self.world.job(id).expect("only jobs that are there go on");
        let (spec, mut job) = (Arc::clone(&row.spec), row.job.clone());
        let Phase::Paused { mut allocations, started_at, since, why, .. } = job.phase.clone()
        else {
            return;
        };
        for allocation in &mut allocations {
            allocation.resources = spec.resources(allocation.task.rank, &allocation.slots);
            allocation.state = AllocationState::Running;
        }
        forget_paused(&mut job);
        job.generation = job.generation.next();
        let pause = self.now.since(since);
        job.course.paused = job.course.paused.saturating_add(pause);
        // A pause that a user asked for is not waiting time.
        if matches!(why, PauseCause::TakenBack { .. } | PauseCause::NotMoved { .. }) {
            job.waited = job.waited.saturating_add(pause);
        }
        job.phase = Phase::Running { allocations, started_at };
        self.put_job(job.clone());
        self.order_halt(&job, false);
    }

    /// Orders the nodes of a job to pause or resume its tasks.
    fn order_halt(&mut self, job: &Job, pauses: bool) {
        let goes_on = |it: &&Allocation| !has_ended(job, it.task);
        for allocation in job.phase.allocations().iter().filter(goes_on) {
            self.order_halt_of(job, allocation, pauses);
        }
    }

    pub(crate) fn order_halt_of(&mut self, job: &Job, of: &Allocation, pauses: bool) {
        if pauses {
            let (task, node) = (of.task, &of.node);
            let (term, generation) = (self.world.cluster().term, job.generation);
            let runs_on = matches!(job.phase, Phase::Paused { why: PauseCause::Idle, .. });
            return self.order(node, Order::Pause { term, task, generation, runs_on });
        }
        // Terms that changed meanwhile may not have arrived, and count as received after this.
        self.order_terms_of(job, of);
        self.order_resume_of(job, of);
    }

    /// Orders a node to resume a task that has the terms of its job.
    pub(crate) fn order_resume_of(&mut self, job: &Job, of: &Allocation) {
        let (task, generation) = (of.task, job.generation);
        let term = self.world.cluster().term;
        let devices = of.slots.iter().map(|slot| slot.device.clone()).collect();
        self.order(&of.node, Order::Resume { term, task, generation, devices });
    }
}

/// Returns the tasks of a gang that have ended while others go on.
fn ended_tasks(job: &Job) -> Vec<TaskId> {
    let all = job.phase.allocations().iter().map(|it| it.task);
    all.filter(|task| has_ended(job, *task)).collect()
}
