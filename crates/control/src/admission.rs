//! Checks whether a job could ever run, and suggests alternatives. Ignores the present allocations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::policy::{Caps, UserCap, UserHoldings};
use gpool_model::reason::Bound;
use gpool_model::{
    Amount, Caller, JobRequest, JobSpec, MilliGpu, Millis, NewJob, NodeFilter, NodeName, PoolName,
    Project, ProjectName, Quota, Refusal, ResourceKind, label,
};
use gpool_world::{JobRow, NodeRow, World};

use crate::project_tree::{self, absent};
use possible::{domains, in_some_domain, satisfiable_on, with_possible_instances};

mod parts;
mod possible;

/// The largest number of nodes that a refusal names.
const THERE_MAX: usize = 64;

/// Admission of many jobs; caches the results of equal requests.
pub(crate) struct Admission<'a> {
    world: &'a World,
    by_fit: BTreeMap<Fit, Result<(), Refusal>>,
    by_project: BTreeMap<ProjectName, Result<Vec<Rule>, Refusal>>,
}

/// The rules of a project, or of one above it, for single jobs.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub project: ProjectName,
    longest_time: Option<Millis>,
    /// For each kind, the most that one job may ask for, and the guarantee.
    pub most: Vec<(ResourceKind, Amount, Amount)>,
    /// The caps of one user in the project.
    user_caps: Caps,
    /// Whether the project lends: if not, the guarantee bounds all jobs, not only non-preemptible
    /// ones.
    lends: bool,
}

/// The parts of a job that rules of projects concern.
pub(crate) struct AdmissionRequest {
    user: Arc<str>,
    /// What each part of the job asks of nodes, with its name; one without a name for a job without
    /// parts.
    pub fits: Vec<(Option<Arc<str>>, Fit)>,
    time_limit: Option<Millis>,
    preemptible: bool,
    pub allow_unsatisfiable: bool,
}

impl<'a> Admission<'a> {
    pub fn new(world: &'a World) -> Self {
        Self { world, by_fit: BTreeMap::new(), by_project: BTreeMap::new() }
    }

    /// Checks that a job is acceptable by itself: its project, its priority, and whether some node
    /// could ever run it.
    pub fn admit(&mut self, caller: &Caller, job: &NewJob) -> Result<(), Refusal> {
        let asks = AdmissionRequest {
            user: Arc::clone(&caller.owner.user),
            fits: fits_of(job),
            time_limit: job.time_limit,
            preemptible: job.life.preemptible == Some(true),
            allow_unsatisfiable: job.allow_unsatisfiable,
        };
        self.check_project(Some(caller), &job.project, &asks)?;
        priority(self.world, caller, &job.project, job.standing.priority)?;
        if job.allow_unsatisfiable {
            return Ok(());
        }
        self.fits(&asks.fits)
    }

    /// Checks the edited spec of a live job; `mover` is the caller that moves it to another
    /// project.
    pub fn admit_spec(&mut self, mover: Option<&Caller>, spec: &JobSpec) -> Result<(), Refusal> {
        let asks = AdmissionRequest {
            user: Arc::clone(&spec.owner.user),
            fits: fits_of(spec),
            time_limit: spec.time_limit,
            preemptible: spec.life.preemptible == Some(true),
            allow_unsatisfiable: spec.allow_unsatisfiable,
        };
        self.check_project(mover, &spec.project, &asks)?;
        if spec.allow_unsatisfiable {
            return Ok(());
        }
        self.fits(&asks.fits)
    }

