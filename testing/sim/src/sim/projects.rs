//! Admins' commands about projects, pools and presets, and the promises in their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::{
    Amount, Command, NodeFilter, NodeName, NodeRule, PoolName, Project, ProjectChange,
    ProjectChangeHow, ProjectName, ProjectPatch, ProjectsAsk, QuotaPatch, Reply, ResourceKind,
    Weight,
};

use gpool_world::World;

use crate::broken::Invariant;
use crate::happening::{Happening, Kind};
use crate::sim::{Sim, picked};
use crate::swarm::{MODELS, PRIORITY_MAX};

/// The answered settings of projects and pools.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agreed {
    /// As they were when a change of them was answered.
    projects: BTreeMap<ProjectName, Project>,
    /// Projects with a request to remove them, answered or not.
    removed: BTreeSet<ProjectName>,
    /// Where nodes were put, with how many other wishes for them were not answered.
    pools: BTreeMap<NodeName, (Option<PoolName>, usize)>,
}

/// Presets under which a second cycle does nothing.
const PRESETS: [&str; 7] = ["fair", "users", "fixed", "priority", "fifo", "valohai", "static"];

/// Changes the policy to a preset.
pub(crate) fn preset(name: &str) -> Command {
    Command::SetPolicy {
        preset: Some(name.to_owned()),
        set: vec![("user_priority_max".to_owned(), PRIORITY_MAX.to_string())],
        dry_run: false,
    }
}

/// Guarantees each project all that there is.
pub(crate) fn without_quotas(world: &World) -> Command {
    let of_models = MODELS.iter().map(|(_, model, _)| ResourceKind::GpuModel((*model).to_owned()));
    let of_pools = (1..=3).filter_map(pool).map(ResourceKind::GpuPool);
    let kinds = [ResourceKind::Gpu, ResourceKind::Cpu].into_iter().chain(of_models).chain(of_pools);
    let all = QuotaPatch {
        guaranteed: Some(Some(Amount::UNLIMITED)),
        limit: Some(Amount::UNLIMITED),
        weight: None,
    };
    let quotas = kinds.map(|kind| (kind, all)).collect();
    let patch = ProjectPatch { parent: Some(None), quotas, ..ProjectPatch::default() };
    let change = |name: &ProjectName| {
        let how = ProjectChangeHow::Declare { patch: Box::new(patch.clone()) };
        ProjectChange { name: name.clone(), how }
    };
    let changes = world.projects().keys().map(change).collect();
    Command::ChangeProjects(ProjectsAsk { changes, ..ProjectsAsk::default() })
}

impl Agreed {
    /// A removed node joins again in the usual pool, so its pool is not checked any more.
    pub(crate) fn forget_pool(&mut self, node: &NodeName) {
        self.pools.entry(node.clone()).or_default().1 += 1;
    }
}

impl Sim {
    /// What an admin wishes of projects, pools and the policy.
    pub(crate) fn sharing(&self, what: &Happening) -> Option<Command> {
        let change = |name, how| {
            let changes = vec![ProjectChange { name, how }];
            Command::ChangeProjects(ProjectsAsk { changes, ..ProjectsAsk::default() })
        };
        Some(match what.kind {
            Kind::Project => {
                let patch = Box::new(patch(what));
                change(name(what.count("which")), ProjectChangeHow::Declare { patch })
            }
            Kind::Unproject => {
                let world = self.server.as_ref()?.control.world();
                let all: Vec<&ProjectName> = world.projects().keys().collect();
                let name = picked(&all, what.count("pick"))?.clone();
                change(name, ProjectChangeHow::Delete { version: None })
            }
            Kind::Move => {
                let all: Vec<usize> = (0..self.machines.len()).collect();
                let m = picked(&all, what.count("node"))?;
                let pool = pool(what.count("pool") % 3 + 1)?;
                Command::MoveNodes { nodes: vec![self.machines[m].node.name.clone()], pool }
            }
            Kind::Preset => preset(picked(&PRESETS, what.count("which"))?),
            _ => return None,
        })
    }

    /// Which nodes jobs may use; any by 0.
    pub(crate) fn chosen(&self, number: u64) -> Option<Arc<NodeFilter>> {
        let number = usize::try_from(number).ok()?.checked_sub(1)?;
        let name = |n: usize| self.machines[n % self.machines.len()].node.name.clone();
        let mut filter = NodeFilter::default();
        match number % 5 {
            0 => {
                filter.include.insert(name(number / 4));
            }
            1 => filter.include.extend([name(number / 4), name(number / 8)]),
            4 => filter.exclusive = true,
            2 => {
                filter.exclude.insert(name(number / 4));
            }
            _ => {
                let model = MODELS[number / 4 % MODELS.len()].1;
                filter.rules.insert(NodeRule::parse(model).expect("a model is a label"));
            }
        }
        filter.unless_default()
    }

    /// Returns the project to charge for a job: one that takes jobs.
    pub(crate) fn charged(&self, what: &Happening) -> ProjectName {
        let usual = name(0);
        let world = self.server.as_ref().map(|server| server.control.world());
        let (Some(world), Some(pick)) = (world, what.count("project").checked_sub(1)) else {
            return usual;
        };
        let parents: BTreeSet<_> =
            world.projects().values().filter_map(|it| it.parent.as_ref()).collect();
        let names = world.projects().keys();
        let leaves: Vec<&ProjectName> = names.filter(|it| !parents.contains(it)).collect();
        picked(&leaves, pick).cloned().unwrap_or(usual)
    }

