//! Reports of agents. They may be lost, repeated, late and out of order. Each is compared with the
//! expected state, and reports about attempts that are over count for nothing.

use std::collections::BTreeMap;

use gpool_model::agent::{MoveIs, Order, Report, TaskEnd, TaskIs, TaskReport};
use gpool_model::effect::Change;
use gpool_model::job::{EndCause, Holder, Usage};
use gpool_model::{
    Allocation, AllocationState, Event, Generation, Job, JobEnd, Lack, Millis, NodeLack, NodeName,
    Phase, TaskId, Timestamp,
};

use crate::admission::Admission;
use crate::control::Control;
use crate::control::claims::{is_claim, is_claimed};
use crate::control::gang::{has_ended, is_gang, started_at};
use crate::control::jobs::terms_of;
use crate::control::judge::judge;

impl Control {
    /// The grace of tasks that the server does not know.
    const STRAY_GRACE: Millis = Millis::from_secs(10);
    /// The largest number of unknown tasks that are listed by name.
    const STRAYS_MAX: usize = 1000;

    pub(crate) fn reported(&mut self, node: &NodeName, report: Report) {
        if !matches!(report, Report::Inventory { .. }) {
            self.meet(node);
        }
        match report {
            Report::Inventory { stamp, capacity, devices, boot_id, facts } => {
                self.inventory(node, stamp, capacity, devices, boot_id, *facts);
            }
            Report::Tasks { stamp, term, round, tasks } => {
                // Without its inventory, the server does not know whether the node was rebooted.
                if term == self.world.cluster().term && self.is_known(node, &stamp.incarnation) {
                    self.reconcile(node, tasks);
                    self.answered(node, round);
                }
            }
            Report::Task(report) => {
                self.note_spoken_of(node, report.task);
                self.task(node, report);
            }
            Report::Move(report) if report.is == MoveIs::Done => {
                let (from, to) = report.changed();
                let job = report.task.job;
                self.publish(Change::JobMoved { job, node: node.clone(), from, to });
            }
            Report::Loan(_) | Report::Move(_) | Report::Output(_) => {}
        }
    }

