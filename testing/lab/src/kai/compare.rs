//! Compares the result of a case, played by the scheduler with preset `fair`, with the recorded
//! answer of KAI's rules: which jobs run in the end, and the reasons for differences.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::job::JobState;
use gpool_model::{JobId, Phase, ResourceKind};
use gpool_scenario::{Cluster, Situation};
use gpool_sched::ProjectShare;
use gpool_sched::fairshare::Account;
use gpool_world::Snapshot;

use super::answer::{Answer, Running};
use super::build::{CaseError, build};
use super::case::{self, Case, GpuAsk, TaskState};
use super::explanation::Explanation;
use super::file::Scenario;
use super::lines::{self, Missing};

/// The result of a case beside KAI's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseResult {
    /// By both rules the same jobs run on the same nodes.
    Same,
    /// Not the same, each difference for one of these reasons.
    Differs(BTreeMap<String, Explanation>),
    /// An unexplained difference, or a broken guarantee. Both are faults.
    Fault(Vec<String>),
    /// It uses a feature that gpool lacks, or has no recorded answer.
    NotPlayed(Missing),
}

/// Cycles within which a case must settle.
const CYCLES: usize = 12;

/// Plays a case, and compares the result with the recorded answer.
///
/// # Errors
/// A part of it is not valid.
pub fn play(scenario: &Scenario) -> Result<CaseResult, CaseError> {
    match Answer::of(&scenario.id) {
        Some(answer) => compare(scenario, answer),
        None => Ok(CaseResult::NotPlayed(Missing::Answer)),
    }
}

/// Plays a case, whole cycles until nothing changes, and compares the result with an answer of KAI.
///
/// # Errors
/// A part of it is not valid.
pub fn compare(scenario: &Scenario, answer: Answer) -> Result<CaseResult, CaseError> {
    let case = build(scenario)?;
    let written = match lines::lines(&case, &gone(scenario)) {
        Ok(written) => written,
        Err(missing) => return Ok(CaseResult::NotPlayed(missing)),
    };
    let situation = match Situation::parse(&written.lines) {
        Ok(situation) => situation,
        Err(error) => return Ok(CaseResult::Fault(vec![format!("its lines: {error}")])),
    };
    let snapshot = situation.world();
    let faults = gpool_verify::check(&Snapshot { world: &snapshot, now: situation.now });
    if !faults.is_empty() {
        return Ok(CaseResult::NotPlayed(Missing::Overbooked));
    }
    let mut cluster = Cluster::of(&situation);
    let extras = situation.jobs.iter().filter_map(|(spec, _)| {
        Some((spec.id, *written.extras.get(spec.name.as_ref()).filter(|_| spec.joins.is_none())?))
    });
    if let Err(faults) = settle_fair(&mut cluster, &extras.collect()) {
        return Ok(CaseResult::Fault(faults));
    }
    let end = cluster.snapshot();
    let comparison = Comparison {
        shares: gpool_sched::project_shares(&end, end.world.policy()),
        began: running(&case),
        kai: answer.running,
        fair: running_fair(&cluster),
        moves: answer.moves,
        cluster: &cluster,
        case: &case,
    };
    Ok(match comparison.judge() {
        CaseResult::Differs(reasons) if case.is_partial && !are_elsewhere(&reasons) => {
            CaseResult::NotPlayed(Missing::Switches)
        }
        CaseResult::Fault(_) if case.is_partial => CaseResult::NotPlayed(Missing::Switches),
        came => came,
    })
}

/// Whether all jobs have the same allocations, some of them on other nodes.
fn are_elsewhere(reasons: &BTreeMap<String, Explanation>) -> bool {
    reasons.values().all(|it| *it == Explanation::Elsewhere)
}

/// Returns the scenario lines of a case for `fair`.
///
/// # Errors
/// The part of the case that is not understood.
pub fn lines(scenario: &Scenario) -> Result<Result<String, Missing>, CaseError> {
    let written = lines::lines(&build(scenario)?, &gone(scenario));
    Ok(written.map(|written| written.lines))
}

/// Jobs with tasks that do not come back after an eviction.
fn gone(scenario: &Scenario) -> BTreeSet<&str> {
    let jobs = scenario.jobs.iter().filter(|job| job.delete_when_releasing);
    jobs.map(|job| job.name.as_str()).collect()
}

fn n_running(running: &Running, job: &str) -> usize {
    running.get(job).map_or(0, Vec::len)
}

