//! Consequences of the tree of projects: ancestors, guarantees, rights of users, and warnings.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::budget::Payer;
use gpool_model::refusal::Permitted;
use gpool_model::{
    Amount, Caller, JobTerms, Millis, Project, ProjectName, ProjectWarning, Refusal, ResourceKind,
};
use gpool_world::World;

pub type Projects = BTreeMap<ProjectName, Project>;

/// The children of each project that has any, by name.
pub type Children = BTreeMap<ProjectName, Vec<ProjectName>>;

/// A project and all projects above it, itself first. Stops even where the records contain a cycle.
pub fn upwards<'a>(
    projects: &'a Projects,
    project: &'a Project,
) -> impl Iterator<Item = &'a Project> {
    let above = |it: &&'a Project| it.parent.as_ref().and_then(|parent| projects.get(parent));
    std::iter::successors(Some(project), above).take(projects.len())
}

/// Returns the children of each project that has any, by name.
#[must_use]
pub fn children(projects: &Projects) -> Children {
    let mut children = Children::new();
    for project in projects.values() {
        if let Some(parent) = &project.parent {
            children.entry(parent.clone()).or_default().push(project.name.clone());
        }
    }
    children
}

pub(crate) fn check_cycle(projects: &Projects) -> Result<(), Refusal> {
    let mut fine = BTreeSet::new();
    for start in projects.values() {
        let mut path: Vec<&ProjectName> = Vec::new();
        let mut next = Some(start);
        while let Some(project) = next.filter(|it| !fine.contains(&it.name)) {
            if let Some(at) = path.iter().position(|name| **name == project.name) {
                let projects = path[at..].iter().rev().map(|name| (*name).clone()).collect();
                return Err(Refusal::ProjectCycle { projects });
            }
            path.push(&project.name);
            next = project.parent.as_ref().and_then(|parent| projects.get(parent));
        }
        fine.extend(path.into_iter().cloned());
    }
    Ok(())
}

/// Returns a project's guarantee of a kind: the configured one, but never above the project's
/// limit. A department without its own guarantee gets the sum of its children's. The projects must
/// be a tree.
#[must_use]
pub fn guaranteed(
    projects: &Projects,
    children: &Children,
    project: &Project,
    kind: &ResourceKind,
) -> Amount {
    let quota = project.quota(kind);
    let sum = || {
        let below = children.get(&project.name).into_iter().flatten();
        below
            .filter_map(|name| projects.get(name))
            .map(|it| guaranteed(projects, children, it, kind))
            .fold(Amount::NOTHING, Amount::plus)
    };
    quota.guaranteed.unwrap_or_else(sum).min(quota.limit)
}

/// Whether a project names a user as an admin, or a group of theirs.
pub(crate) fn has_admin(project: &Project, caller: &Caller) -> bool {
    project.admins.contains(&caller.owner.user) || !project.admin_groups.is_disjoint(&caller.groups)
}

/// Whether a user is an admin of a project, or of one above it.
#[must_use]
pub fn is_admin_of(projects: &Projects, caller: &Caller, name: &ProjectName) -> bool {
    projects
        .get(name)
        .is_some_and(|project| upwards(projects, project).any(|it| has_admin(it, caller)))
}

/// Checks that a user may see or change the notifications and the digest of a project or user: the
/// user itself, admins of the project or of one above it, and admins of the server.
///
/// # Errors
/// They may not do `what`, or there is no such project.
pub fn check_payer(
    projects: &Projects,
    caller: &Caller,
    payer: &Payer,
    what: String,
) -> Result<(), Refusal> {
    let (may, by) = match payer {
        Payer::Project(name) if !projects.contains_key(name) => {
            return Err(absent(projects, name));
        }
        Payer::Project(name) => (is_admin_of(projects, caller, name), Permitted::AdminOfProject),
        Payer::User(name) => (caller.owner.user == *name, Permitted::Admin),
    };
    if may || caller.admin { Ok(()) } else { Err(Refusal::NotPermitted { what, by }) }
}

/// Whether a user may submit to a project; the nearest project with a list of members decides.
#[must_use]
pub fn is_member(projects: &Projects, caller: &Caller, project: &Project) -> bool {
    let members = upwards(projects, project).find_map(|it| it.members.as_ref());
    let is_named = members.is_none_or(|members| {
        members.users.contains(&caller.owner.user)
            || members.groups.iter().any(|group| caller.groups.contains(group))
    });
    caller.admin || is_named || is_admin_of(projects, caller, &project.name)
}

