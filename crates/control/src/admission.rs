//! Whether a job could ever run, and what could instead. Nothing here looks at what is free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::label;
use gpool_model::pattern::short_model;
use gpool_model::plan::Fit;
use gpool_model::policy::{Caps, Held, UserCap};
use gpool_model::reason::Bound;
use gpool_model::refusal::LargestFit;
use gpool_model::{
    Amount, Bytes, Caller, GpuAmount, GpuRequest, JobSpec, MilliCpu, Millis, ModelPattern, NewJob,
    NodeFilter, NodeName, PoolName, Project, ProjectName, Quota, QuotaRules, Refusal, ResourceKind,
    Resources, Share,
};
use gpool_world::{NodeRow, World};

use crate::parts;
use crate::project_tree;
use crate::projects::absent;

/// A refusal names no more nodes than this.
const THERE_MAX: usize = 64;

/// Admission of many jobs: what has been asked before is not worked out again.
pub(crate) struct Admission<'a> {
    world: &'a World,
    by_fit: BTreeMap<Fit, Result<(), Refusal>>,
    by_project: BTreeMap<ProjectName, Result<Vec<Rule>, Refusal>>,
}

/// What a project, or one above it, says of single jobs.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub project: ProjectName,
    longest_time: Option<Millis>,
    /// By kind: what one job may ask for at most, and what is guaranteed.
    pub most: Vec<(ResourceKind, Amount, Amount)>,
    /// How much one user may have.
    user_caps: Caps,
    /// Where that bounds jobs: all of them, not only those that can't be taken back.
    lends: bool,
}

/// What of a job a project has a say in.
pub(crate) struct Asks {
    user: Arc<str>,
    pub fit: Fit,
    time_limit: Option<Millis>,
    preemptible: bool,
    pub allow_unsatisfiable: bool,
}

impl<'a> Admission<'a> {
    pub fn new(world: &'a World) -> Self {
        Self { world, by_fit: BTreeMap::new(), by_project: BTreeMap::new() }
    }

    /// Whether a job is acceptable by itself: who is charged, its priority, and whether some node
    /// could ever hold it.
    pub fn admit(&mut self, caller: &Caller, job: &NewJob) -> Result<(), Refusal> {
        let asks = Asks {
            user: Arc::clone(&caller.owner.user),
            fit: Fit::of_new(job),
            time_limit: job.time_limit,
            preemptible: job.life.preemptible == Some(true),
            allow_unsatisfiable: job.allow_unsatisfiable,
        };
        self.check_project(Some(caller), &job.project, &asks)?;
        priority(self.world, caller, &job.project, job.priority)?;
        if job.allow_unsatisfiable {
            return Ok(());
        }
        self.fits(asks.fit)
    }

    /// The same of a job that is there and is to ask for something else; `mover` is who puts it
    /// into another project.
    pub fn admit_spec(&mut self, mover: Option<&Caller>, spec: &JobSpec) -> Result<(), Refusal> {
        let asks = Asks {
            user: Arc::clone(&spec.owner.user),
            fit: Fit::of(spec),
            time_limit: spec.time_limit,
            preemptible: spec.life.preemptible == Some(true),
            allow_unsatisfiable: spec.allow_unsatisfiable,
        };
        self.check_project(mover, &spec.project, &asks)?;
        if spec.allow_unsatisfiable {
            return Ok(());
        }
        self.fits(asks.fit)
    }

    /// Whether the project takes the job: from that caller, for so long, so much.
    fn check_project(
        &mut self,
        caller: Option<&Caller>,
        name: &ProjectName,
        asks: &Asks,
    ) -> Result<(), Refusal> {
        if !self.by_project.contains_key(name) {
            let rules = self.rules(caller, name);
            self.by_project.insert(name.clone(), rules);
        }
        let rules = self.by_project[name].as_ref().map_err(Clone::clone)?;
        rules.iter().try_for_each(|rule| rule.check(asks))?;
        parts::check(self.world, rules, asks)?;
        asks.check_user(None, self.world.policy().user_caps.of(&asks.user))
    }