    /// Compares all tasks of an agent with the tasks that it should have.
    fn reconcile(&mut self, node: &NodeName, tasks: Vec<TaskReport>) {
        let Some(row) = self.world.node(node) else {
            return;
        };
        // The server places nothing on a node before the first answer of its agent, so that answer
        // proves which tasks are missing. A later answer may be older than the last orders.
        let is_first = !row.node.connected;
        let lost_to = match row.node.settled_boot_id.as_str() {
            "" => Some(EndCause::Vanished),
            settled if settled != row.node.boot_id => Some(EndCause::Rebooted),
            _ => None,
        };
        // A shepherd of an earlier agent may have claimed its task after the agent sent this
        // answer.
        let spoken_of = self.take_spoken_of(node);
        // The agent no longer reports a task that has ended, although its gang goes on.
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
                let (job, allocation) = (row.job.clone(), allocation.clone());
                self.order_terms_of(&job, &allocation);
            }
            // The agent ignores limits then; the limit is sent again after this order.
            Phase::Paused { .. } if !allocation.is_paused() && !is_claimed(allocation) => {
                let (job, allocation) = (row.job.clone(), allocation.clone());
                self.order_halt_of(&job, &allocation, true);
            }
            Phase::Starting { .. } if has_started => {}
            Phase::Starting { .. } if heard.is_none_or(|heard| heard < generation) => {
                let order = Box::new(self.task_order(row, allocation));
                self.order(node, Order::Run(order));
            }
            Phase::Stopping { cause, .. } => {
                // The full grace: the shepherd counts from the first order that arrived, by a clock
                // that is never set.
                let (grace, signal) = terms_of(&self.world, &row.spec, cause);
                self.order(node, Order::Stop { term, task, generation, grace, signal });
            }
            _ => {}
        }
    }

    /// Handles a task that the agent should have but does not know. After a reboot this does not
    /// prove that the task never ran, since the agent's notes may not have reached the disk. After
    /// a restore the task may have run to its end, and would be refused for ever. In these cases
    /// the task is lost.
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
            // An earlier agent may still be about to launch the task. The order to end it prevents
            // the launch, and then the task has ended.
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

    pub(crate) fn vanished(&self, started_at: Option<Timestamp>) -> TaskEnd {
        TaskEnd {
            started_at,
            ended_at: self.now,
            exit: None,
            cause: Some(EndCause::Vanished),
            stopped: false,
            usage: Usage::default(),
            steps: gpool_model::Rare::default(),
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
                self.goes_on(task);
            }
            TaskIs::NotPaused { started_at, why, .. } => {
                self.task_started(task, started_at);
                self.task_not_paused(task, &why);
            }
            TaskIs::Paused { started_at, .. } => {
                self.task_started(task, started_at);
                self.is_halted(task, generation);
            }
            TaskIs::NotMoved { started_at, why, devices, .. } => {
                self.task_started(task, started_at);
                self.task_not_moved((task, generation), &why, &devices);
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

    /// Handles a task that should not exist: its job has ended, or is in another attempt.
    fn stray(&mut self, node: &NodeName, task: TaskId, generation: Generation, is: &TaskIs) {
        match is {
            TaskIs::Ended(_) | TaskIs::Refused { .. } => {
                self.acknowledge(node, task, generation);
            }
            TaskIs::Over => {}
            // The task was refused meanwhile, or its generation would not be older. An order to end
            // it would keep the same attempt from ever being launched there.
            TaskIs::Launching
            | TaskIs::Running { .. }
            | TaskIs::Paused { .. }
            | TaskIs::NotMoved { .. }
            | TaskIs::NotPaused { .. }
                if self.was_refused(task, generation) => {}
            TaskIs::Launching
            | TaskIs::Running { .. }
            | TaskIs::Paused { .. }
            | TaskIs::NotMoved { .. }
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

    /// After a restore, a waiting job may have a run of its own that is newer than the backup: its
    /// next run gets another number.
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

    /// A task runs: if it should be paused, the order may not have arrived.
    fn goes_on(&mut self, task: TaskId) {
        let job = self.job(task.job);
        let own = job.phase.allocations().iter().find(|it| it.task == task);
        if let Phase::Paused { .. } = job.phase
            && let Some(own) = own.filter(|it| !is_claimed(it))
        {
            self.order_halt_of(&job, own, true);
        }
    }

    /// A task is paused: if it should run, the order may not have arrived.
    pub(crate) fn is_halted(&mut self, task: TaskId, generation: Generation) {
        let job = self.job(task.job);
        let own = job.phase.allocations().iter().find(|it| it.task == task);
        match (&job.phase, own) {
            // It was sent before an order to resume arrived, which this order follows.
            (Phase::Paused { .. }, Some(own))
                if own.state == AllocationState::Pausing && generation < job.generation =>
            {
                self.order_halt_of(&job, own, true);
            }
            (Phase::Paused { .. }, _) => self.task_paused(task),
            // It has the terms, and answers them with its state: this would go on without an end.
            (Phase::Running { .. }, Some(own)) if generation == job.generation => {
                self.order_resume_of(&job, own);
            }
            (Phase::Running { .. }, Some(own)) => self.order_halt_of(&job, own, false),
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
            // This is a repeated report.
            _ => return,
        };
        self.put_job(job);
    }

    /// Whether an event, which is yet to be processed, only reports a start on which the last plan
    /// counts: the job has its devices, no plan evicts or extends it, and no planned start waits
    /// for an end that is later now.
    pub(crate) fn is_planned_start(&self, event: &Event) -> bool {
        let Event::Reported { report: Report::Task(report), .. } = event else { return false };
        let TaskIs::Running { started_at, .. } = report.is else { return false };
        let Some(row) = self.world.job(report.task.job) else { return false };
        let Phase::Starting { allocations, since } = &row.job.phase else { return false };
        (started_at == *since || self.planned.is_empty())
            && allocations.iter().any(|it| it.task == report.task)
            && !is_gang(&row.job)
            && row.spec.life.preemptible != Some(true)
            && row.spec.is_of_one_size()
    }

    pub(crate) fn task_ended(&mut self, task: TaskId, end: &TaskEnd) {
        let job = self.job(task.job);
        if is_gang(&job) {
            return self.member_ended(task, end);
        }
        if let Some(EndCause::NodeLacks(lack)) = &end.cause {
            return self.node_lacks(task, lack.clone(), end);
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
            resized: job.course.resized,
            steps: end.steps.clone(),
        };
        self.attempt_ended(task.job, end, was_stopped);
    }

    /// Handles a job whose node lacks something that it needs; its program was not started.
    fn node_lacks(&mut self, task: TaskId, lack: Lack, end: &TaskEnd) {
        let job = self.job(task.job);
        let node = job.phase.allocations().first().map(|allocation| allocation.node.clone());
        match (&job.phase, node) {
            (Phase::Starting { .. }, Some(node)) => match lack {
                Lack::Pull(_) => self.await_image(job, NodeLack { node, lack }),
                lack => self.avoid(job, NodeLack { node, lack }),
            },
            // The job was ordered to end before.
            _ => self.task_ended(task, &TaskEnd { cause: None, stopped: true, ..end.clone() }),
        }
    }

    /// Keeps a job away from a node that lacks something that it needs. It waits for another node,
    /// or is held until a user releases it if no other node could run it. The attempt was claimed,
    /// so the next one has another number.
    pub(crate) fn avoid(&mut self, mut job: Job, lack: NodeLack) {
        job.attempt = job.attempt.next();
        job.generation = job.generation.next();
        job.course.tasks.clear();
        let lacking = &mut job.course.lacking_nodes;
        if let Err(ix) = lacking.binary_search_by(|it| it.node.cmp(&lack.node)) {
            lacking.insert(ix, lack.clone());
        }
        let since = self.now;
        job.phase = Phase::Pending { since };
        let id = job.id;
        self.put_job(job);
        let row = self.world.job(id).expect("it was just put there");
        let is_nowhere = matches!(lack.lack, Lack::Stored(_) | Lack::Secret(_));
        if is_nowhere || !Admission::new(&self.world).could_run(row) {
            let mut job = self.job(id);
            job.course.lacking_nodes.clear();
            job.phase = Phase::Held { by: Holder::User, since, missing: Some(lack) };
            self.put_job(job);
        }
    }

    /// Handles a restored store: the task ran after the backup, and its end was acknowledged. A job
    /// that has not started runs as another attempt; any other job is lost.
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

    /// Another process took the devices meanwhile: the job goes back to its place in the queue, in
    /// the same attempt, since nothing was launched.
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
                    steps: gpool_model::Rare::default(),
                };
                self.task_ended(task, &end);
            }
            _ => {}
        }
    }
}
