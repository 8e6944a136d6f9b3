//! Finds changes that would let a job start sooner: runs the planner again for each possible
//! change.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::pattern::short_model;
use gpool_model::policy::{Caps, UserCap};
use gpool_model::{
    Device, DeviceHealth, Eta, GpuAmount, GpuRequest, Holder, JobId, JobSpec, MilliCpu, Millis,
    Node, Phase, ProjectName, Timestamp, WhatIf,
};
use gpool_world::JobRow;

use super::WORTHWHILE;
use super::calibrator::Calibrator;
use super::course::{Bounds, SimulationResult};
use super::estimate::{Estimate, estimate};
use super::length::{Length, LengthSource, Pace};
use super::part::{ForecastInput, whole};

/// The caller; changes that the caller can't make are not proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    pub uid: u32,
    /// Whether the caller may act for others.
    pub admin: bool,
    /// Whether the caller is an admin of the job's project.
    pub leads: bool,
}

impl Requester {
    /// Whether the caller may change a job.
    fn may_change(self, row: &JobRow) -> bool {
        self.admin || self.leads || row.spec.owner.uid == self.uid
    }

    /// Whether the caller may let a held job start: not against the admin or budget that holds it.
    fn may_start(self, row: &JobRow) -> bool {
        match row.job.holder() {
            _ if self.admin => true,
            Some(Holder::Budget) => false,
            Some(Holder::Admin) => self.leads && !row.job.is_held_by_server_admin(),
            _ => self.may_change(row),
        }
    }
}

/// The result of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    pub what: WhatIf,
    /// When the job would start if every job ends at its median; `None` if never.
    pub middle: Option<Timestamp>,
    /// The same as an interval, for the changes that help most.
    pub eta: Option<Eta>,
    /// How much sooner that is; `None` if the job would not start at all without the change.
    pub gain: Option<Millis>,
    pub helps: bool,
}

/// The largest number of changes with a computed interval.
const INTERVALS_MAX: usize = 6;
/// The largest number of running jobs to try without.
const ENDED_MAX: usize = 8;
/// The largest number of reservations to try without.
const RESERVATIONS_MAX: usize = 8;
/// The largest number of models to try.
const MODELS_MAX: usize = 6;

/// Returns every change that was tried for a job: the helpful ones first, from the most helpful on;
/// equal ones in the order of the trials.
#[must_use]
pub fn alternatives(
    part: &ForecastInput,
    job: JobId,
    requester: Requester,
    base: &Estimate,
    n_starts: usize,
    calibrator: &Calibrator,
) -> Vec<Tried> {
    let Some(row) = part.excerpt.jobs.get(&job) else { return Vec::new() };
    if base.middle.is_some_and(|at| at.since(part.now) <= WORTHWHILE) {
        return Vec::new();
    }
    let mut tried = Vec::new();
    let mut last = None;
    // A job does not start sooner without a deadline that it can meet.
    let is_vain = |what: &WhatIf| *what == WhatIf::WithoutDeadline && base.middle.is_some();
    for what in candidates(part, row, requester).into_iter().filter(|what| !is_vain(what)) {
        // Within one kind of change, the first one that helps asks for the least.
        let is_graded = matches!(what, WhatIf::Gpus { .. } | WhatIf::TimeLimit { .. });
        let key = (what.code(), is_graded && is_same_kind(&what, row));
        if is_graded && last == Some(key) {
            continue;
        }
        if let Some(result) = attempt(part, job, &what, base, n_starts) {
            last = Some(key).filter(|_| result.helps);
            tried.push(result);
        }
    }
    keep_least(&mut tried);
    let sooner = |tried: &Tried| tried.middle.unwrap_or(Timestamp::MAX);
    tried.sort_by_key(|tried| {
        (!tried.helps, if tried.helps { sooner(tried) } else { Timestamp::ZERO })
    });
    for result in tried.iter_mut().filter(|tried| tried.helps).take(INTERVALS_MAX) {
        let changed = part.with(&result.what, job);
        result.eta = estimate(&changed, job, n_starts, calibrator).eta;
    }
    tried
}