/// Which jobs run when a case begins.
fn running(case: &Case) -> Running {
    let mut running = Running::new();
    for job in case.jobs.iter().filter(|job| lines::is_booked(job)) {
        let runs = job.tasks.iter().filter_map(|task| match task.state {
            TaskState::Running | TaskState::Bound => Some(task.placement.as_ref()?.node.clone()),
            _ => None,
        });
        let mut nodes: Vec<String> = runs.collect();
        nodes.sort();
        if !nodes.is_empty() {
            running.insert(job.name.clone(), nodes);
        }
    }
    running
}

fn running_fair(cluster: &Cluster) -> Running {
    let world = cluster.snapshot().world;
    let mut running = Running::new();
    for row in world.holding().filter(|row| row.job.phase.state() == JobState::Running) {
        let joined = row.spec.joins.as_ref().and_then(|joins| world.job(joins.job));
        let name = joined.map_or(&row.spec.name, |joined| &joined.spec.name);
        let nodes = row.job.phase.allocations().iter().map(|held| held.node.to_string());
        running.entry(name.to_string()).or_default().extend(nodes);
    }
    running.values_mut().for_each(|nodes| nodes.sort());
    running
}

/// Cycles until nothing changes, each plan judged.
fn settle_fair(cluster: &mut Cluster, extras: &BTreeMap<JobId, usize>) -> Result<(), Vec<String>> {
    let n_extra: usize = extras.values().sum();
    cluster.tend(extras);
    for _ in 0..CYCLES + n_extra {
        let plan = cluster.plan();
        let snapshot = cluster.snapshot();
        let policy = snapshot.world.policy();
        let mut faults = gpool_verify::verify_fully(&snapshot, policy, &plan);
        faults.extend(gpool_verify::verify(&snapshot, policy, &plan));
        if !faults.is_empty() {
            return Err(faults.iter().map(ToString::to_string).collect());
        }
        let made = cluster.cycle();
        let n_left = cluster.finish_leaving();
        let grows = cluster.tend(extras);
        let found = gpool_verify::check(&cluster.snapshot());
        if !found.is_empty() {
            return Err(found.iter().map(ToString::to_string).collect());
        }
        if made.decisions.is_empty() && n_left == 0 && !grows {
            return Ok(());
        }
    }
    Err(vec![format!("it has not settled after {CYCLES} cycles (E5)")])
}

/// A case with both results.
struct Comparison<'c> {
    began: Running,
    kai: Running,
    fair: Running,
    /// Whether `kai` moved anything.
    moves: bool,
    cluster: &'c Cluster,
    /// What projects have and may have in the end.
    shares: Vec<ProjectShare>,
    case: &'c Case,
}

