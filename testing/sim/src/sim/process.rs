//! Shepherds and programs: claims, starts, ends, kills, and reboots. The true events are recorded
//! apart from the reports about them.

use gpool_model::agent::TaskEnd;
use gpool_model::job::{EndCause, ExitStatus, Usage};
use gpool_model::{Millis, TaskId, Timestamp};
use gpool_node::converge::Input;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::claim::{Claim, Why};
use crate::machine::Run;
use crate::sim::{Sim, picked};

impl Sim {
    /// A forked shepherd claims its task, or finds it claimed.
    pub(crate) fn claim(&mut self, m: usize, pick: u64) {
        let machine = &mut self.machines[m];
        let all: Vec<usize> = (0..machine.forked.len()).collect();
        let Some(at) = picked(&all, pick) else { return };
        let forked = machine.forked.remove(at);
        let task = forked.order.task();
        let is_own = machine.agent.as_ref().is_some_and(|agent| agent.number == forked.by);
        if machine.is_claimed(task) && self.bug != Some(Bug::ClaimShared) {
            // A task is claimed once: the second shepherd reports that and exits.
            if is_own {
                self.adopt_and_tell(m, task);
            }
            return;
        }
        if let Some(claim) = machine.claims.get_mut(&task) {
            // Planted: the other one is still there, and both start the program.
            claim.started = None;
            claim.ended = None;
        } else {
            let claim = Claim {
                generation: forked.order.generation,
                boot: machine.boot,
                order: Some(forked.order),
                seats: forked.seats,
                has_shepherd: true,
                ending: forked.stop.map(|grace| (Why::StopOrder, self.now + grace.get())),
                link: Some(forked.by).filter(|_| is_own),
                fence_at: forked.fence_at,
                ..Claim::default()
            };
            machine.claims.insert(task, claim);
            if let (Some((generation, terms)), Some(claim)) =
                (forked.changed, machine.claims.get_mut(&task))
            {
                claim.change(generation, &terms);
            }
        }
        if !is_own && machine.agent.is_some() {
            // The shepherd of an earlier agent says hello to this one.
            self.adopt_and_tell(m, task);
            self.connect_task(m, task);
        }
    }

    /// A shepherd starts its program, or exits without if it has an order to end.
    pub(crate) fn start_program(&mut self, m: usize, pick: u64) {
        let Some(task) = picked(&self.machines[m].unstarted(), pick) else { return };
        let now = self.now;
        self.end_without_lease(m, task);
        let machine = &mut self.machines[m];
        let clock = machine.clock(now);
        let pid = machine.next_pid;
        machine.next_pid += 1;
        let claim = machine.claims.get_mut(&task).expect("it was picked from these");
        if claim.ending.is_some() {
            return self.end_unstarted(m, task);
        }
        claim.started = Some((pid, clock));
        let order = claim.order.as_ref().expect("a program starts only after an order");
        let grace = order.spec.grace.get();
        let left = order.spec.life.deadline.map(|at| at.since(clock).get());
        claim.since = now;
        claim.deadline_at = left.map(|left| now + left);
        claim.limit_at = order.spec.time_limit.map(|limit| now + limit.get());
        let over_at = claim.over_at();
        let run = Run {
            machine: m,
            booked: order.allocation.slots.clone(),
            started_at: clock,
            over_by: over_at.map(|at| at + grace),
            ended: None,
            was_limited: false,
        };
        if self.bug == Some(Bug::LimitIgnored) {
            claim.limit_at = None;
        }
        if self.bug == Some(Bug::DeadlineIgnored) {
            claim.deadline_at = None;
        }
        self.watch_start(task, run);
        self.open_ledger(m, task);
        if self.is_connected(m, task) {
            self.agent_input(m, Input::Started { task, pid, started_at: clock });
        }
    }

    /// A program may run longer now, or less long.
    pub(crate) fn watch_limit(&mut self, m: usize, task: TaskId) {
        let Some(claim) = self.machines[m].claims.get_mut(&task) else { return };
        claim.bound_end(self.now);
        let grace = claim.order.as_ref().map_or(Millis::ZERO, |order| order.spec.grace);
        let over_by = claim.over_at().map(|at| at.max(self.now) + grace.get());
        if let Some(run) = self.watch.runs.get_mut(&task) {
            run.over_by = over_by;
        }
    }