/// Keeps only the shortest of the time limits that do not help: it shows that none does.
fn keep_least(tried: &mut Vec<Tried>) {
    let is_vain = |tried: &Tried| !tried.helps && matches!(tried.what, WhatIf::TimeLimit { .. });
    let last = tried.iter().rposition(is_vain);
    let mut at = 0;
    tried.retain(|tried| {
        at += 1;
        !is_vain(tried) || Some(at - 1) == last
    });
}

/// Whether a request asks for the same kind of GPUs, in another number.
fn is_same_kind(what: &WhatIf, row: &JobRow) -> bool {
    match what {
        WhatIf::Gpus { gpus } => {
            gpus.models == row.spec.gpus.models && gpus.least_memory == row.spec.gpus.least_memory
        }
        _ => true,
    }
}

fn attempt(
    part: &ForecastInput,
    job: JobId,
    what: &WhatIf,
    base: &Estimate,
    n_starts: usize,
) -> Option<Tried> {
    let changed = part.with(what, job);
    if !changed.covers(&changed.world(), job) {
        return None;
    }
    let course =
        SimulationResult::of(&changed, Pace::Middle, &Bounds { target: Some(job), n_starts });
    if course.is_broken {
        return None;
    }
    let middle = course.starts.get(&job).map(|start| start.at);
    let gain = base.middle.zip(middle).map(|(before, after)| before.since(after));
    let helps = match (base.middle, middle) {
        (Some(_), Some(_)) => gain.is_some_and(|gain| gain >= WORTHWHILE),
        (None, Some(_)) => true,
        (_, None) => false,
    };
    Some(Tried { what: what.clone(), middle, eta: None, gain, helps })
}

/// The changes to try; equal ones are proposed in this order.
fn candidates(part: &ForecastInput, row: &JobRow, whose: Requester) -> Vec<WhatIf> {
    let mut all = Vec::new();
    let spec = &row.spec;
    let if_may = |what| if whose.may_start(row) { vec![what] } else { Vec::new() };
    match &row.job.phase {
        Phase::Held { .. } => return if_may(WhatIf::Release),
        Phase::Paused { held: Some(_), .. } => return if_may(WhatIf::Resume),
        _ if !whose.may_change(row) => {
            all.extend(ends(part, row, whose));
            all.extend(devices(part, spec));
            return all;
        }
        // A paused job resumes where it is, so its request can't be edited.
        Phase::Paused { .. } => {
            all.extend(priority(part, row, whose));
            all.extend(ends(part, row, whose));
            return all;
        }
        _ => {}
    }
    for after in &spec.after {
        if part.is_live(after.job) {
            all.push(WhatIf::WithoutDependency { job: after.job });
        }
    }
    if spec.life.begin.is_some_and(|at| at > part.now) {
        all.push(WhatIf::WithoutBegin);
    }
    if spec.life.deadline.is_some() {
        all.push(WhatIf::WithoutDeadline);
    }
    // The shape of a job with parts can't change.
    let is_alike = !spec.has_parts();
    if is_alike {
        all.extend(gpus(part, &spec.gpus));
    }
    all.extend(time_limits(spec.time_limit).map(|limit| WhatIf::TimeLimit { limit }));
    if let Some(cpus) = spec.cpus.filter(|_| is_alike) {
        let less = [cpus.div_floor(2), MilliCpu::new(1000), MilliCpu::ZERO];
        all.extend(less.into_iter().filter(|less| *less < cpus).map(|cpus| WhatIf::Cpus { cpus }));
    }
    if let Some(memory) = spec.memory.filter(|_| is_alike) {
        let less = [memory.div_floor(2), memory.div_floor(8), gpool_model::Bytes::ZERO];
        all.extend(less.into_iter().map(|memory| WhatIf::Memory { memory }));
    }
    all.extend(priority(part, row, whose));
    all.extend(ends(part, row, whose));
    if whose.admin {
        all.extend(caps(part, spec));
        all.extend(reservations(part, spec));
    }
    all.extend(devices(part, spec));
    all.dedup();
    all
}