    /// What a project and all above it say; `Err` if it takes no jobs of that caller.
    fn rules(&self, caller: Option<&Caller>, name: &ProjectName) -> Result<Vec<Rule>, Refusal> {
        let projects = self.world.projects();
        let project = projects.get(name).ok_or_else(|| absent(projects, name))?;
        let is_below = |it: &Project| project_tree::upwards(projects, it).any(|it| it == project);
        if projects.values().any(|it| it.parent.as_ref() == Some(name)) {
            let parents = project_tree::children(projects);
            let leaves = projects.values().filter(|it| !parents.contains_key(&it.name));
            let leaves = leaves.filter(|it| is_below(it)).map(|it| it.name.clone()).collect();
            return Err(Refusal::DepartmentTakesNoJobs { name: name.clone(), leaves });
        }
        if let Some(caller) = caller
            && !project_tree::is_member(projects, caller, project)
        {
            return Err(self.not_member(caller, project));
        }
        let policy = self.world.policy();
        let (is_shared, lends) = (policy.shares(), policy.lend);
        let by_part = policy.quota_rules == QuotaRules::Fair;
        let rule = |it: &Project| {
            let kinds = it.quotas.iter().map(|(kind, _)| kind);
            let kinds = kinds.chain(self.world.promised()).chain([&ResourceKind::Gpu]);
            let is_counted = |kind: &&ResourceKind| by_part || !kind.is_part_of_gpus();
            let kinds: BTreeSet<ResourceKind> = kinds.filter(is_counted).cloned().collect();
            let most = |kind: ResourceKind| {
                let Quota { guaranteed, limit, .. } = it.quota(&kind);
                let guaranteed = match self.world.promises(&kind) {
                    true if guaranteed.is_none() && kind.is_part_of_gpus() => {
                        let left = self.world.left_of_part(&kind);
                        left.get(&it.name).map(|left| Amount::counted(*left))
                    }
                    true => guaranteed,
                    false => Some(Amount::UNLIMITED),
                };
                // What is said of a department by what is below it bounds no more than that does.
                let silent = if it == project { Amount::NOTHING } else { Amount::UNLIMITED };
                let guaranteed = match is_shared {
                    true => guaranteed.unwrap_or(silent).min(limit),
                    false => Amount::UNLIMITED,
                };
                (kind, limit, guaranteed)
            };
            Rule {
                project: it.name.clone(),
                longest_time: it.jobs.longest_time,
                user_caps: it.user_caps,
                most: kinds.into_iter().map(most).collect(),
                lends,
            }
        };
        Ok(project_tree::upwards(projects, project).map(rule).collect())
    }

    fn not_member(&self, caller: &Caller, project: &Project) -> Refusal {
        let projects = self.world.projects();
        let members = project_tree::upwards(projects, project).find_map(|it| it.members.as_ref());
        let members = members.into_iter().flat_map(|members| {
            let users = members.users.iter().map(ToString::to_string);
            users.chain(members.groups.iter().map(|group| format!("@{group}")))
        });
        let parents = project_tree::children(projects);
        let open = projects.values().filter(|it| {
            !parents.contains_key(&it.name) && project_tree::is_member(projects, caller, it)
        });
        Refusal::NotMember {
            name: project.name.clone(),
            user: caller.owner.user.clone(),
            members: members.collect(),
            open: open.map(|it| it.name.clone()).collect(),
        }
    }

    fn fits(&mut self, fit: Fit) -> Result<(), Refusal> {
        if let Some(known) = self.by_fit.get(&fit) {
            return known.clone();
        }
        let answer = self.satisfiable(&fit);
        self.by_fit.insert(fit, answer.clone());
        answer
    }

    /// Whether nodes that it may use could ever hold it.
    fn satisfiable(&self, fit: &Fit) -> Result<(), Refusal> {
        let all: Vec<&NodeRow> = self.world.nodes_by_name().map(|(_, row)| row).collect();
        let is_of_pool = |row: &&NodeRow| fit.pool.as_ref().is_none_or(|it| *it == row.node.pool);
        if let Some(name) = fit.pool.as_ref().filter(|_| !all.iter().any(is_of_pool)) {
            let pools: BTreeSet<PoolName> = all.iter().map(|row| row.node.pool.clone()).collect();
            let (name, pools) = (name.clone(), pools.into_iter().collect());
            return Err(Refusal::NoSuchPool { name, pools });
        }
        let nodes: Vec<&NodeRow> =
            all.iter().copied().filter(|row| fit.may_be_on(&row.node)).collect();
        let chosen = fit.nodes.as_ref();
        if let Some(chosen) = chosen {
            self.check_named(chosen, &nodes)?;
        }
        let models = self.world.models_to_choose(&fit.gpus, fit.pool.as_ref(), fit.gang);
        let answer = satisfiable_on(&nodes, fit, models);
        let answer = answer.map_err(|refusal| match chosen {
            Some(nodes) if nodes.chooses() => {
                Refusal::OnNodes { nodes: Arc::clone(nodes), refusal: Box::new(refusal) }
            }
            _ => refusal,
        });
        answer.map_err(|refusal| match fit.pool.clone() {
            Some(pool) => Refusal::InPool { pool, refusal: Box::new(refusal) },
            None => refusal,
        })
    }

