//! What must hold after everything that happens, whatever fails.

use std::collections::BTreeSet;

use gpool_model::agent::{Report, TaskIs};
use gpool_model::job::{EndCause, ExitStatus, JobState};
use gpool_model::record::{EndedJob, RecordKind};
use gpool_model::{Effect, Job, JobEnd, JobId, Outcome, Phase, Record, RecordKey, TaskId};
use gpool_world::{Snapshot, World};

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::sim::Sim;
use crate::store::Store;
use crate::swarm;

impl Sim {
    pub(crate) fn check(&mut self) {
        if self.broken.is_none() {
            self.check_programs();
        }
        if self.broken.is_none() {
            self.check_places();
        }
        if self.broken.is_none() {
            self.check_lending();
        }
        if self.broken.is_none() {
            self.check_pauses();
        }
        if self.broken.is_none() {
            self.check_promises();
        }
        if self.broken.is_none() {
            self.check_kept();
        }
        if self.broken.is_none() {
            self.check_agreed();
        }
        if self.broken.is_none() {
            self.check_claimed();
        }
        if self.broken.is_none() {
            self.check_state();
        }
    }

    /// Checks that no program runs after the server believes that it has ended, or beyond its
    /// limit.
    pub(crate) fn check_programs(&mut self) {
        let running = self.watch.runs.iter().filter(|(_, run)| run.ended.is_none());
        let mut found = None;
        for (task, run) in running {
            if self.believed(*task).is_none() {
                let what = format!("the program of {task} runs, and its job does not");
                found = Some((Invariant::EndedAlive, what));
            }
            let claim = self.machines[run.machine].claims.get(task);
            let is_watched = claim.is_some_and(|claim| claim.has_shepherd);
            if is_watched && run.over_by.is_some_and(|at| at < self.now) {
                let what = format!("the program of {task} runs on after its time limit");
                found = Some((Invariant::LimitPassed, what));
            }
        }
        if let Some((invariant, what)) = found {
            self.blame(invariant, what);
        }
    }

    /// Checks answered requests: the jobs exist, and the changes hold.
    fn check_promises(&mut self) {
        let on_their_way = self.store.in_flight.iter().flat_map(|commit| &commit.ended);
        let leaving: BTreeSet<JobId> = on_their_way.map(EndedJob::id).collect();
        // What a failed commit held is in memory until the server hears that it failed.
        let server = self.server.as_ref().filter(|_| !self.store.is_broken);
        let world = server.map(|server| server.control.world());
        let mut found = None;
        for id in self.watch.acknowledged.keys() {
            let has_ended = self.store.archive.contains_key(id) || leaving.contains(id);
            let job = match world {
                Some(world) => world.job(*id).map(|row| row.job.clone()),
                None => self.store.job(*id),
            };
            // Without a server in memory, jobs in commits under way are nowhere else yet.
            let is_once = job.is_some() != has_ended || (world.is_none() && job.is_some());
            if !is_once {
                let what = format!("job {id} has ended: {has_ended}, is there: {}", job.is_some());
                found = Some((Invariant::JobLost, what));
            }
            let Some(job) = job else { continue };
            let state = job.phase.state();
            let goes_on = match &job.array {
                Some(array) => array.n_unstarted() > 0,
                None => state != JobState::Stopping,
            };
            if self.watch.cancelled.get(id) == Some(&true) && goes_on {
                let what = format!("job {id} was cancelled, as was answered, and is {state}");
                found = Some((Invariant::Undone, what));
            }
            let spec = world.and_then(|world| world.job(*id)).map(|row| &row.spec);
            if let Some((spec, (version, gpus))) = spec.zip(self.watch.sizes.get(id))
                && job.version == *version
                && spec.gpus != *gpus
            {
                let what = format!("job {id} requests {}, and was answered {gpus}", spec.gpus);
                found = Some((Invariant::Undone, what));
            }
            if self.watch.versions.get(id).is_some_and(|least| job.version < *least) {
                let what = format!("a change of job {id} that was answered is gone");
                found = Some((Invariant::Undone, what));
            }
        }
        if let Some((invariant, what)) = found {
            self.blame(invariant, what);
        }
    }

    /// The state is sound, and nothing in it waits that could start.
    fn check_state(&mut self) {
        let Some(server) = &self.server else { return };
        let now = server.life.clock();
        let key = (self.n_lives, server.control.world().n_changes());
        let is_same = self.watch.planned == Some(key);
        if is_same {
            return;
        }
        let may_plan = server.paused_until.is_none() && !server.is_stopping;
        let mut world = server.control.world().clone();
        world.advance(now);
        self.watch.planned = Some(key);
        let found = gpool_verify::check(&Snapshot { world: &world, now });
        if let Some(first) = found.first() {
            return self.blame(Invariant::State, first.to_string());
        }
        if may_plan {
            self.check_plan(&world, now);
        }
    }