    /// A program cannot be started.
    pub(crate) fn fail_start(&mut self, m: usize, pick: u64) {
        let Some(task) = picked(&self.machines[m].unstarted(), pick) else { return };
        let clock = self.machines[m].clock(self.now);
        let cause = EndCause::LaunchFailed { why: "no such file".to_owned() };
        self.watch.unlaunched.insert(task);
        self.task_ended(m, task, TaskEnd { cause: Some(cause), ..not_run(clock) });
    }

    /// A program ends by itself.
    pub(crate) fn exit(&mut self, m: usize, pick: u64, code: i64) {
        let Some(task) = picked(&self.machines[m].running(), pick) else { return };
        let code = i32::try_from(code.rem_euclid(3)).expect("below 3");
        self.end_program(m, task, ExitStatus::Code(code));
    }

    /// A task gets the order to end, or reaches its time limit.
    pub(crate) fn begin_end(&mut self, m: usize, task: TaskId, why: Why, grace: Millis) {
        let kill_at = self.now + grace.get();
        let Some(claim) = self.machines[m].claims.get_mut(&task) else { return };
        if claim.ended.is_some() || !claim.has_shepherd {
            return;
        }
        claim.ending = match claim.ending {
            Some((earlier, at)) => Some((earlier, at.min(kill_at))),
            None => Some((why, kill_at)),
        };
        claim.bound_end(self.now);
    }

    /// Whatever is due by now on a machine: limits, and the ends of graces.
    pub(crate) fn machine_due(&mut self, m: usize) {
        let now = self.now;
        let is_due = |claim: &Claim| {
            claim.has_shepherd
                && claim.ended.is_none()
                && claim.next_end().is_some_and(|at| at <= now)
        };
        let claims = self.machines[m].claims.iter();
        let due: Vec<TaskId> =
            claims.filter(|(_, claim)| is_due(claim)).map(|(task, _)| *task).collect();
        for &task in &due {
            if self.end_without_lease(m, task) {
                continue;
            }
            let claim = &self.machines[m].claims[&task];
            if claim.ending.is_none() {
                let order = claim.order.as_ref().expect("only a launched task has a limit");
                let grace = order.spec.grace;
                let is_limit = claim.limit_at.is_some_and(|at| at <= now);
                let why = if is_limit { Why::Limit } else { Why::Deadline };
                self.begin_end(m, task, why, grace);
            } else if claim.started.is_some() {
                self.end_program(m, task, ExitStatus::Signal(9));
            } else {
                self.end_unstarted(m, task);
            }
        }
        if !due.is_empty() {
            // A grace may be none.
            self.machine_due(m);
        }
    }

    /// Ends a task before its program is started.
    fn end_unstarted(&mut self, m: usize, task: TaskId) {
        let clock = self.machines[m].clock(self.now);
        let why = self.machines[m].claims[&task].ending.map(|(why, _)| why);
        let end = match why {
            Some(Why::Fence) => TaskEnd { cause: Some(EndCause::NodeLost), ..not_run(clock) },
            _ => TaskEnd { stopped: true, ..not_run(clock) },
        };
        self.task_ended(m, task, end);
    }

    pub(crate) fn end_program(&mut self, m: usize, task: TaskId, exit: ExitStatus) {
        let machine = &self.machines[m];
        let clock = machine.clock(self.now);
        let claim = &machine.claims[&task];
        if !claim.has_shepherd {
            // No process observes the exit.
            return self.watch_exit(task, clock, exit, false);
        }
        let why = claim.ending.map(|(why, _)| why);
        let started_at = claim.started.map(|(_, at)| at);
        let cause = match why {
            Some(Why::Limit) => Some(EndCause::TimeLimit),
            Some(Why::Deadline) => Some(EndCause::Deadline),
            Some(Why::CalledBack) => Some(EndCause::LoanCalledBack),
            Some(Why::Fence) => Some(EndCause::NodeLost),
            Some(Why::StopOrder) | None => None,
        };
        let stopped = why == Some(Why::StopOrder);
        self.totals.fenced += u64::from(why == Some(Why::Fence));
        let was_limited = matches!(why, Some(Why::Limit | Why::Deadline));
        self.watch_exit(task, clock, exit, was_limited);
        let end = TaskEnd { started_at, exit: Some(exit), cause, stopped, ..not_run(clock) };
        self.task_ended(m, task, end);
    }

    /// Kills a program that has no shepherd any more.
    pub(crate) fn kill_program(&mut self, m: usize, task: TaskId) {
        let clock = self.machines[m].clock(self.now);
        self.watch_exit(task, clock, ExitStatus::Signal(9), false);
    }