    /// Every node that is named is there, and some node is allowed.
    fn check_named(&self, chosen: &Arc<NodeFilter>, allowed: &[&NodeRow]) -> Result<(), Refusal> {
        let unknown = chosen.named().filter(|name| self.world.node(name).is_none());
        let unknown: Vec<NodeName> = unknown.cloned().collect();
        if unknown.is_empty() && !allowed.is_empty() {
            return Ok(());
        }
        let of_node = |row: &NodeRow| (row.node.name.clone(), label::written(&row.node.labels));
        let there = self.world.nodes_by_name().map(|(_, row)| of_node(row));
        let there = there.take(THERE_MAX).collect();
        Err(Refusal::NoSuchNodes { nodes: Arc::clone(chosen), unknown, there })
    }
}

/// Whether nodes could hold a job with devices of one of these models; without any, of the models
/// that it names.
fn satisfiable_on(nodes: &[&NodeRow], fit: &Fit, models: Vec<ModelPattern>) -> Result<(), Refusal> {
    let gpus = &*fit.gpus_on_node(1);
    let beside = &beside(fit);
    // Mostly the first node answers; to look at all of a large cluster takes a while.
    let mut n_missing = fit.gang.nodes;
    let mut rows = nodes.iter();
    while n_missing > 0
        && let Some(row) = rows.next()
    {
        n_missing = n_missing.saturating_sub(times_on(row, fit, most_of(row, gpus)));
    }
    if n_missing == 0 {
        // All of them with devices of one model.
        let is_one = models.is_empty() && fit.gpus.models.len() < 2;
        let of_one_model = of_models(fit, models);
        return match is_one || n_able(&of_one_model, nodes) >= fit.gang.nodes {
            true => Ok(()),
            false => Err(too_few_nodes(&of_one_model, &fit.gpus, nodes)),
        };
    }
    if n_missing < fit.gang.nodes {
        return Err(too_few_nodes(&of_models(fit, models), &fit.gpus, nodes));
    }
    let with_gpus: Vec<&NodeRow> =
        nodes.iter().copied().filter(|row| most_of(row, gpus) >= gpus.n_devices()).collect();
    if with_gpus.is_empty() && !gpus.is_none() {
        return Err(impossible_gpus(nodes, gpus));
    }
    let short = |row: &&NodeRow| beside.first_short(&row.node.capacity);
    let Some(kind) = with_gpus.iter().find_map(short) else {
        // No node has reported yet: only what asks for nothing can be taken.
        return Ok(());
    };
    let of_kind = |row: &&&NodeRow| row.node.capacity.get(&kind);
    // Nodes that have enough of it lack something else.
    let lacking = with_gpus.iter().rev().filter(|row| of_kind(row) < beside.get(&kind));
    let most = lacking.max_by_key(of_kind);
    Err(Refusal::ImpossibleResource {
        asked: beside.get(&kind),
        largest: most.map_or(0, |row| of_kind(&row)),
        node: most.map(|row| row.node.name.clone()),
        kind,
    })
}

/// How many times a node could hold what a node gets, with so many devices.
fn times_on(row: &NodeRow, fit: &Fit, n_devices: u32) -> u32 {
    let most = fit.most_on(&row.node);
    let by_devices = n_devices.checked_div(fit.n_devices_on_node()).unwrap_or(most).min(most);
    let beside = beside(fit);
    let by_rest = beside.iter().filter_map(|(kind, n)| row.node.capacity.get(kind).checked_div(n));
    let n_tasks = row.node.capacity.get(&ResourceKind::Tasks);
    let by_tasks = n_tasks.checked_div(u64::from(fit.gang.tasks_per_node)).filter(|_| n_tasks > 0);
    let by_rest = by_rest.chain(by_tasks).min().unwrap_or(u64::MAX);
    u32::try_from(by_rest).unwrap_or(u32::MAX).min(by_devices)
}