/// Fewer GPUs: powers of two, down to one. Then the same number of any kind, and of each model.
fn gpus(part: &ForecastInput, asked: &GpuRequest) -> Vec<WhatIf> {
    let n_devices = asked.n_devices();
    let mut all = Vec::new();
    let mut fewer = n_devices;
    while fewer > 1 {
        fewer = if fewer.is_power_of_two() { fewer / 2 } else { fewer.next_power_of_two() / 2 };
        let amount = match asked.amount {
            GpuAmount::Instances { .. } => asked.amount.of(fewer),
            GpuAmount::Whole(_) | GpuAmount::Shared { .. } => GpuAmount::Whole(fewer),
        };
        all.push(GpuRequest { amount, ..asked.clone() });
    }
    if n_devices > 0 && (!asked.models.is_empty() || asked.least_memory.is_some()) {
        all.push(match asked.is_of_instances() {
            true => asked.of_any_kind(),
            false => GpuRequest { enforce: asked.enforce, ..GpuRequest::whole(n_devices) },
        });
        let devices = part.excerpt.nodes.iter().flat_map(|node| &node.devices);
        let others = devices.filter(|device| asked.rank_of(device).is_none());
        let models: BTreeSet<String> = others.map(|device| short_model(&device.model)).collect();
        let request = |model: &String| {
            let text = format!("{}:{n_devices}", model.to_ascii_lowercase());
            let found = GpuRequest::parse(&text).ok()?;
            Some(GpuRequest { enforce: asked.enforce, ..found })
        };
        all.extend(models.iter().take(MODELS_MAX).filter_map(request));
    }
    all.into_iter().map(|gpus| WhatIf::Gpus { gpus }).collect()
}

/// Shorter limits, the longest first.
fn time_limits(limit: Option<Millis>) -> impl Iterator<Item = Millis> {
    let most = limit.unwrap_or(Millis::MAX);
    let round = [720, 360, 240, 120, 60, 30, 15, 5].map(Millis::from_mins);
    let half = limit
        .map(|limit| limit.div_floor(120_000))
        .map(|minutes| Millis::new(minutes.get().saturating_mul(60_000)));
    let mut all: Vec<Millis> = half.into_iter().chain(round).collect();
    all.retain(|length| *length < most && !length.is_zero());
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    all.into_iter()
}

/// A priority above every other waiting job, as far as the caller may go.
fn priority(part: &ForecastInput, row: &JobRow, whose: Requester) -> Option<WhatIf> {
    let others = part.excerpt.jobs.values().filter(|other| other.job.id != row.job.id);
    let pending = others.filter(|other| other.job.phase.waits_for_room_since().is_some());
    let highest = pending.map(|other| other.job.priority).max()?;
    let most = if whose.admin { 1000 } else { part.excerpt.policy.user_priority_max };
    let priority = highest.saturating_add(1).min(most);
    (priority > row.job.priority).then_some(WhatIf::Priority { priority })
}

/// The caps that the job's user has reached, in total or in one of the job's projects.
fn caps(part: &ForecastInput, spec: &JobSpec) -> Vec<WhatIf> {
    let user = &spec.owner.user;
    let projects = part.excerpt.projects_above(&spec.project);
    let caps = projects.map(|it| (Some(it.name.clone()), it.user_caps));
    let all = std::iter::once((None, part.excerpt.policy.user_caps.of(user))).chain(caps);
    let of_one = |(project, caps): (Option<ProjectName>, Caps)| {
        let running = caps.running_jobs.map(|_| UserCap::RunningJobs);
        let gpus = caps.gpus.map(|_| UserCap::Gpus).filter(|_| spec.has_gpus());
        let all = running.into_iter().chain(gpus);
        all.map(move |cap| (cap, project.clone())).collect::<Vec<_>>()
    };
    let what = |(cap, project)| WhatIf::WithoutCap { user: Arc::clone(user), cap, project };
    all.flat_map(of_one).map(what).collect()
}