impl Comparison<'_> {
    fn judge(&self) -> CaseResult {
        let mut reasons = BTreeMap::new();
        let mut faults = Vec::new();
        for job in &self.case.jobs {
            let (kai, fair) = (self.kai.get(&job.name), self.fair.get(&job.name));
            if kai == fair {
                continue;
            }
            let by = |running: &Running| n_running(running, &job.name);
            let (n_kai, n_fair) = (by(&self.kai), by(&self.fair));
            let reason = match n_kai.cmp(&n_fair) {
                Ordering::Equal if self.moves && self.began.get(&job.name) == fair => {
                    Some(Explanation::NothingMoved)
                }
                Ordering::Equal => Some(Explanation::Elsewhere),
                Ordering::Greater => self.why_not(job),
                Ordering::Less => self.why_so(job),
            };
            match reason {
                Some(reason) => drop(reasons.insert(job.name.clone(), reason)),
                None => faults.push(format!(
                    "{}: kai runs {n_kai} of {} tasks, fair runs {n_fair}, and there is no \
                     explanation",
                    job.name,
                    job.tasks.len(),
                )),
            }
        }
        match (faults.is_empty(), reasons.is_empty()) {
            (false, _) => CaseResult::Fault(faults),
            (true, true) => CaseResult::Same,
            (true, false) => CaseResult::Differs(reasons),
        }
    }

    /// Those that run by one rule and not by the other, and ran when it began or not.
    fn others(&self, of: &Running, not_of: &Running, began: bool) -> Vec<&case::Job> {
        let jobs = self.case.jobs.iter();
        let is_one = |job: &&case::Job| {
            let n_less = n_running(not_of, &job.name);
            n_running(of, &job.name) > n_less
                && (n_running(&self.began, &job.name) > n_less) == began
        };
        jobs.filter(is_one).collect()
    }

    /// Why a job that runs by `kai` does not by `fair`.
    fn why_not(&self, job: &case::Job) -> Option<Explanation> {
        if lines::is_in_part(job) {
            return Some(Explanation::AsAWhole);
        }
        if n_running(&self.began, &job.name) > n_running(&self.fair, &job.name) {
            // This job was evicted here, and another one or none there.
            let spared = self.others(&self.fair, &self.kai, true);
            let started = self.others(&self.fair, &self.kai, false);
            return match (spared.is_empty(), started.is_empty()) {
                (false, _) => Some(Explanation::OtherVictims),
                (true, false) if self.is_oversubscribed() => Some(Explanation::ScaledGuarantees),
                (true, false) if self.was_over(job) => Some(Explanation::LegalVictimFound),
                (true, false) => self.went_first(job, &started),
                (true, true) => None,
            };
        }
        if self.counted_kinds(&[job]).is_empty() {
            return Some(Explanation::NotPromised);
        }
        let spared = self.others(&self.fair, &self.kai, true);
        if !spared.is_empty() {
            if self.is_oversubscribed() {
                return Some(Explanation::ScaledGuarantees);
            }
            let kinds = self.counted_kinds(&[job]);
            return match spared.iter().any(|it| self.is_within(&it.project, &kinds)) {
                true => Some(Explanation::WithinGuarantee),
                false => Some(Explanation::ShareKept),
            };
        }
        if self.is_oversubscribed() && !job.preemptible {
            return Some(Explanation::ScaledGuarantees);
        }
        if self.moves {
            return Some(Explanation::NothingMoved);
        }
        let started = self.others(&self.fair, &self.kai, false);
        self.went_first(job, &started).or_else(|| {
            let is_lent =
                job.preemptible || self.is_within(&job.project, &self.counted_kinds(&[job]));
            (!is_lent).then_some(Explanation::NeverLent).or_else(|| self.is_kept(job))
        })
    }

    /// Others start in its place, and why these.
    fn went_first(&self, job: &case::Job, started: &[&case::Job]) -> Option<Explanation> {
        let smaller = |it: &&&case::Job| {
            it.project == job.project && it.priority >= job.priority && size(it) < size(job)
        };
        if started.iter().any(|it| smaller(&it)) {
            return Some(Explanation::SmallerFirst);
        }
        if self.would_borrow(job) && started.iter().any(|it| !self.is_over(&it.project)) {
            return Some(Explanation::EntitledFirst);
        }
        let other = started.iter().any(|it| it.project != job.project);
        other.then_some(Explanation::WithoutNextJob)
    }

    /// Why a job that waits by `kai` runs by `fair`: it is in the place of one that does not.
    fn why_so(&self, job: &case::Job) -> Option<Explanation> {
        if n_running(&self.began, &job.name) > n_running(&self.kai, &job.name) {
            // It was spared: what would have had it does without.
            let gone = self.others(&self.kai, &self.fair, true);
            let without = self.others(&self.kai, &self.fair, false);
            if !gone.is_empty() {
                return Some(Explanation::OtherVictims);
            }
            if without.is_empty() {
                return Some(Explanation::ShareKept);
            }
            if self.is_oversubscribed() {
                return Some(Explanation::ScaledGuarantees);
            }
            return Some(match self.is_within(&job.project, &self.counted_kinds(&without)) {
                true => Explanation::WithinGuarantee,
                false => Explanation::ShareKept,
            });
        }
        let without = self.others(&self.kai, &self.fair, false);
        if without.iter().any(|it| self.counted_kinds(&[it]).is_empty()) {
            return Some(Explanation::NotPromised);
        }
        if let Some(reason) = without.iter().find_map(|it| self.went_first(it, &[job])) {
            return Some(reason);
        }
        let gone = self.others(&self.kai, &self.fair, true);
        if !gone.is_empty() && self.is_oversubscribed() {
            return Some(Explanation::ScaledGuarantees);
        }
        if gone.iter().any(|it| self.was_over(it)) {
            return Some(Explanation::LegalVictimFound);
        }
        let is_unmanaged = |it: &case::Job| !lines::is_booked(it);
        self.case.jobs.iter().any(is_unmanaged).then_some(Explanation::BesideUnmanaged)
    }

    /// What any of these asks for, as far as anything is agreed about it with any project.
    fn counted_kinds(&self, jobs: &[&case::Job]) -> Vec<ResourceKind> {
        let asked = |kind: &ResourceKind| jobs.iter().any(|job| asked_of(job, kind) > 0);
        let accounts = self.shares.first().map(accounts).into_iter().flatten();
        accounts.map(|(kind, _)| kind).filter(asked).collect()
    }

    /// Whether a project holds in the end no more of these than it is guaranteed.
    fn is_within(&self, project: &str, kinds: &[ResourceKind]) -> bool {
        self.share(project).is_some_and(|share| {
            let mut accounts = accounts(share).filter(|(kind, _)| kinds.contains(kind));
            accounts.all(|(_, account)| account.guaranteed.allows(account.held))
        })
    }

    /// Whether a project ends above its own share.
    fn is_over(&self, project: &str) -> bool {
        let is_over = |(_, it): (ResourceKind, Account)| !it.own().allows(it.held);
        self.share(project).is_some_and(|share| accounts(share).any(is_over))
    }

    /// Whether a job that waits in the end would have its project hold more than its own.
    fn would_borrow(&self, job: &case::Job) -> bool {
        let is_over = |(kind, it): (ResourceKind, Account)| {
            let asked = asked_of(job, &kind);
            asked > 0 && !it.own().allows(it.held.saturating_add(asked))
        };
        self.share(&job.project).is_some_and(|share| accounts(share).any(is_over))
    }

    fn share(&self, project: &str) -> Option<&ProjectShare> {
        self.shares.iter().find(|share| share.project.as_str() == project)
    }

    /// Whether a job's project held more than it is guaranteed when it began.
    fn was_over(&self, job: &case::Job) -> bool {
        let own = self.case.projects.iter().find(|it| it.name == job.project);
        let Some(guaranteed) = own.and_then(|it| it.gpu.guaranteed) else { return false };
        let jobs = self.case.jobs.iter();
        let own = jobs.filter(|it| it.project == job.project);
        let held = own.map(|it| {
            let n_tasks = i64::try_from(n_running(&self.began, &it.name)).unwrap_or(i64::MAX);
            it.tasks.first().map_or(0, |task| of_task(task).saturating_mul(n_tasks))
        });
        held.sum::<i64>() > guaranteed
    }

    /// Whether more is guaranteed than there is.
    fn is_oversubscribed(&self) -> bool {
        let leaves = self.case.projects.iter().filter(|it| {
            !self.case.projects.iter().any(|other| other.parent.as_ref() == Some(&it.name))
        });
        let promised: i64 = leaves.filter_map(|it| it.gpu.guaranteed).sum();
        let capacity = self.cluster.snapshot().world.capacity();
        i128::from(promised) > i128::from(capacity.get(&ResourceKind::Gpu))
    }

    /// Whether the room is kept for one with a planned start.
    fn is_kept(&self, job: &case::Job) -> Option<Explanation> {
        let snapshot = self.cluster.snapshot();
        let explainer = gpool_sched::Explainer::new(snapshot, snapshot.world.policy());
        let mut rows = snapshot.world.job_rows();
        let row = rows.find(|row| row.spec.name.as_ref() == job.name)?;
        if !matches!(row.job.phase, Phase::Pending { .. }) {
            return None;
        }
        let reasons = explainer.fully(row);
        let kept = reasons.iter().any(|reason| reason.code().contains("planned"));
        kept.then_some(Explanation::KeptForPlanned)
    }
}

