//! What agents say. Reports may be lost, repeated, late and out of order: each is compared with
//! what should be, and nothing is believed of an attempt that is over.

use std::collections::BTreeMap;

use gpool_model::agent::{Order, Report, TaskEnd, TaskIs, TaskReport};
use gpool_model::job::{EndCause, Holder, Usage};
use gpool_model::{
    Allocation, AllocationState, Generation, JobEnd, Millis, Missing, NodeName, Phase, TaskId,
    Timestamp,
};

use crate::control::Control;
use crate::control::claims::{is_claim, is_claimed};
use crate::control::gang::{has_ended, is_gang, started_at};
use crate::control::jobs::terms_of;
use crate::control::judge::judge;

impl Control {
    /// Grace of tasks that nobody knows.
    const STRAY_GRACE: Millis = Millis::from_secs(10);
    /// More of them are not told of by their names.
    const STRAYS_MAX: usize = 1000;

    pub(crate) fn reported(&mut self, node: &NodeName, report: Report) {
        match report {
            Report::Inventory { stamp, capacity, devices, boot_id, facts } => {
                self.inventory(node, stamp, capacity, devices, boot_id, facts);
            }
            Report::Tasks { stamp, term, round, tasks } => {
                // Without its inventory it is not known whether the node was rebooted.
                if term == self.world.cluster().term && self.is_known(node, &stamp.incarnation) {
                    self.reconcile(node, tasks);
                    self.answered(node, round);
                }
            }
            Report::Task(report) => {
                self.note_spoken_of(node, report.task);
                self.task(node, report);
            }
        }
    }

    /// Compares all that an agent has with all that it should have.
    fn reconcile(&mut self, node: &NodeName, tasks: Vec<TaskReport>) {
        let Some(row) = self.world.node(node) else {
            return;
        };
        // Nothing is placed on a node before the first answer of its agent, so that one proves
        // what is missing. Another one may be older than what was ordered since.
        let is_first = !row.node.connected;
        let lost_to = match row.node.settled_boot_id.as_str() {
            "" => Some(EndCause::Vanished),
            settled if settled != row.node.boot_id => Some(EndCause::Rebooted),
            _ => None,
        };
        // A shepherd of an earlier agent may have claimed its task after this was said.
        let spoken_of = self.take_spoken_of(node);
        // Of a task that has ended nothing more is to be heard, though its gang goes on.
        let here: Vec<TaskId> = (self.world.holding())
            .flat_map(|row| row.job.phase.allocations().iter().map(move |it| (&row.job, it)))
            .filter(|(job, allocation)| {
                allocation.node == *node && !has_ended(job, allocation.task)
            })
            .map(|(_, allocation)| allocation.task)
            .collect();
        let reported: BTreeMap<TaskId, Generation> =
            tasks.iter().map(|report| (report.task, report.generation)).collect();
        for report in tasks {
            self.task(node, report);
        }
        for task in here {
            match reported.get(&task) {
                Some(generation) => self.remind(node, task, Some(*generation)),
                None if is_first && !spoken_of.contains(&task) => {
                    self.missing(node, task, lost_to.as_ref())
                }
                None => self.remind(node, task, None),
            }
        }
        self.connect(node);
    }

    /// Repeats an order that may have been lost. `heard` is the generation that the agent knows of
    /// the task, if it knows the task.
    fn remind(&mut self, node: &NodeName, task: TaskId, heard: Option<Generation>) {
        let Some(row) = self.world.job(task.job) else {
            return;
        };
        let holds = |allocation: &&Allocation| allocation.task == task && allocation.node == *node;
        let Some(allocation) = row.job.phase.allocations().iter().find(holds) else {
            return;
        };
        let is_unknown = matches!(row.job.phase, Phase::Starting { .. })
            && is_claim(row.job.phase.allocations());
        if is_unknown || has_ended(&row.job, task) {
            return;
        }
        let term = self.world.cluster().term;
        let generation = row.job.generation;
        let has_started = started_at(&row.job, task).is_some();
        match &row.job.phase {
            Phase::Starting { .. } | Phase::Running { .. }
                if has_started && heard.is_some_and(|heard| heard < generation) =>
            {
                let limit = row.spec.time_limit;
                self.order(node, Order::Limit { term, task, generation, limit });
            }
            // Of the limit nothing is known then; it is said again when this has been heard.
            Phase::Paused { .. } if !allocation.is_paused() && !is_claimed(allocation) => {
                let (job, node) = (row.job.clone(), node.clone());
                self.order_halt_of(&job, task, &node, true);
            }
            Phase::Starting { .. } if has_started => {}
            Phase::Starting { .. } if heard.is_none_or(|heard| heard < generation) => {
                let order = Box::new(self.task_order(row, allocation));
                self.order(node, Order::Run(order));
            }
            Phase::Stopping { cause, .. } => {
                // All of it: whoever ends the task counts from when it was told first, by a clock
                // that nobody sets.
                let (grace, signal) = terms_of(&self.world, &row.spec, cause);
                self.order(node, Order::Stop { term, task, generation, grace, signal });
            }
            _ => {}
        }
    }

