//! Random runs of the controllers against the real state machine and a driver that divides devices.
//! The server is killed between any two acts, commits are lost, devices refuse changes, reports
//! are late, and the history can't be read. That the checks can fail is checked with planted bugs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpool_control::controller::{
    Act, BudgetController, Controller, Look, MigController, Needs, Next, Outcome,
};
use gpool_model::agent::{TaskIs, TaskReport};
use gpool_model::budget::{MonthSpending, OverBudget, Overspent, Payer};
use gpool_model::job::Holder;
use gpool_model::mig_layout::MigChange;
use gpool_model::*;
use gpool_sched::Explainer;
use gpool_sched::mig_plan::MigStep;
use gpool_world::Snapshot;

use crate::harness::{Harness, ana, bo, job, root, tasks};
use crate::mig_plan::Machine;

/// An error of a controller, or of the loop around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// The acts of the last look are carried out, not those of this one.
    OldLook,
    /// The plan of a killed server is carried out to its end by the next one.
    PlanOutlivesKill,
    /// A round does not wait for the report of a new instance.
    CreatedForgotten,
    /// A failed change is tried again at once.
    FailureForgotten,
    /// The rest of a plan is carried out after a failure.
    GoesOn,
    /// A history that can't be read counts as no costs.
    UnreadableIsZero,
    /// A command that was sent counts as stored.
    SentIsStored,
    /// The costs are reported although the same budgets are used up.
    SaysAgain,
    /// Nothing is done once the policy no longer holds jobs.
    HoldsForGood,
}

const BUGS: [Bug; 9] = [
    Bug::OldLook,
    Bug::PlanOutlivesKill,
    Bug::CreatedForgotten,
    Bug::FailureForgotten,
    Bug::GoesOn,
    Bug::UnreadableIsZero,
    Bug::SentIsStored,
    Bug::SaysAgain,
    Bug::HoldsForGood,
];

const BUDGET: u64 = 100;
const USERS: [&str; 2] = ["ana", "bo"];
const REQUESTS: [&str; 6] = ["1g.10gb", "1g.10gb:3", "2g.20gb", "3g.40gb", "7g.80gb", "mig:2"];

/// Faults while acts are carried out, each in a hundred.
#[derive(Clone, Copy, Default)]
struct Faults {
    kill: usize,
    failed_change: usize,
    lost_commit: usize,
    late_report: usize,
    unreadable: usize,
}

const SOME_FAULTS: Faults =
    Faults { kill: 8, failed_change: 15, lost_commit: 15, late_report: 30, unreadable: 20 };

struct Run {
    bug: Option<Bug>,
    faults: Faults,
    number: u64,
    machine: Machine,
    mig: MigController,
    budgets: BudgetController,
    uptime: Duration,
    /// The cost of this month of each user.
    costs: BTreeMap<&'static str, u64>,
    is_report_due: bool,
    /// The started tasks.
    started: BTreeSet<TaskId>,
    /// By device, the uptime at the last failed change.
    failed: BTreeMap<DeviceUuid, Duration>,
    /// The instances that were created, each with its job and the number that the job lacked.
    created: Vec<(JobId, DeviceUuid)>,
    /// Acts for the bugs: of the last look, of a killed server, and the last command.
    old: Vec<Act>,
    killed: Vec<Act>,
    sent: Option<Command>,
    fault: Option<String>,
}

impl Run {
    fn new(seed: u32, bug: Option<Bug>) -> Self {
        Self {
            bug,
            faults: SOME_FAULTS,
            number: u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            machine: Machine::new(1 + usize::try_from(seed % 2).expect("it is small")),
            mig: MigController::default(),
            budgets: BudgetController,
            uptime: Duration::ZERO,
            costs: BTreeMap::new(),
            is_report_due: false,
            started: BTreeSet::new(),
            failed: BTreeMap::new(),
            created: Vec::new(),
            old: Vec::new(),
            killed: Vec::new(),
            sent: None,
            fault: None,
        }
    }

    fn next(&mut self, below: usize) -> usize {
        self.number ^= self.number << 13;
        self.number ^= self.number >> 7;
        self.number ^= self.number << 17;
        usize::try_from(self.number >> 8).expect("64 bits") % below
    }