/// Present and future reservations for others.
fn reservations<'a>(
    part: &'a ForecastInput,
    spec: &'a JobSpec,
) -> impl Iterator<Item = WhatIf> + 'a {
    let others = part.excerpt.reservations.values().filter(|it| !it.beneficiary.is_for(spec));
    others.take(RESERVATIONS_MAX).map(|it| WhatIf::WithoutReservation {
        reservation: it.name.clone(),
        maintenance: it.is_maintenance(),
    })
}

/// Running jobs that the caller may end: their own, or for an admin all.
fn ends(part: &ForecastInput, row: &JobRow, whose: Requester) -> impl Iterator<Item = WhatIf> {
    let may_end = move |other: &&JobRow| {
        matches!(other.job.phase, Phase::Running { .. })
            && (whose.admin || other.spec.owner.uid == whose.uid)
    };
    let holds =
        |other: &&JobRow| other.job.phase.allocations().iter().any(|held| !held.slots.is_empty());
    let is_wanted = move |other: &&JobRow| !row.spec.has_gpus() || holds(other);
    let jobs = part.excerpt.jobs.values().filter(may_end).filter(is_wanted);
    let jobs: Vec<JobId> = jobs.map(|other| other.job.id).take(ENDED_MAX).collect();
    jobs.into_iter().map(|job| WhatIf::Ended { job })
}

/// Devices and nodes that could run the job and can't be used.
fn devices(part: &ForecastInput, spec: &JobSpec) -> Vec<WhatIf> {
    let mut all = Vec::new();
    let asks = |device: &Device| spec.shapes().any(|(gpus, _)| gpus.rank_of(device).is_some());
    for node in &part.excerpt.nodes {
        let has = node.devices.iter().any(asks);
        if !node.takes_work() {
            let what = WhatIf::NodeBack { node: node.name.clone() };
            all.extend(Some(what).filter(|_| has || !spec.has_gpus()));
            continue;
        }
        let unusable = node.devices.iter().filter(|device| {
            let is_off = device.health != DeviceHealth::Healthy
                || !device.unmanaged.is_empty()
                || !node.allows(&device.uuid)
                || node.drain_of(&device.uuid).is_some();
            is_off && asks(device)
        });
        all.extend(
            unusable.take(ENDED_MAX).map(|device| WhatIf::DeviceUsable {
                node: node.name.clone(),
                index: device.index,
            }),
        );
    }
    all
}