    /// Checks whether the project accepts the job: from this caller, for this time and this amount.
    fn check_project(
        &mut self,
        caller: Option<&Caller>,
        name: &ProjectName,
        asks: &AdmissionRequest,
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

    /// Returns the rules of a project and all projects above it; `Err` if it accepts no jobs from
    /// the caller.
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
        let rule = |it: &Project| {
            let kinds = it.quotas.iter().map(|(kind, _)| kind);
            let kinds = kinds.chain(self.world.guaranteed_kinds()).chain([&ResourceKind::Gpu]);
            let kinds: BTreeSet<ResourceKind> = kinds.cloned().collect();
            let most = |kind: ResourceKind| {
                let Quota { guaranteed, limit, .. } = it.quota(&kind);
                let guaranteed = match self.world.promises(&kind) {
                    true if guaranteed.is_none() && kind.is_part_of_gpus() => {
                        let left = self.world.left_of_part(&kind);
                        left.get(&it.name).map(|left| Amount::saturating_of(*left))
                    }
                    true => guaranteed,
                    false => Some(Amount::UNLIMITED),
                };
                // A department without its own quota bounds no more than its children do.
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

    /// Whether some nodes could ever run a job, apart from the rules of its project.
    pub fn could_run(&self, row: &JobRow) -> bool {
        gpool_world::fits_of(row).iter().all(|fit| {
            let mut nodes = self.world.nodes_by_name().map(|(_, row)| &row.node);
            nodes.any(|node| fit.may_be_on(node))
                && (row.spec.allow_unsatisfiable || self.satisfiable(fit).is_ok())
        })
    }

    /// Checks whether nodes could ever run each part of a job, and have enough devices for all.
    fn fits(&mut self, fits: &[(Option<Arc<str>>, Fit)]) -> Result<(), Refusal> {
        for (part, fit) in fits {
            self.fits_alone(fit).map_err(|refusal| match part {
                Some(part) => Refusal::OfPart(Arc::clone(part), Box::new(refusal)),
                None => refusal,
            })?;
        }
        // Without parts that is all, also for many jobs on many nodes.
        if fits.len() < 2 {
            return Ok(());
        }
        let fits: Vec<&Fit> = fits.iter().map(|(_, fit)| fit).collect();
        let nodes: Vec<&NodeRow> = self.world.nodes_by_name().map(|(_, row)| row).collect();
        possible::together(&nodes, &fits)
    }

    fn fits_alone(&mut self, fit: &Fit) -> Result<(), Refusal> {
        if let Some(known) = self.by_fit.get(fit) {
            return known.clone();
        }
        let answer = self.satisfiable(fit);
        self.by_fit.insert(fit.clone(), answer.clone());
        answer
    }

    /// Checks whether the nodes that the job may use could ever run it.
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
        if fit.in_container && !all.iter().any(|row| row.node.facts.engine.is_some()) {
            return Err(Refusal::NoEngine);
        }
        let chosen = fit.nodes.as_ref();
        if let Some(chosen) = chosen {
            self.check_named(chosen, &nodes)?;
        }
        let with_possible: Vec<NodeRow>;
        let nodes = match self.may_make_instances(fit) {
            true => {
                let possible = |row: &&NodeRow| match self.world.makes_instances(&row.node.pool) {
                    true => with_possible_instances(row, &fit.gpus),
                    false => (*row).clone(),
                };
                with_possible = nodes.iter().map(possible).collect();
                with_possible.iter().collect()
            }
            false => nodes,
        };
        let models = self.world.models_to_choose(&fit.gpus, fit.pool.as_ref(), fit.gang);
        let answer = match fit.topology().filter(|topology| topology.is_required) {
            None => satisfiable_on(&nodes, fit, models),
            Some(topology) => {
                let domains = domains(&nodes, topology);
                if domains.is_empty() {
                    self.check_named(&fit.nodes.clone().unwrap_or_default(), &[])?;
                }
                in_some_domain(domains, |nodes| satisfiable_on(nodes, fit, models.clone()))
            }
        };
        let answer = answer.map_err(|refusal| match chosen {
            Some(nodes) if nodes.chooses() || fit.topology().is_some() => {
                Refusal::OnNodes { nodes: Arc::clone(nodes), refusal: Box::new(refusal) }
            }
            _ => refusal,
        });
        answer.map_err(|refusal| match fit.pool.clone() {
            Some(pool) => Refusal::InPool { pool, refusal: Box::new(refusal) },
            None => refusal,
        })
    }

    /// Whether the job could get MIG instances that the server creates by demand.
    fn may_make_instances(&self, fit: &Fit) -> bool {
        fit.gpus.is_of_instances() && self.world.policy().all().any(|policy| policy.mig_auto)
    }

    /// Checks that every named node exists and some node is allowed.
    fn check_named(&self, chosen: &Arc<NodeFilter>, allowed: &[&NodeRow]) -> Result<(), Refusal> {
        let unknown = chosen.named().filter(|name| self.world.node(name).is_none());
        let unknown: Vec<NodeName> = unknown.cloned().collect();
        if unknown.is_empty() && !allowed.is_empty() {
            return Ok(());
        }
        let of_node = |row: &NodeRow| (row.node.name.clone(), label::texts(&row.node.all_labels()));
        let there = self.world.nodes_by_name().map(|(_, row)| of_node(row));
        let there = there.take(THERE_MAX).collect();
        Err(Refusal::NoSuchNodes { nodes: Arc::clone(chosen), unknown, there })
    }
}

/// What each part of a request asks of nodes; one without a name for a request without parts.
fn fits_of(request: &JobRequest) -> Vec<(Option<Arc<str>>, Fit)> {
    match request.has_parts() {
        false => vec![(None, Fit::of(request))],
        true => {
            let parts = request.part_fits(Fit::of).into_iter();
            parts.map(|part| (Some(part.name), part.fit)).collect()
        }
    }
}

impl AdmissionRequest {
    /// The size of the requests of all tasks together.
    fn gpus_together(&self) -> MilliGpu {
        let sizes = self.fits.iter().map(|(_, fit)| fit.gpus_together());
        sizes.fold(MilliGpu::ZERO, MilliGpu::saturating_add)
    }

    /// The sum of an amount that each task asks for.
    fn sum(&self, amount: impl Fn(&Fit) -> u64) -> u64 {
        let of_part = |fit: &Fit| amount(fit).saturating_mul(fit.gang.n_tasks().into());
        self.fits.iter().map(|(_, fit)| of_part(fit)).fold(0, u64::saturating_add)
    }

    /// Checks whether a user with no other jobs could run it under these caps.
    fn check_user(&self, project: Option<&ProjectName>, caps: Caps) -> Result<(), Refusal> {
        let gpus = self.gpus_together();
        match caps.exceeded(UserHoldings::default(), gpus).filter(|_| !self.allow_unsatisfiable) {
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
    fn check(&self, asks: &AdmissionRequest) -> Result<(), Refusal> {
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
            let asked = match kind {
                ResourceKind::Gpu => asks.gpus_together().get(),
                ResourceKind::Cpu => asks.sum(|fit| fit.cpus.get()),
                ResourceKind::Memory => asks.sum(|fit| fit.memory.get()),
                ResourceKind::Tasks => asks.sum(|_| 1),
                ResourceKind::GpuModel(_)
                | ResourceKind::GpuPool(_)
                | ResourceKind::PlainTasks
                | ResourceKind::UserTasks
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

    /// Returns the bounds on a job that a limit and a guarantee set.
    pub fn bounds(
        &self,
        asks: &AdmissionRequest,
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

/// Checks a priority. Users may not raise their jobs above others; admins may, and project admins
/// may within their project where priorities do not reach beyond it.
pub(crate) fn priority(
    world: &World,
    caller: &Caller,
    project: &ProjectName,
    requested: i32,
) -> Result<(), Refusal> {
    let most = world.policy().user_priority_max;
    let is_own =
        world.policy().shares() && project_tree::is_admin_of(world.projects(), caller, project);
    if caller.admin || is_own || requested <= most {
        return Ok(());
    }
    Err(Refusal::PriorityTooHigh { asked: requested, most })
}