    /// Records a request, which may take effect whether it is answered or not.
    pub(crate) fn note_wished(&mut self, command: &Command) {
        let agreed = &mut self.watch.agreed;
        match command {
            Command::ChangeProjects(ask) => {
                let is_gone =
                    |it: &&ProjectChange| matches!(it.how, ProjectChangeHow::Delete { .. });
                let gone = ask.changes.iter().filter(is_gone);
                agreed.removed.extend(gone.map(|it| it.name.clone()));
            }
            Command::MoveNodes { nodes, .. } => {
                for node in nodes {
                    agreed.pools.entry(node.clone()).or_default().1 += 1;
                }
            }
            _ => {}
        }
    }

    /// Records settings, once they were answered.
    pub(crate) fn note_agreed(&mut self, command: &Command, reply: &Reply) {
        let agreed = &mut self.watch.agreed;
        match (command, reply) {
            (Command::ChangeProjects(_), Reply::Projects(outcome)) => {
                for it in &outcome.differences {
                    match &it.after {
                        Some(project) => {
                            agreed.projects.insert(it.name.clone(), project.clone());
                        }
                        None => drop(agreed.projects.remove(&it.name)),
                    }
                }
            }
            (Command::MoveNodes { nodes, pool }, _) => {
                for node in nodes {
                    let (at, n_wishes) = agreed.pools.entry(node.clone()).or_default();
                    *at = Some(pool.clone());
                    *n_wishes = n_wishes.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    /// Checks that settings hold until they are changed, and that nodes are in their pools.
    pub(crate) fn check_agreed(&mut self) {
        let Some(server) = self.server.as_ref().filter(|_| !self.store.is_broken) else { return };
        let world = server.control.world();
        let agreed = &self.watch.agreed;
        let holds = |it: &Project| {
            agreed.removed.contains(&it.name)
                || world
                    .projects()
                    .get(&it.name)
                    .is_some_and(|now| now == it || now.version > it.version)
        };
        let project = agreed.projects.values().find(|it| !holds(it));
        let stays = |(node, (pool, n_wishes)): &(&NodeName, &(Option<PoolName>, usize))| {
            let row = world.node(node);
            *n_wishes > 0
                || pool.is_none()
                || row.is_none_or(|row| Some(&row.node.pool) == pool.as_ref())
        };
        let node = agreed.pools.iter().find(|it| !stays(it)).map(|(node, _)| node);
        let what = match (project, node) {
            (Some(it), _) => format!("the setting of project {} is lost", it.name),
            (None, Some(node)) => format!("{node} is not in the pool that it was put into"),
            (None, None) => return,
        };
        self.blame(Invariant::Undone, what);
    }
}

fn name(number: u64) -> ProjectName {
    match number % 16 {
        0 => ProjectName::new("default"),
        number => ProjectName::new(format!("p{number}")),
    }
}

/// The pool with that number; `None` for any, which is 0.
pub(crate) fn pool(number: u64) -> Option<PoolName> {
    match number.checked_sub(1)? % 3 {
        0 => Some(PoolName::usual()),
        1 => Some(PoolName::new("a")),
        _ => Some(PoolName::new("b")),
    }
}

fn patch(what: &Happening) -> ProjectPatch {
    let count = |name| what.count(name) % 1000;
    let halves = |name| match count(name) {
        0 => None,
        1 => Some(Amount::UNLIMITED),
        n => Some(Amount::saturating_of((n - 2) * 500)),
    };
    let thousandths = |n: u64| u32::try_from(n * 1000).expect("below 1000 times 1000");
    let weight =
        count("weight").checked_sub(1).and_then(|n| Weight::from_thousandths(thousandths(n)));
    let gpus = QuotaPatch {
        guaranteed: Some(halves("gpus")),
        limit: Some(halves("limit").unwrap_or(Amount::UNLIMITED)),
        weight,
    };
    let mut quotas = vec![(ResourceKind::Gpu, gpus)];
    if let Some(cores) = count("cpus").checked_sub(1) {
        let guaranteed = Some(Some(Amount::saturating_of(cores * 1000)));
        quotas.push((ResourceKind::Cpu, QuotaPatch { guaranteed, ..QuotaPatch::default() }));
    }
    if let Some(part) = count("part").checked_sub(1) {
        let kind = match usize::try_from(part % 5) {
            Ok(model @ (0 | 1)) => ResourceKind::GpuModel(MODELS[model].1.to_owned()),
            _ => ResourceKind::GpuPool(pool(part % 5 - 1).expect("it is one of the pools")),
        };
        let quota = QuotaPatch {
            guaranteed: Some(halves("part_gpus")),
            limit: Some(halves("part_limit").unwrap_or(Amount::UNLIMITED)),
            weight: None,
        };
        quotas.push((kind, quota));
    }
    let seconds = |name| {
        let seconds = u32::try_from(count(name)).expect("below 1000");
        (seconds > 0).then(|| gpool_model::Millis::from_secs(seconds))
    };
    let priority = what.number("priority").clamp(-1000, 1000);
    ProjectPatch {
        parent: Some((count("parent") > 0).then(|| name(what.count("parent")))),
        quotas,
        priority: Some(i32::try_from(priority).expect("clamped")),
        min_runtime: Some(seconds("safe")),
        min_runtime_own: Some(seconds("own")),
        preemptible: Some(what.is("preemptible")),
        ..ProjectPatch::default()
    }
}