/// Returns the minimum run time of a project's jobs before they can be reclaimed.
pub(crate) fn min_runtime(projects: &Projects, project: &Project) -> Millis {
    let mut said = upwards(projects, project).filter_map(|it| it.min_runtime.reclaim);
    said.next().unwrap_or(Millis::ZERO)
}

/// The terms for the jobs of a project, with the terms of the projects above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Terms {
    /// The time limit of jobs that ask for none.
    pub default_time: Option<Millis>,
    /// Whether jobs are preemptible unless they say otherwise.
    pub preemptible: bool,
}

pub(crate) fn terms(projects: &Projects, project: &Project) -> Terms {
    let all: Vec<JobTerms> = upwards(projects, project).map(|it| it.jobs).collect();
    let longest = all.iter().filter_map(|it| it.longest_time).min();
    let usual = all.iter().find_map(|it| it.default_time);
    // A job without a limit gets the default, or else the longest allowed.
    let usual = usual.or(longest).map(|usual| longest.map_or(usual, |most| usual.min(most)));
    Terms { default_time: usual, preemptible: all.iter().any(|it| it.preemptible) }
}

/// Returns warnings: settings of these projects that are allowed but may surprise.
#[must_use]
pub fn warnings(world: &World, projects: &Projects) -> Vec<ProjectWarning> {
    let mut warnings = Vec::new();
    let written = projects.values().flat_map(|it| it.quotas.iter().map(|(kind, _)| kind.clone()));
    let kinds: BTreeSet<ResourceKind> = written.chain([ResourceKind::Gpu]).collect();
    let children = children(projects);
    for kind in &kinds {
        let promised = |names: &mut dyn Iterator<Item = &Project>| {
            names
                .filter_map(|it| guaranteed(projects, &children, it, kind).finite())
                .fold(0, u64::saturating_add)
        };
        for (name, below) in &children {
            let Some(department) = projects.get(name) else { continue };
            let written = department.quota(kind).guaranteed.and_then(Amount::finite);
            let promised = promised(&mut below.iter().filter_map(|name| projects.get(name)));
            if let Some(guaranteed) = written.filter(|guaranteed| promised > *guaranteed) {
                let (project, kind) = (name.clone(), kind.clone());
                warnings.push(ProjectWarning::AboveParent { project, kind, promised, guaranteed });
            }
        }
        let promised = promised(&mut projects.values().filter(|it| it.parent.is_none()));
        let capacity = world.installed().counted_as(kind);
        if kind.is_part_of_gpus() && !world.gpu_classes().any(|class| class.counts_as(kind)) {
            let of = projects.values().filter(|it| it.quotas.get(kind).is_some());
            warnings.extend(of.map(|it| {
                let (project, kind) = (it.name.clone(), kind.clone());
                ProjectWarning::NoSuchGpus { project, kind }
            }));
        } else if promised > capacity {
            let kind = kind.clone();
            warnings.push(ProjectWarning::AboveCluster { kind, promised, capacity });
        }
        for project in projects.values() {
            let quota = project.quota(kind);
            if let (Some(guaranteed), Some(limit)) =
                (quota.guaranteed.and_then(Amount::finite), quota.limit.finite())
                && guaranteed > limit
            {
                let (project, kind) = (project.name.clone(), kind.clone());
                warnings.push(ProjectWarning::AboveOwnLimit { project, kind, guaranteed, limit });
            }
        }
    }
    if world.policy().shares() {
        warnings.extend(never_taken_back(projects));
    }
    warnings
}

/// Projects that may keep the whole capacity although other projects have guarantees.
fn never_taken_back(projects: &Projects) -> impl Iterator<Item = ProjectWarning> {
    let gpu = ResourceKind::Gpu;
    let written = |it: &Project| it.quota(&gpu).guaranteed;
    let is_promised = |it: &Project| {
        written(it).and_then(Amount::finite).is_some_and(|guaranteed| guaranteed > 0)
    };
    let some = projects.values().any(is_promised);
    let unbounded = |it: &&Project| {
        some && upwards(projects, it).all(|it| {
            written(it).is_none_or(Amount::is_unlimited) && it.quota(&gpu).limit.is_unlimited()
        }) && written(it) == Some(Amount::UNLIMITED)
    };
    let names: Vec<ProjectName> =
        projects.values().filter(unbounded).map(|it| it.name.clone()).collect();
    names.into_iter().map(|project| ProjectWarning::NeverTakenBack { project })
}

pub(crate) fn absent(projects: &Projects, name: &ProjectName) -> Refusal {
    Refusal::NoSuchProject { name: name.clone(), projects: projects.keys().cloned().collect() }
}