    fn happens(&mut self, in_hundred: usize) -> bool {
        self.next(100) < in_hundred
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.fault.is_none() {
            self.fault = Some(what());
        }
    }

    fn harness(&mut self) -> &mut Harness {
        &mut self.machine.harness
    }

    /// The server and, where they are forgotten with it, its controllers start again.
    fn restart(&mut self, is_killed: bool) {
        if is_killed {
            (self.mig, self.budgets) = Default::default();
            (self.uptime, self.failed) = Default::default();
        }
        self.harness().restart();
        self.report();
        let term = self.harness().term();
        let world = self.machine.harness.control.world();
        let live: BTreeSet<TaskId> =
            world.holding().flat_map(|row| row.job.phase.allocations()).map(|it| it.task).collect();
        self.started.retain(|task| live.contains(task));
        let started_at = self.machine.harness.now;
        let says = |task: &TaskId| TaskReport {
            task: *task,
            generation: Generation(1),
            is: TaskIs::Running { pid: 1, started_at },
        };
        let running = self.started.iter().map(says).collect();
        self.harness().report(tasks(term, running));
    }

    /// The agent reports its devices; placed jobs start.
    fn report(&mut self) {
        self.is_report_due = false;
        self.machine.report();
        self.start_placed();
    }

    fn start_placed(&mut self) {
        for id in self.machine.running() {
            let task = self.harness().task_of(id);
            if self.started.insert(task) {
                self.harness().started(id);
            }
        }
    }

    fn pass(&mut self, seconds: u32) {
        self.uptime += Duration::from_secs(seconds.into());
        let harness = self.harness();
        harness.now = harness.now.after(Millis::from_secs(seconds));
    }

    fn happen(&mut self) {
        match self.next(10) {
            0..=1 => {
                let new = job(REQUESTS[self.next(REQUESTS.len())]);
                let caller = if self.happens(50) { ana() } else { bo() };
                drop(self.harness().submit(&caller, vec![new]).expect("it is valid"));
                self.start_placed();
            }
            2..=3 => {
                let running = self.machine.running();
                if !running.is_empty() {
                    let id = running[self.next(running.len())];
                    self.machine.finish(id);
                    self.start_placed();
                }
            }
            4 => {
                let user = USERS[self.next(2)];
                *self.costs.entry(user).or_default() += 60;
            }
            // A new month.
            5 if self.happens(30) => self.costs.clear(),
            6 if self.happens(30) => {
                let how = if self.happens(50) { "hold" } else { "warn" };
                self.set_over_budget(how);
            }
            // A report comes within a minute, or the agent would be silent.
            7 | 8 if self.is_report_due => self.report(),
            8 => self.pass(20),
            _ => self.rounds(),
        }
    }

    fn set_over_budget(&mut self, how: &str) {
        let set = vec![("over_budget".to_owned(), how.to_owned())];
        let command = Command::SetPolicy { preset: None, set, dry_run: false };
        drop(self.harness().command(&root(), command).expect("it is valid"));
        self.start_placed();
    }

    fn rounds(&mut self) {
        self.pass(1);
        let mut mig = self.mig.clone();
        if let Some(is_killed) = self.round(&mut mig) {
            return self.restart(is_killed);
        }
        self.mig = mig;
        let mut budgets = self.budgets;
        if let Some(is_killed) = self.round(&mut budgets) {
            return self.restart(is_killed);
        }
        self.budgets = budgets;
    }

    fn spending(&self) -> Vec<MonthSpending> {
        let row = |(user, spent): (&&str, &u64)| MonthSpending {
            payer: Payer::User((*user).into()),
            month: Timestamp::new(0),
            spent: Money::from_millionths(*spent),
            budget: Money::from_millionths(BUDGET),
            currency: "EUR".into(),
        };
        self.costs.iter().map(row).collect()
    }