    fn task_ended(&mut self, m: usize, task: TaskId, end: TaskEnd) {
        self.machines[m].end_pause(task, self.now);
        let claim = self.machines[m].claims.get_mut(&task);
        claim.expect("only a claimed task ends").ended = Some(end.clone());
        self.agent_input(m, Input::Ended { task, end });
    }

    /// A shepherd is killed: one that has not claimed, or one that has.
    pub(crate) fn kill_shepherd(&mut self, m: usize, pick: u64) {
        let machine = &mut self.machines[m];
        let n_forked = machine.forked.len();
        let mut all: Vec<Option<TaskId>> = vec![None; n_forked];
        let live = machine.claims.iter().filter(|(_, it)| it.has_shepherd && it.ended.is_none());
        all.extend(live.map(|(task, _)| Some(*task)));
        let positions: Vec<usize> = (0..all.len()).collect();
        let Some(at) = picked(&positions, pick) else { return };
        let (task, is_own) = match all[at] {
            None => {
                let forked = machine.forked.remove(at);
                let agent = machine.agent.as_ref();
                (forked.order.task(), agent.is_some_and(|agent| agent.number == forked.by))
            }
            Some(task) => {
                machine.end_pause(task, self.now);
                let claim = machine.claims.get_mut(&task).expect("it was picked from these");
                claim.has_shepherd = false;
                if claim.fence_at.is_some() {
                    // The nursery ends the processes that the shepherd left.
                    self.kill_program(m, task);
                }
                (task, true)
            }
        };
        self.totals.shepherds_killed += 1;
        self.watch.unlaunched.insert(task);
        if is_own && self.machines[m].agent.is_some() {
            self.adopt_and_tell(m, task);
        }
    }

    /// The machine reboots: no program runs any more, and some of the last writes may be lost.
    pub(crate) fn reboot(&mut self, m: usize, lost: u64, forgotten: u64) {
        self.totals.reboots += 1;
        self.kill_agent(m);
        for task in self.machines[m].running() {
            self.kill_program(m, task);
        }
        let machine = &mut self.machines[m];
        machine.boot += 1;
        machine.forked.clear();
        for claim in machine.claims.values_mut() {
            claim.has_shepherd = false;
            claim.memory.clear();
        }
        let tasks: Vec<TaskId> = machine.claims.keys().copied().collect();
        for (at, task) in tasks.into_iter().enumerate() {
            match (lost >> (2 * (at % 30))) & 3 {
                1 => drop(machine.claims.remove(&task)),
                2 => {
                    // Its last line is gone.
                    if let Some(claim) = machine.claims.get_mut(&task) {
                        claim.ended = None;
                    }
                }
                _ => {}
            }
        }
        let forgotten = usize::try_from(forgotten % 4).expect("below 4");
        machine.done.truncate(machine.done.len().saturating_sub(forgotten));
    }

    /// Checks the start of a program: it is the only start, its devices are its own, and the server
    /// knows of it.
    fn watch_start(&mut self, task: TaskId, run: Run) {
        self.totals.starts += 1;
        if let Some(before) = self.watch.runs.get(&task) {
            let what = format!("{task} is started twice, first on machine {}", before.machine);
            return self.blame(Invariant::StartedTwice, what);
        }
        self.watch_place(run.machine, task);
        let node = self.machines[run.machine].node.name.clone();
        let held = self.believed(task).filter(|held| held.node == node);
        let believed = held.map(|held| held.slots);
        if believed.as_ref() != Some(&run.booked) {
            let what = format!(
                "{task} starts on {node} with {:?}, the server believes {believed:?}",
                run.booked
            );
            self.blame(Invariant::StartedUnknown, what);
        }
        self.watch.runs.insert(task, run);
    }

    fn watch_exit(&mut self, task: TaskId, clock: Timestamp, exit: ExitStatus, was_limited: bool) {
        let Some(run) = self.watch.runs.get_mut(&task) else { return };
        if run.ended.is_none() {
            run.ended = Some((clock, exit));
            run.was_limited = was_limited;
            let machine = run.machine;
            self.leave_devices(machine, task);
        }
    }
}

pub(crate) fn not_run(at: Timestamp) -> TaskEnd {
    TaskEnd {
        started_at: None,
        ended_at: at,
        exit: None,
        cause: None,
        stopped: false,
        usage: Usage::default(),
        steps: gpool_model::Rare::default(),
    }
}