/// What all tasks of a job that one node gets at once ask for beside devices.
fn beside(fit: &Fit) -> Resources {
    let n_tasks = u64::from(fit.gang.tasks_per_node);
    Resources::none()
        .with_cpus(fit.cpus.checked_mul(n_tasks).unwrap_or(MilliCpu::MAX))
        .with_memory(fit.memory.checked_mul(n_tasks).unwrap_or(Bytes::MAX))
}

/// How many times nodes could hold all tasks of a job that one node gets at once, with devices of
/// one model of its request; of the model of which most could.
fn n_able(fit: &Fit, nodes: &[&NodeRow]) -> u32 {
    let of_rank = |rank: usize| {
        let times = nodes.iter().map(|row| {
            let devices = usable_ever(row).filter(|it| fit.gpus.rank_of(it) == Some(rank));
            times_on(row, fit, u32::try_from(devices.count()).unwrap_or(u32::MAX))
        });
        times.fold(0, u32::saturating_add)
    };
    (0..fit.gpus.models.len().max(1)).map(of_rank).max().unwrap_or(0)
}

/// The same request of these models, if there are any.
fn of_models(fit: &Fit, models: Vec<ModelPattern>) -> Fit {
    let mut own = fit.clone();
    if !models.is_empty() {
        own.gpus.models = models;
    }
    own
}

/// The refusal of a job that needs more nodes than could hold a part of it.
fn too_few_nodes(fit: &Fit, asked: &GpuRequest, nodes: &[&NodeRow]) -> Refusal {
    let able = n_able(fit, nodes);
    // With as many nodes as there are of it, the largest part of the request that still fits.
    let fits = |count: &u32| {
        let less = Fit { gpus: fit.gpus.of_count(*count), ..fit.clone() };
        n_able(&less, nodes) >= fit.gang.nodes
    };
    let largest = (1..fit.gpus.n_devices()).rev().find(fits);
    Refusal::TooFewNodes { asked: asked.clone(), gang: fit.gang, able, largest }
}

impl Asks {
    /// Whether a user who has nothing else may have it.
    fn check_user(&self, project: Option<&ProjectName>, caps: Caps) -> Result<(), Refusal> {
        let gpus = self.fit.gpus_together();
        match caps.exceeded(Held::default(), gpus).filter(|_| !self.allow_unsatisfiable) {
            None => Ok(()),
            Some((what, _, most)) => Err(Refusal::AboveUserCap {
                user: Arc::clone(&self.user),
                project: project.cloned(),
                what,
                asked: if what == UserCap::Gpus { gpus.get() } else { 1 },
                most,
            }),
        }
    }
}

impl Rule {
    fn check(&self, asks: &Asks) -> Result<(), Refusal> {
        let project = || self.project.clone();
        if let (Some(most), Some(asked)) = (self.longest_time, asks.time_limit)
            && asked > most
        {
            return Err(Refusal::TimeTooLong { project: project(), asked, most });
        }
        if asks.allow_unsatisfiable {
            return Ok(());
        }
        asks.check_user(Some(&self.project), self.user_caps)?;
        for (kind, limit, guaranteed) in &self.most {
            let n_tasks = u64::from(asks.fit.gang.n_tasks());
            let asked = match kind {
                ResourceKind::Gpu => asks.fit.gpus_together().get(),
                ResourceKind::Cpu => asks.fit.cpus.get().saturating_mul(n_tasks),
                ResourceKind::Memory => asks.fit.memory.get().saturating_mul(n_tasks),
                ResourceKind::Tasks => n_tasks,
                ResourceKind::GpuModel(_)
                | ResourceKind::GpuPool(_)
                | ResourceKind::GpuMemory
                | ResourceKind::Node
                | ResourceKind::MigProfile(_)
                | ResourceKind::PauseMemory => 0,
            };
            for (bound, most) in self.bounds(asks, *limit, *guaranteed) {
                if let Some(most) = most.finite().filter(|most| asked > *most) {
                    let (project, kind) = (project(), kind.clone());
                    return Err(Refusal::AboveQuota { project, kind, bound, asked, most });
                }
            }
        }
        Ok(())
    }

    /// What of a limit and a guarantee bounds a job.
    pub fn bounds(
        &self,
        asks: &Asks,
        limit: Amount,
        guaranteed: Amount,
    ) -> impl Iterator<Item = (Bound, Amount)> + use<> {
        let guarantee = match (self.lends, asks.preemptible) {
            (false, _) => Some((Bound::GuaranteedOnly, guaranteed)),
            (true, false) => Some((Bound::Guaranteed, guaranteed)),
            (true, true) => None,
        };
        [(Bound::Limit, limit)].into_iter().chain(guarantee)
    }
}