    /// One round of a controller. Returns whether the server has to start again after it, and then
    /// whether it was killed.
    fn round<C: Controller>(&mut self, controller: &mut C) -> Option<bool> {
        let mut acts = self.acts(controller).into_iter();
        while let Some(act) = acts.next() {
            if self.happens(self.faults.kill) {
                self.killed = std::iter::once(act).chain(acts).collect();
                return Some(true);
            }
            let Some(outcome) = self.carry_out(&act) else { return Some(false) };
            if self.happens(self.faults.kill) {
                self.killed = acts.collect();
                return Some(true);
            }
            let is_forgotten = match outcome {
                Outcome::Created(_) => self.is(Bug::CreatedForgotten),
                Outcome::Failed => self.is(Bug::FailureForgotten),
                Outcome::Done | Outcome::Outdated => false,
            };
            let goes_on = is_forgotten
                || controller.note(&act, &outcome, self.uptime) == Next::Act
                || (self.is(Bug::GoesOn) && outcome == Outcome::Failed);
            if !goes_on {
                break;
            }
        }
        None
    }

    /// The acts of a round, with the bugs of a look.
    fn acts<C: Controller>(&mut self, controller: &mut C) -> Vec<Act> {
        let needs = C::needs(self.machine.harness.control.world());
        let is_readable = !self.happens(self.faults.unreadable);
        let says_zero = self.is(Bug::UnreadableIsZero);
        let costs = match needs {
            Needs::Nothing => return Vec::new(),
            Needs::State if self.is(Bug::HoldsForGood) => return Vec::new(),
            Needs::State | Needs::Reasons => Vec::new(),
            Needs::Costs if is_readable => self.spending(),
            Needs::Costs if says_zero => Vec::new(),
            Needs::Costs => return Vec::new(),
        };
        let world = self.machine.harness.control.world();
        let snapshot = Snapshot { world, now: self.machine.harness.now };
        let explainer = &Explainer::new(snapshot, world.policy());
        let look = Look { world, explainer, costs: &costs, uptime: self.uptime };
        let mut acts = controller.round(&look);
        let known = &world.policy().overspent;
        if self.is(Bug::SaysAgain) && needs == Needs::Costs && acts.is_empty() && !known.is_empty()
        {
            acts.push(Act::Command(Box::new(Command::SetOverspent { all: known.to_vec() })));
        }
        if needs == Needs::Reasons {
            if self.is(Bug::OldLook) {
                acts = std::mem::replace(&mut self.old, acts);
            }
            if self.is(Bug::PlanOutlivesKill) && !self.killed.is_empty() {
                acts = std::mem::take(&mut self.killed);
            }
        }
        acts
    }

    /// Carries out an act; `None` if its commit is lost, so that the state machine starts again.
    fn carry_out(&mut self, act: &Act) -> Option<Outcome> {
        match act {
            Act::Command(command) => self.command(command),
            Act::ChangeInstances(step) => Some(self.change(step)),
        }
    }

    fn command(&mut self, command: &Command) -> Option<Outcome> {
        if self.is(Bug::SentIsStored) && self.sent.as_ref() == Some(command) {
            return Some(Outcome::Done);
        }
        self.sent = Some(command.clone());
        if self.happens(self.faults.lost_commit) {
            return None;
        }
        let before = self.machine.harness.control.world().policy().overspent.clone();
        self.harness().command(&root(), command.clone()).expect("the server may");
        self.start_placed();
        let policy = self.machine.harness.control.world().policy().clone();
        let names = |all: &[Overspent]| -> BTreeSet<String> {
            all.iter().map(|it| it.payer.name().to_owned()).collect()
        };
        let (before, after) = (names(&before), names(&policy.overspent));
        self.check(before != after, || format!("{after:?} is said again"));
        let is_over = |it: &String| self.costs.get(&**it).is_some_and(|spent| *spent >= BUDGET);
        let is_held = policy.over_budget == OverBudget::Hold;
        let wrong: Vec<&String> = before.difference(&after).filter(|it| is_over(it)).collect();
        let wrong = format!("released although over budget: {wrong:?}");
        self.check(!is_held || wrong.ends_with("[]"), || wrong);
        Some(Outcome::Done)
    }