impl ForecastInput {
    /// Returns the part with one change to a job or to the cluster.
    #[must_use]
    pub fn with(&self, what: &WhatIf, job: JobId) -> Self {
        let mut part = self.clone();
        match what {
            WhatIf::Gpus { gpus } => {
                let devices = self.excerpt.nodes.iter().flat_map(|node| &node.devices);
                let gpus = gpus.among(devices);
                part.change(job, |spec| {
                    spec.gpus_written = Arc::from(gpus.to_string());
                    spec.gpus = gpus;
                });
            }
            WhatIf::TimeLimit { limit } => part.change(job, |spec| spec.time_limit = Some(*limit)),
            WhatIf::Cpus { cpus } => {
                part.change(job, |spec| spec.cpus = Some(*cpus).filter(|cpus| !cpus.is_zero()));
            }
            WhatIf::Memory { memory } => part.change(job, |spec| {
                spec.memory = Some(*memory).filter(|memory| !memory.is_zero());
            }),
            WhatIf::WithoutDependency { job: awaited } => {
                part.change(job, |spec| spec.after.retain(|after| after.job != *awaited));
                part.ready(job, |phase| matches!(phase, Phase::Waiting { .. }));
            }
            WhatIf::Release => part.ready(job, |phase| matches!(phase, Phase::Held { .. })),
            WhatIf::Resume => part.resume(job),
            WhatIf::Priority { priority } => {
                if let Some(row) = part.excerpt.jobs.get_mut(&job) {
                    row.job.priority = *priority;
                }
            }
            WhatIf::WithoutBegin => {
                part.change(job, |spec| spec.life.begin = None);
                part.ready(job, |phase| matches!(phase, Phase::Waiting { .. }));
            }
            WhatIf::WithoutDeadline => part.change(job, |spec| spec.life.deadline = None),
            WhatIf::WithoutCap { user, cap, project: None } => {
                let user_caps = &mut part.excerpt.policy.user_caps;
                let mut caps = user_caps.of(user);
                lift(&mut caps, *cap);
                user_caps.of.insert(Arc::clone(user), caps);
            }
            WhatIf::WithoutCap { cap, project: Some(name), .. } => {
                if let Some(project) = Arc::make_mut(&mut part.excerpt.projects).get_mut(name) {
                    lift(&mut project.user_caps, *cap);
                }
            }
            WhatIf::WithoutReservation { reservation, .. } => {
                part.excerpt.reservations.remove(reservation);
            }
            WhatIf::Ended { job } => {
                let at_once = Length::exactly(Millis::ZERO, LengthSource::Stopping);
                part.lengths.insert(*job, at_once);
            }
            WhatIf::DeviceUsable { node, index } => {
                let nodes = part.excerpt.nodes.iter_mut();
                nodes.filter(|row| row.name == *node).for_each(|row| make_usable(row, *index));
            }
            WhatIf::NodeBack { node } => {
                let nodes = part.excerpt.nodes.iter_mut();
                for row in nodes.filter(|row| row.name == *node) {
                    row.connected = true;
                    row.silence = None;
                    row.drain = None;
                }
            }
        }
        part
    }

    /// Whether a job, or the array that an element belongs to, has not ended.
    #[must_use]
    pub fn is_live(&self, id: JobId) -> bool {
        let jobs = &self.excerpt.jobs;
        jobs.contains_key(&id) || jobs.contains_key(&whole(id))
    }

    fn change(&mut self, job: JobId, change: impl FnOnce(&mut JobSpec)) {
        if let Some(row) = self.excerpt.jobs.get_mut(&job) {
            change(Arc::make_mut(&mut row.spec));
        }
    }

    /// Lets a paused job resume when capacity is free.
    fn resume(&mut self, job: JobId) {
        if let Some(row) = self.excerpt.jobs.get_mut(&job)
            && let Phase::Paused { held, .. } = &mut row.job.phase
        {
            *held = None;
        }
    }

    /// Makes a job pending, unless it also waits for other jobs.
    fn ready(&mut self, job: JobId, is_so: impl FnOnce(&Phase) -> bool) {
        let Some(row) = self.excerpt.jobs.get(&job) else { return };
        let waits = row.spec.after.iter().any(|after| self.is_live(after.job))
            || row.spec.life.begin.is_some_and(|at| at > self.now);
        let since = self.now;
        if let Some(row) = self.excerpt.jobs.get_mut(&job).filter(|row| is_so(&row.job.phase)) {
            row.job.phase = if waits { Phase::Waiting { since } } else { Phase::Pending { since } };
        }
    }
}

fn lift(caps: &mut Caps, cap: UserCap) {
    match cap {
        UserCap::RunningJobs => caps.running_jobs = None,
        UserCap::Gpus => caps.gpus = None,
    }
}

fn make_usable(node: &mut Node, index: u32) {
    let Some(device) = node.devices.iter_mut().find(|device| device.index == index) else {
        return;
    };
    device.health = DeviceHealth::Healthy;
    device.unmanaged.clear();
    let uuid = device.uuid.clone();
    let parent = device.instance.as_ref().map(|it| it.parent);
    let parent = node.devices.iter().find(|it| Some(it.index) == parent);
    for uuid in parent.map(|it| it.uuid.clone()).iter().chain([&uuid]) {
        node.device_drains.remove(uuid);
    }
    if let Some(allowed) = &mut node.allowed {
        allowed.insert(uuid);
    }
}