/// Users may not go before others by asking for it; admins may, and those of a project in it, where
/// priorities do not reach beyond projects.
pub(crate) fn priority(
    world: &World,
    caller: &Caller,
    project: &ProjectName,
    asked: i32,
) -> Result<(), Refusal> {
    let most = world.policy().user_priority_max;
    let is_own =
        world.policy().shares() && project_tree::is_admin_of(world.projects(), caller, project);
    if caller.admin || is_own || asked <= most {
        return Ok(());
    }
    Err(Refusal::PriorityTooHigh { asked, most })
}

/// The most devices of the asked kind that one task could ever be given on a node: those of one
/// alternative of the request, allowed, and not divided.
fn most_of(row: &NodeRow, gpus: &GpuRequest) -> u32 {
    let mut by_rank = BTreeMap::<usize, u32>::new();
    for device in usable_ever(row) {
        if let Some(rank) = gpus.rank_of(device) {
            *by_rank.entry(rank).or_default() += 1;
        }
    }
    by_rank.into_values().max().unwrap_or(0)
}

fn usable_ever(row: &NodeRow) -> impl Iterator<Item = &gpool_model::Device> {
    let devices = row.node.devices.iter();
    devices.filter(move |device| row.node.allows(&device.uuid) && !device.is_divided())
}

fn impossible_gpus(nodes: &[&NodeRow], asked: &GpuRequest) -> Refusal {
    let mut models = BTreeMap::<String, u32>::new();
    let mut memory_max = Bytes::ZERO;
    for row in nodes {
        let mut here = BTreeMap::<String, u32>::new();
        for device in usable_ever(row) {
            *here.entry(short_model(&device.model)).or_default() += 1;
            memory_max = memory_max.max(device.memory);
        }
        for (model, count) in here {
            let most = models.entry(model).or_default();
            *most = (*most).max(count);
        }
    }
    if models.is_empty() {
        let whys: Vec<String> = nodes
            .iter()
            .map(|row| match row.node.devices.len() {
                0 => format!("{} has none ({})", row.node.name, row.node.facts.devices_from),
                n => format!("{} may use none of its {n}", row.node.name),
            })
            .collect();
        return Refusal::NoGpus { asked: asked.clone(), why: whys.join("; ") };
    }
    let best = nodes.iter().rev().max_by_key(|row| most_of(row, asked));
    let largest = best.filter(|row| most_of(row, asked) > 0).map(|row| LargestFit {
        n_devices: most_of(row, asked),
        node: row.node.name.clone(),
        n_in_cluster: nodes.iter().map(|row| most_of(row, asked)).sum(),
    });
    let nearest = nearest(nodes, asked, memory_max);
    let kept_back = nodes.iter().flat_map(|row| {
        let devices = row.node.devices.iter();
        devices.filter(|device| !row.node.allows(&device.uuid) && asked.rank_of(device).is_some())
    });
    let n_kept_back = u32::try_from(kept_back.count()).unwrap_or(u32::MAX);
    Refusal::ImpossibleGpus {
        asked: asked.clone(),
        largest,
        nearest,
        models: models.into_iter().collect(),
        n_kept_back,
    }
}

/// Another request that a node could hold: as many devices of any kind, or with the most memory
/// that there is.
fn nearest(nodes: &[&NodeRow], asked: &GpuRequest, memory_max: Bytes) -> Option<GpuRequest> {
    let fits = |request: &GpuRequest| {
        let count = request.n_devices();
        count > 0 && nodes.iter().any(|row| most_of(row, request) >= count)
    };
    // Of a share that is too large, the nearest is a whole device.
    let is_too_large = matches!(asked.share(), Some(Share::Memory(memory)) if memory > memory_max);
    let amount = match asked.amount {
        GpuAmount::Shared { count, .. } if is_too_large => GpuAmount::Whole(count),
        amount => amount,
    };
    let any = GpuRequest { amount, ..asked.clone() }.of_any_kind();
    let less = GpuRequest { amount, least_memory: Some(memory_max), models: Vec::new() };
    let less = Some(less).filter(|_| asked.least_memory.is_some());
    let alternatives = less.into_iter().chain(Some(any).filter(|any| any != asked));
    alternatives.into_iter().find(fits)
}