    fn change(&mut self, step: &MigStep) -> Outcome {
        let device = &step.device;
        let rests =
            self.failed.get(device).is_some_and(|at| self.uptime - *at < Duration::from_secs(60));
        self.check(!rests, || format!("{device} is changed right after a failure"));
        if self.happens(self.faults.failed_change) {
            self.failed.insert(device.clone(), self.uptime);
            return Outcome::Failed;
        }
        let outcome = match &step.change {
            MigChange::Destroy { instance } => self.destroy(instance),
            MigChange::Create { device, profile } => self.create(step.job, device, profile),
        };
        match outcome {
            Outcome::Failed => drop(self.failed.insert(device.clone(), self.uptime)),
            _ if self.happens(self.faults.late_report) => self.is_report_due = true,
            _ => self.report(),
        }
        outcome
    }

    fn destroy(&mut self, instance: &DeviceUuid) -> Outcome {
        let world = self.machine.harness.control.world();
        let row = &world.nodes()[0];
        let at = row.node.devices.iter().position(|it| it.uuid == *instance);
        let is_used = at.is_some_and(|at| !row.is_whole(at));
        if is_used {
            return Outcome::Outdated;
        }
        if !self.machine.has(instance) {
            return Outcome::Failed;
        }
        self.machine.destroy(instance);
        Outcome::Done
    }

    fn create(&mut self, id: JobId, device: &DeviceUuid, profile: &str) -> Outcome {
        let world = self.machine.harness.control.world();
        let of_waiting = world.job(id).filter(|row| row.job.phase.allocations().is_empty());
        let wants = of_waiting.map_or(0, |row| row.spec.request.gpus.n_devices());
        let is_unused = |it: &DeviceUuid| {
            let row = &world.nodes()[0];
            let at = row.node.devices.iter().position(|device| device.uuid == *it);
            self.machine.has(it) && at.is_none_or(|at| row.is_whole(at))
        };
        let unused = self.created.iter().filter(|(job, it)| *job == id && is_unused(it)).count();
        let is_enough = unused >= usize::try_from(wants).expect("it is small");
        self.check(!is_enough, || format!("job {id} wants {wants} and has {unused} instances"));
        match self.machine.create(device, profile) {
            Some(instance) => {
                self.created.push((id, instance.clone()));
                Outcome::Created(instance)
            }
            None => Outcome::Failed,
        }
    }

    /// Without faults, the held jobs are those of users over budget, and all others end.
    fn settle(&mut self) {
        self.faults = Faults::default();
        self.pass(100);
        self.report();
        self.set_over_budget("hold");
        self.rounds();
        for caller in [ana(), bo()] {
            drop(self.harness().submit(&caller, vec![job("1g.10gb")]).expect("it is valid"));
        }
        self.end_all();
        let is_over = |(user, spent): (&&str, &u64)| (*spent >= BUDGET).then(|| (*user).to_owned());
        let over: BTreeSet<String> = self.costs.iter().filter_map(is_over).collect();
        let world = self.machine.harness.control.world();
        let (mut held, mut others) = (BTreeSet::new(), Vec::new());
        for row in world.job_rows() {
            match row.job.holder() {
                Some(Holder::Budget) => drop(held.insert(row.spec.owner.user.to_string())),
                _ => others.push((row.job.id, row.job.phase.clone())),
            }
        }
        self.check(others.is_empty(), || format!("they wait although they may run: {others:?}"));
        self.check(held == over, || format!("jobs of {held:?} are held, {over:?} are over budget"));
        self.set_over_budget("warn");
        self.end_all();
        let n_left = self.machine.harness.control.world().job_rows().count();
        self.check(n_left == 0, || format!("{n_left} jobs wait for ever"));
    }

    fn end_all(&mut self) {
        for _ in 0..200 {
            self.rounds();
            for id in self.machine.running() {
                self.machine.finish(id);
            }
            self.start_placed();
        }
    }
}

fn fault_of(seed: u32, bug: Option<Bug>) -> Option<String> {
    let mut run = Run::new(seed, bug);
    for _ in 0..120 {
        run.happen();
        if run.fault.is_some() {
            return run.fault;
        }
    }
    run.settle();
    run.fault
}

#[test]
fn controllers_survive_kills_between_any_two_acts() {
    for seed in 0..150 {
        assert_eq!(fault_of(seed, None), None, "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in BUGS {
        let found = (0..200).find_map(|seed| fault_of(seed, Some(bug)));
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