    /// A second cycle does nothing, and what waits has its reasons.
    fn check_plan(&mut self, world: &World, now: gpool_model::Timestamp) {
        let snapshot = Snapshot { world, now };
        let mut workspace = gpool_sched::Workspace::default();
        let policy = swarm::right(world.policy());
        let plan = gpool_sched::plan(&snapshot, &policy, &mut workspace);
        if let Some(decision) = plan.decisions.first() {
            return self.blame(Invariant::SecondCycle, format!("{decision:?}"));
        }
        let found = gpool_verify::verify_fully(&snapshot, &policy, &plan);
        if let Some(first) = found.first() {
            self.blame(Invariant::Waits, first.to_string());
        }
    }

    /// The order of the records does not matter.
    pub(crate) fn check_load_order(&mut self) {
        let Some(server) = &self.server else { return };
        let now = server.life.clock();
        let records = server.control.world().records();
        let revision = server.control.revision();
        let mut worlds = [records.clone(), records.into_iter().rev().collect()]
            .map(|records| World::load(revision, records).map_err(|error| error.to_string()));
        let plans = worlds.each_mut().map(|world| {
            let world = world.as_mut().ok()?;
            world.advance(now);
            let snapshot = Snapshot { world, now };
            let mut workspace = gpool_sched::Workspace::default();
            Some(gpool_sched::plan(&snapshot, world.policy(), &mut workspace))
        });
        if plans[0].is_none() || plans[0] != plans[1] {
            self.blame(Invariant::LoadOrder, format!("{:?} is not {:?}", plans[0], plans[1]));
        }
    }

    /// What a job's end says is what happened.
    pub(crate) fn check_end(&mut self, ended: &EndedJob) {
        let Phase::Ended(end) = &ended.job.phase else {
            return self.blame(Invariant::EndUntrue, format!("job {} has not ended", ended.id()));
        };
        self.totals.ends += 1;
        if ended.job.array.is_some() {
            // What became of its elements is compared where they are kept.
            return;
        }
        let of_rank = |rank| TaskId { job: ended.id(), attempt: ended.job.attempt, rank };
        let tasks = &ended.job.course.tasks;
        if tasks.is_empty() {
            let task = of_rank(0);
            if let Err(why) = self.is_true(task, ended, end) {
                let what = format!("{task} {why}, said to be {:?} ({:?})", end.outcome, end.cause);
                self.blame(Invariant::EndUntrue, what);
            }
            return;
        }
        // The end of each task of a gang is true, and the gang's end is that of one task.
        let mut whys = Vec::new();
        let mut is_one = false;
        for (rank, course) in (0..).zip(tasks) {
            let Some(of_task) = &course.end else {
                whys.push(format!("{} has not ended", of_rank(rank)));
                continue;
            };
            let run = self.watch.runs.get(&of_rank(rank));
            let real = run.and_then(|run| run.ended).map(|(_, exit)| exit);
            if of_task.exit.is_some() && of_task.exit != real {
                whys.push(format!("{} exited with {real:?}", of_rank(rank)));
            }
            if run.is_some() && real.is_none() {
                whys.push(format!("{} runs", of_rank(rank)));
            }
            is_one |= of_task.exit == end.exit;
        }
        let all_well = || tasks.iter().flat_map(|it| &it.end).all(|it| it.exit == end.exit);
        if !is_one || (end.outcome == Outcome::Succeeded && !all_well()) {
            whys.push(format!("no task of job {} ended so", ended.id()));
        }
        if let Some(why) = whys.into_iter().next() {
            let what = format!("{why}, said to be {:?} ({:?})", end.outcome, end.cause);
            self.blame(Invariant::EndUntrue, what);
        }
    }