/// What a project has and may have of each kind that is counted.
fn accounts(share: &ProjectShare) -> impl Iterator<Item = (ResourceKind, Account)> + '_ {
    let gpus = std::iter::once((ResourceKind::Gpu, share.account));
    gpus.chain(share.others.iter().cloned())
}

/// What a job must have at once of a kind.
fn asked_of(job: &case::Job, kind: &ResourceKind) -> u64 {
    let Some(first) = job.tasks.first() else { return 0 };
    let asked = match kind {
        ResourceKind::Gpu => size(job),
        ResourceKind::Cpu => first.request.cpu.saturating_mul(n_least(job)),
        ResourceKind::Memory => first.request.memory.saturating_mul(n_least(job)),
        _ => 0,
    };
    u64::try_from(asked).unwrap_or(0)
}

/// How many tasks must run at once.
fn n_least(job: &case::Job) -> i64 {
    let n_tasks = i64::try_from(job.tasks.len()).unwrap_or(i64::MAX);
    job.gang.sets.first().map_or(n_tasks, |set| set.min.clamp(1, n_tasks.max(1)))
}

/// Thousandths of GPUs that must be had at once.
fn size(job: &case::Job) -> i64 {
    job.tasks.first().map_or(0, |task| of_task(task).saturating_mul(n_least(job)))
}

/// Of one task; a share by memory counts as a whole device.
fn of_task(task: &case::Task) -> i64 {
    match &task.request.gpu {
        GpuAsk::Whole(count) => count * 1000,
        GpuAsk::Share { milli, devices } => milli * devices,
        GpuAsk::Memory { devices, .. } => devices * 1000,
        GpuAsk::Mig(asked) => asked.iter().map(|it| it.count * it.charge).sum(),
        GpuAsk::None | GpuAsk::Unbooked => 0,
    }
}