    /// A task that the agent should have and knows nothing of. After a reboot that proves nothing
    /// of what ran before: what the agent had noted may not have reached the disk. In a backup it
    /// may have run to its end since, and would be refused for ever. Then it is lost to that.
    fn missing(&mut self, node: &NodeName, task: TaskId, lost_to: Option<&EndCause>) {
        let Some(row) = self.world.job(task.job) else {
            return;
        };
        if matches!(row.job.phase, Phase::Starting { .. }) && is_claim(row.job.phase.allocations())
        {
            return;
        }
        let vanished = |started_at| TaskEnd {
            cause: Some(lost_to.cloned().unwrap_or(EndCause::Vanished)),
            ..self.vanished(started_at)
        };
        let started_at = started_at(&row.job, task);
        let end = match &row.job.phase {
            Phase::Starting { .. } if lost_to.is_some() || started_at.is_some() => {
                vanished(started_at)
            }
            Phase::Running { .. } | Phase::Paused { .. } => vanished(started_at),
            Phase::Stopping { .. } if lost_to.is_some() && started_at.is_none() => {
                TaskEnd { stopped: true, cause: None, ..vanished(None) }
            }
            Phase::Stopping { .. } if lost_to.is_some() => vanished(started_at),
            // What an earlier agent was about to launch may not have been claimed yet: the order
            // to end it keeps it from that, and then it has ended.
            Phase::Starting { .. } | Phase::Stopping { .. } => {
                return self.remind(node, task, None);
            }
            Phase::Held { .. }
            | Phase::Waiting { .. }
            | Phase::Pending { .. }
            | Phase::Underway { .. }
            | Phase::Ended(_) => return,
        };
        self.task_ended(task, &end);
    }

    fn vanished(&self, started_at: Option<Timestamp>) -> TaskEnd {
        TaskEnd {
            started_at,
            ended_at: self.now,
            exit: None,
            cause: Some(EndCause::Vanished),
            stopped: false,
            usage: Usage::default(),
        }
    }

    fn task(&mut self, node: &NodeName, report: TaskReport) {
        let TaskReport { task, generation, is } = report;
        let holds = |allocation: &Allocation| allocation.task == task && allocation.node == *node;
        let row = self.world.job(task.job);
        let current = row.filter(|row| row.job.phase.allocations().iter().any(holds));
        let Some(row) = current else {
            return self.stray(node, task, generation, &is);
        };
        match is {
            TaskIs::Launching => {}
            TaskIs::Running { started_at, .. } => {
                self.task_started(task, started_at);
                self.goes_on(node, task);
            }
            TaskIs::NotPaused { started_at, .. } => {
                self.task_started(task, started_at);
                self.task_not_paused(task);
            }
            TaskIs::Paused { started_at, .. } => {
                self.task_started(task, started_at);
                self.is_halted(node, task);
            }
            TaskIs::Ended(end) => {
                self.task_ended(task, &end);
                self.acknowledge(node, task, generation);
            }
            TaskIs::Refused { .. } if generation != row.job.generation => {}
            TaskIs::Refused { .. } => {
                self.refused(task);
                self.acknowledge(node, task, generation);
            }
            TaskIs::Over => self.task_over(task),
        }
    }

    /// A task that should not be: its job has ended, or is in another attempt.
    fn stray(&mut self, node: &NodeName, task: TaskId, generation: Generation, is: &TaskIs) {
        match is {
            TaskIs::Ended(_) | TaskIs::Refused { .. } => {
                self.acknowledge(node, task, generation);
            }
            TaskIs::Over => {}
            // It was refused since, or it would not be of an earlier generation: to end it would
            // keep the same attempt from ever being launched there.
            TaskIs::Launching
            | TaskIs::Running { .. }
            | TaskIs::Paused { .. }
            | TaskIs::NotPaused { .. }
                if self.was_refused(task, generation) => {}
            TaskIs::Launching
            | TaskIs::Running { .. }
            | TaskIs::Paused { .. }
            | TaskIs::NotPaused { .. } => {
                self.skip_attempt(task);
                let term = self.world.cluster().term;
                let grace = Self::STRAY_GRACE;
                let order = Order::Stop { term, task, generation, grace, signal: None };
                self.order(node, order);
                if self.strays.len() < Self::STRAYS_MAX {
                    self.strays.insert(task);
                }
            }
        }
    }

    /// After a restore, a job that waits may meet a run of its own that is newer than the backup:
    /// the next run gets another number.
    fn skip_attempt(&mut self, found: TaskId) {
        let Some(row) = self.world.job(found.job) else { return };
        if row.job.array.is_none()
            && row.job.phase.allocations().is_empty()
            && row.job.attempt <= found.attempt
        {
            let mut job = row.job.clone();
            job.attempt = found.attempt.next();
            self.put_job(job);
        }
    }