    fn is_true(&self, task: TaskId, ended: &EndedJob, end: &JobEnd) -> Result<(), String> {
        let run = self.watch.runs.get(&task);
        let rebooted = self.machines.iter().any(|machine| machine.boot > 1);
        let was_unlaunched = self.watch.unlaunched.contains(&task);
        let truth = |holds: bool, why: &str| if holds { Ok(()) } else { Err(why.to_owned()) };
        match (&end.cause, end.outcome) {
            (Some(EndCause::Rebooted), Outcome::Lost) => truth(rebooted, "saw no reboot")?,
            (Some(EndCause::NodeLost), Outcome::Lost) => {
                let was_off = self.totals.removals > 0;
                let is_fenced = ended.spec.life.on_node_lost.is_fenced();
                truth(is_fenced || was_off, "is not fenced, and no node was removed")?;
            }
            (Some(EndCause::ShepherdLost), Outcome::Lost) => {
                truth(was_unlaunched, "has its shepherd")?;
            }
            (_, Outcome::Lost) => truth(false, "can't be lost")?,
            (Some(EndCause::LaunchFailed { .. }), _) => {
                truth(was_unlaunched && run.is_none(), "was launched")?;
            }
            (Some(EndCause::Cancelled { by }), Outcome::Cancelled) => {
                let whole = JobId { element: None, ..ended.id() };
                let mut ids = [ended.id(), whole].into_iter();
                let asked =
                    ids.any(|id| self.watch.cancelled.contains_key(&id)) || self.was_displaced(by);
                truth(asked, "was never cancelled")?;
            }
            (Some(EndCause::TooManyFailed { .. }), Outcome::Cancelled) => {
                let array = ended.spec.array.as_ref();
                truth(array.is_some() && ended.id().element.is_some(), "has no like")?;
            }
            (Some(EndCause::DependencyFailed { .. }), Outcome::Cancelled) => {
                truth(!ended.spec.after.is_empty(), "waited for nothing")?;
            }
            (Some(EndCause::Deadline), Outcome::Cancelled) => {
                truth(ended.spec.life.deadline.is_some(), "had no deadline")?;
                truth(run.is_none(), "was launched")?;
            }
            (Some(EndCause::Deadline), Outcome::TimedOut) => {
                truth(ended.spec.life.deadline.is_some(), "had no deadline")?;
                truth(run.is_some_and(|run| run.was_limited), "was not limited")?;
            }
            (Some(EndCause::TimeLimit), Outcome::TimedOut) => {
                truth(run.is_some_and(|run| run.was_limited), "was not limited")?;
            }
            (Some(EndCause::LoanCalledBack), Outcome::Failed) => {
                truth(self.watch.called_back.contains(&task), "kept no loan")?;
            }
            (None, Outcome::Succeeded) => {
                truth(end.exit == Some(ExitStatus::Code(0)), "did not exit with 0")?;
            }
            (None, Outcome::Failed) => truth(end.exit.is_some(), "was not seen")?,
            _ => truth(false, "can't end so")?,
        }
        let real = run.and_then(|run| run.ended);
        if let Some(exit) = end.exit {
            let (at, really) = real.ok_or("did not exit")?;
            truth(really == exit, &format!("exited with {really:?}, not {exit:?}"))?;
            truth(at == end.ended_at, "ended at another time")?;
            let started = run.map(|run| run.started_at);
            truth(started == end.started_at, "started at another time")?;
            let held: Vec<_> = end.allocations.iter().flat_map(|it| &it.slots).collect();
            let devices = run.map_or(0, |run| run.booked.len());
            truth(held.len() == devices, "held other devices")?;
        }
        truth(run.is_none() || real.is_some(), "runs")
    }

    pub(crate) fn watch_signal(&mut self, task: TaskId, signal: i32) {
        let Some((term, request)) = self.watch.signal else { return };
        if !self.watch.signalled.insert((term, request, task)) {
            let what = format!("signal {signal} of request {request} reaches {task} again");
            self.blame(Invariant::SignalledTwice, what);
        }
    }

    pub(crate) fn note_step(&mut self, effects: &[Effect]) {
        self.totals.steps += 1;
        self.note(|| {
            let lines: Vec<String> = effects.iter().map(|it| format!("{it:?}")).collect();
            format!("    {}", lines.join("\n    "))
        });
    }

    pub(crate) fn is_durable(&self, number: u64) -> bool {
        let id = JobId::single(number);
        self.store.archive.contains_key(&id) || self.store.job(id).is_some()
    }

    /// What a planted bug makes of a report.
    pub(crate) fn spoil(&mut self, bug: Bug, m: usize, report: &mut Report) {
        let Some(agent) = self.machines[m].agent.as_ref() else { return };
        let has_answered = agent.term > gpool_model::Term(0);
        match (bug, report) {
            (Bug::ExitSwapped, Report::Task(report)) => {
                if let TaskIs::Ended(end) = &mut report.is
                    && let Some(ExitStatus::Code(code @ (0 | 1))) = &mut end.exit
                {
                    *code = 1 - *code;
                }
            }
            (Bug::EndToldOnce, Report::Tasks { tasks, .. }) => {
                tasks.retain(|task| !matches!(task.is, TaskIs::Ended(_)));
            }
            (Bug::RefusalHidden, Report::Task(report)) => {
                if matches!(report.is, TaskIs::Refused { .. }) {
                    report.is = TaskIs::Launching;
                }
            }
            (Bug::RefusalHidden, Report::Tasks { tasks, .. }) => {
                for task in tasks.iter_mut().filter(|it| matches!(it.is, TaskIs::Refused { .. })) {
                    task.is = TaskIs::Launching;
                }
            }
            (Bug::AnswerTooEarly, Report::Tasks { tasks, .. }) if !agent.has_adopted => {
                tasks.clear();
            }
            (Bug::InventoryUnordered, Report::Inventory { stamp, .. }) if has_answered => {
                stamp.sequence = u64::MAX;
            }
            _ => {}
        }
    }
}

impl Store {
    /// A job that has not ended, as it is durable.
    pub fn job(&self, id: JobId) -> Option<Job> {
        let key = RecordKey { kind: RecordKind::Job, key: id.to_string() };
        match self.records.get(&key) {
            Some(Record::Job(job)) => Some((**job).clone()),
            _ => None,
        }
    }
}