    /// A task goes on: one that was told to stop where it is may not have heard of it.
    fn goes_on(&mut self, node: &NodeName, task: TaskId) {
        let job = self.job(task.job);
        let own = job.phase.allocations().iter().find(|it| it.task == task);
        let is_told = matches!(job.phase, Phase::Paused { .. });
        if is_told && own.is_some_and(|it| !is_claimed(it)) {
            self.order_halt_of(&job, task, node, true);
        }
    }

    /// A task is stopped where it is: one that was told to go on may not have heard of it.
    fn is_halted(&mut self, node: &NodeName, task: TaskId) {
        let job = self.job(task.job);
        match job.phase {
            Phase::Paused { .. } => self.task_paused(task),
            Phase::Running { .. } => self.order_halt_of(&job, task, node, false),
            _ => {}
        }
    }

    fn was_refused(&self, task: TaskId, generation: Generation) -> bool {
        let job = self.world.job(task.job).map(|row| &row.job);
        job.is_some_and(|job| job.attempt == task.attempt && generation < job.generation)
    }

    fn acknowledge(&mut self, node: &NodeName, task: TaskId, generation: Generation) {
        let order = Order::Acknowledge { term: self.world.cluster().term, task, generation };
        self.order(node, order);
    }

    pub(crate) fn task_started(&mut self, task: TaskId, at: Timestamp) {
        let mut job = self.job(task.job);
        if is_gang(&job) {
            return self.member_started(task, at);
        }
        let running =
            |allocation: Allocation| Allocation { state: AllocationState::Running, ..allocation };
        job.phase = match job.phase {
            Phase::Starting { allocations, .. } => Phase::Running {
                allocations: allocations.into_iter().map(running).collect(),
                started_at: at,
            },
            Phase::Stopping { allocations, started_at: None, cause, since } => {
                Phase::Stopping { allocations, started_at: Some(at), cause, since }
            }
            // Said before.
            _ => return,
        };
        self.put_job(job);
    }

    pub(crate) fn task_ended(&mut self, task: TaskId, end: &TaskEnd) {
        let job = self.job(task.job);
        if is_gang(&job) {
            return self.member_ended(task, end);
        }
        if let Some(EndCause::PathMissing { path }) = &end.cause {
            return self.path_missing(task, path.clone(), end);
        }
        let (outcome, cause) = judge(end, &job.phase);
        let started_at = started_at(&job, task);
        let was_stopped = end.stopped;
        let end = JobEnd {
            outcome,
            cause,
            exit: end.exit,
            started_at: end.started_at.or(started_at),
            ended_at: end.ended_at,
            usage: end.usage,
            allocations: job.phase.allocations().to_vec(),
        };
        self.attempt_ended(task.job, end, was_stopped);
    }

    /// Something that the job needs is not there, and its program was not started: it is held until
    /// somebody has put it there. The attempt was claimed, so the next one has another number.
    fn path_missing(&mut self, task: TaskId, path: String, end: &TaskEnd) {
        let mut job = self.job(task.job);
        let node = job.phase.allocations().first().map(|allocation| allocation.node.clone());
        match (&job.phase, node) {
            (Phase::Starting { .. }, Some(node)) => {
                job.attempt = job.attempt.next();
                job.generation = job.generation.next();
                let missing = Some(Missing { node, path });
                job.phase = Phase::Held { by: Holder::User, since: self.now, missing };
                self.put_job(job);
            }
            // It was told to end before.
            _ => self.task_ended(task, &TaskEnd { cause: None, stopped: true, ..end.clone() }),
        }
    }

    /// The store was restored: the task ran after the backup, and its end was acknowledged. A job
    /// that has not started runs as another attempt, any other is lost.
    fn task_over(&mut self, task: TaskId) {
        let mut job = self.job(task.job);
        let started_at = started_at(&job, task);
        match job.phase {
            Phase::Starting { .. } if started_at.is_none() && !is_gang(&job) => {
                job.attempt = job.attempt.next();
                job.generation = job.generation.next();
                job.phase = Phase::Pending { since: self.now };
                self.put_job(job);
            }
            Phase::Starting { .. } if started_at.is_none() => self.member_refused(task),
            _ => {
                let end = self.vanished(started_at);
                self.task_ended(task, &end);
            }
        }
    }

    /// The devices were taken by somebody else in the meantime: the job goes back to its place in
    /// the queue, in the same attempt, since nothing was launched.
    fn refused(&mut self, task: TaskId) {
        let mut job = self.job(task.job);
        if is_gang(&job) {
            return self.member_refused(task);
        }
        match job.phase {
            Phase::Starting { .. } => {
                job.generation = job.generation.next();
                job.phase = Phase::Pending { since: self.now };
                self.put_job(job);
            }
            Phase::Stopping { .. } => {
                let end = TaskEnd {
                    started_at: None,
                    ended_at: self.now,
                    exit: None,
                    cause: None,
                    stopped: true,
                    usage: Usage::default(),
                };
                self.task_ended(task, &end);
            }
            _ => {}
        }
    }
}
