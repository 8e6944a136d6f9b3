//! Projects are created, changed and removed: several at once or not at all.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::budget::Payer;
use gpool_model::effect::Change;
use gpool_model::reason::Bound;
use gpool_model::refusal::Permitted;
use gpool_model::{
    Amount, Caller, Project, ProjectChange, ProjectChangeHow, ProjectDifference, ProjectName,
    ProjectPatch, ProjectWarning, ProjectsAsk, ProjectsOutcome, Quotas, Refusal, Reply,
    ResourceKind, Version,
};

use crate::control::Control;
use crate::project_tree::{self, Children, Projects, absent};

/// The project of jobs that name none.
const DEFAULT: &str = "default";

impl Control {
    /// The largest number of projects, so that a cycle stays cheap.
    const PROJECTS_MAX: usize = 10_000;
    /// The largest number of projects that admins of a project can have below its top project.
    const PROJECTS_BELOW_MAX: usize = 200;
    /// The largest number of models and pools that the quotas of all projects name.
    const PARTS_MAX: usize = 48;

    pub(crate) fn change_projects(
        &mut self,
        caller: &Caller,
        ask: &ProjectsAsk,
    ) -> Result<Reply, Refusal> {
        let before = self.world.projects().clone();
        check_versions(&before, ask)?;
        let after = self.changed(caller, &before, ask)?;
        self.check_structure(&before, &after)?;
        if !caller.admin {
            check_gifts(&before, &after)?;
            check_number(&before, &after, Self::PROJECTS_BELOW_MAX)?;
        }
        let differences = differences(&before, &after);
        let mut warnings = project_tree::warnings(&self.world, &after);
        warnings.extend(differences.iter().filter_map(|it| self.holds_more(&before, &after, it)));
        let done = !ask.dry_run;
        if done {
            for difference in &differences {
                match &difference.after {
                    Some(project) => self.world.put_project(project.clone()),
                    None => {
                        self.world.remove_project(&difference.name);
                        self.world.remove_subscription(&Payer::Project(difference.name.clone()));
                    }
                }
                self.publish(Change::ProjectChanged { project: difference.name.clone() });
            }
        }
        let base_versions = before.values().map(|it| (it.name.clone(), it.version)).collect();
        let outcome = ProjectsOutcome { differences, warnings, base_versions, done };
        Ok(Reply::Projects(Box::new(outcome)))
    }

    /// Returns all projects after the change.
    fn changed(
        &self,
        caller: &Caller,
        before: &Projects,
        ask: &ProjectsAsk,
    ) -> Result<Projects, Refusal> {
        let mut after = before.clone();
        let mut named = BTreeSet::new();
        for ProjectChange { name, how } in &ask.changes {
            if !named.insert(name) {
                return Err(invalid("projects", format!("project {name} is given twice")));
            }
            let there = before.get(name);
            let project = match how {
                ProjectChangeHow::Create { patch } => match there {
                    Some(_) => return Err(Refusal::ProjectExists { name: name.clone() }),
                    None => Some(self.new_project(name, patch)?),
                },
                ProjectChangeHow::Declare { patch } => {
                    let new = self.new_project(name, patch)?;
                    Some(match there {
                        None => new,
                        Some(it) => {
                            Project { created_at: it.created_at, version: it.version, ..new }
                        }
                    })
                }
                ProjectChangeHow::Edit { version, patch } => {
                    let it = there.ok_or_else(|| absent(before, name))?;
                    check_version(it, *version)?;
                    if patch.is_empty() {
                        let why =
                            "it changes nothing; give a setting, for example gpus: 4".to_owned();
                        return Err(invalid("project", why));
                    }
                    Some(checked(patch.applied_to(it))?)
                }
                ProjectChangeHow::Delete { version } => {
                    check_version(there.ok_or_else(|| absent(before, name))?, *version)?;
                    None
                }
            };
            match project {
                Some(project) => drop(after.insert(name.clone(), project)),
                None => drop(after.remove(name)),
            }
        }
        if ask.prune {
            after.retain(|name, _| named.contains(name) || name.as_str() == DEFAULT);
        }
        if !caller.admin {
            let changed = differences(before, &after);
            for difference in &changed {
                check_role(caller, before, difference)?;
            }
        }
        Ok(after)
    }

    fn new_project(&self, name: &ProjectName, patch: &ProjectPatch) -> Result<Project, Refusal> {
        checked(patch.of_blank(name.clone(), self.now))
    }

    /// Checks that the projects form a tree, and that only leaves have jobs.
    fn check_structure(&self, before: &Projects, after: &Projects) -> Result<(), Refusal> {
        let most = Self::PROJECTS_MAX;
        if after.len() > most && after.len() > before.len() {
            return Err(Refusal::TooManyProjects { most: most as u64, below: None });
        }
        let parts = |all: &Projects| {
            let kinds = all.values().flat_map(|it| it.quotas.iter().map(|(kind, _)| kind.clone()));
            kinds.filter(ResourceKind::is_part_of_gpus).collect::<BTreeSet<_>>().len()
        };
        let (most, n_parts) = (Self::PARTS_MAX, parts(after));
        if n_parts > most && n_parts > parts(before) {
            let why = format!(
                "it would have quotas for {n_parts} models and pools; the maximum is {most}: \
                 remove some with none"
            );
            return Err(invalid("gpus_of, limit_of, gpus_in, limit_in", why));
        }
        let children = project_tree::children(after);
        let default = ProjectName::new(DEFAULT);
        if !after.contains_key(&default) && before.contains_key(&default) {
            return Err(Refusal::ProjectNeeded { name: default });
        }
        for name in before.keys().filter(|name| !after.contains_key(name)) {
            if let Some(children) = children.get(name) {
                let (name, children) = (name.clone(), children.clone());
                return Err(Refusal::ProjectHasChildren { name, children });
            }
            self.check_no_jobs(name, None)?;
        }
        for (parent, children) in &children {
            if !after.contains_key(parent) {
                return Err(absent(after, parent));
            }
            if parent.as_str() == DEFAULT {
                return Err(Refusal::ProjectNeeded { name: parent.clone() });
            }
            self.check_no_jobs(parent, children.first())?;
        }
        project_tree::check_cycle(after)
    }

    fn check_no_jobs(
        &self,
        name: &ProjectName,
        child: Option<&ProjectName>,
    ) -> Result<(), Refusal> {
        match self.world.project_row(name).map_or(0, |row| row.n_jobs) {
            0 => Ok(()),
            n_jobs => {
                let (name, child) = (name.clone(), child.cloned());
                Err(Refusal::ProjectHasJobs { name, n_jobs, child })
            }
        }
    }

    /// Warns that a project is now guaranteed less than it holds, and was not before.
    fn holds_more(
        &self,
        before: &Projects,
        after: &Projects,
        difference: &ProjectDifference,
    ) -> Option<ProjectWarning> {
        let row = self.world.project_row(&difference.name)?;
        let was = difference.before.as_ref()?;
        let is = difference.after.as_ref()?;
        let kind = ResourceKind::Gpu;
        let held = row.sum.held.get(&kind);
        let of = |projects: &Projects, it: &Project| {
            project_tree::guaranteed(projects, &project_tree::children(projects), it, &kind)
        };
        let guaranteed = of(after, is);
        let is_less = guaranteed < of(before, was);
        (is_less && !guaranteed.allows(held)).then(|| ProjectWarning::HoldsMore {
            project: difference.name.clone(),
            held,
            guaranteed: guaranteed.finite().unwrap_or(held),
            for_good: row.sum.for_good.get(&kind),
            kind,
        })
    }
}

fn invalid(field: &str, why: String) -> Refusal {
    Refusal::Invalid { field: field.to_owned(), why }
}

/// Checks that a project's settings fit together.
fn checked(project: Project) -> Result<Project, Refusal> {
    let jobs = &project.jobs;
    if let (Some(usual), Some(longest)) = (jobs.default_time, jobs.longest_time)
        && usual > longest
    {
        let why = format!("{usual} is longer than time_max, {longest}");
        return Err(invalid("time_default", why));
    }
    Ok(project)
}

fn check_version(project: &Project, version: Option<u64>) -> Result<(), Refusal> {
    match version {
        Some(expected) if Version(expected) != project.version => {
            let (name, found) = (project.name.clone(), project.version.0);
            Err(Refusal::ProjectConflict { name, expected, found })
        }
        _ => Ok(()),
    }
}

/// Checks that the projects are unchanged since the caller read them.
fn check_versions(before: &Projects, ask: &ProjectsAsk) -> Result<(), Refusal> {
    let Some(seen) = &ask.seen else { return Ok(()) };
    let seen: BTreeMap<&ProjectName, u64> = seen.iter().map(|(name, it)| (name, *it)).collect();
    let names: BTreeSet<&ProjectName> = seen.keys().copied().chain(before.keys()).collect();
    for name in names {
        let expected = seen.get(name).copied().unwrap_or(0);
        let found = before.get(name).map_or(0, |it| it.version.0);
        if expected != found {
            return Err(Refusal::ProjectConflict { name: name.clone(), expected, found });
        }
    }
    Ok(())
}

/// Returns the projects that differ; each changed one gets its next version.
fn differences(before: &Projects, after: &Projects) -> Vec<ProjectDifference> {
    let names: BTreeSet<&ProjectName> = before.keys().chain(after.keys()).collect();
    let difference = |name: &ProjectName| {
        let (before, after) = (before.get(name), after.get(name));
        (before != after).then(|| ProjectDifference {
            name: name.clone(),
            before: before.cloned(),
            after: after.map(|after| Project {
                version: before.map_or(after.version, |before| before.version.next()),
                ..after.clone()
            }),
        })
    };
    names.into_iter().filter_map(difference).collect()
}

/// A caller without cluster admin rights changes only projects below their own.
fn check_role(
    caller: &Caller,
    before: &Projects,
    difference: &ProjectDifference,
) -> Result<(), Refusal> {
    let sides = [difference.before.as_ref(), difference.after.as_ref()];
    let may = |project: &Project| {
        let parent = project.parent.as_ref().and_then(|parent| before.get(parent));
        parent.is_some_and(|parent| {
            project_tree::upwards(before, parent).any(|it| project_tree::has_admin(it, caller))
        })
    };
    match sides.into_iter().flatten().all(may) {
        true => Ok(()),
        false => {
            let verb = match sides {
                [None, _] => "create",
                [_, None] => "delete",
                _ => "change",
            };
            let what = format!("{verb} project {}", difference.name);
            Err(Refusal::NotPermitted { what, by: Permitted::ProjectAdmin })
        }
    }
}

/// Limits the projects that a caller without cluster admin rights adds: each costs time in every
/// cycle, for all users.
fn check_number(before: &Projects, after: &Projects, most: usize) -> Result<(), Refusal> {
    let count = |projects: &Projects| {
        let mut numbers = BTreeMap::<ProjectName, usize>::new();
        for project in projects.values() {
            if let Some(top) = project_tree::upwards(projects, project).skip(1).last() {
                *numbers.entry(top.name.clone()).or_default() += 1;
            }
        }
        numbers
    };
    let (before, after) = (count(before), count(after));
    for (name, number) in after {
        if number > most && number > before.get(&name).copied().unwrap_or(0) {
            return Err(Refusal::TooManyProjects { most: most as u64, below: Some(name) });
        }
    }
    Ok(())
}

/// A caller without cluster admin rights can only assign quota that their project has.
fn check_gifts(before: &Projects, after: &Projects) -> Result<(), Refusal> {
    let children = project_tree::children(after);
    for difference in differences(before, after) {
        let Some(project) = &difference.after else { continue };
        let Some(parent) = project.parent.as_ref().and_then(|name| after.get(name)) else {
            continue;
        };
        // A minimum run time of one's own choice must not keep borrowed capacity from its owners.
        let most = project_tree::min_runtime(after, parent);
        let had = difference.before.as_ref().and_then(|it| it.min_runtime.reclaim);
        let asks = project.min_runtime.reclaim;
        if asks != had && asks.is_some_and(|asks| asks > most) {
            let what = format!(
                "give {} a longer min_runtime than {} has ({most})",
                project.name, parent.name
            );
            return Err(Refusal::NotPermitted { what, by: Permitted::ProjectAdmin });
        }
        let gave = difference.before.as_ref().map(|it| &it.quotas);
        if gave == Some(&project.quotas)
            && difference.before.as_ref().and_then(|it| it.parent.as_ref()) == Some(&parent.name)
        {
            continue;
        }
        for kind in kinds([&parent.quotas, &project.quotas]) {
            check_gift(after, &children, project, parent, &kind)?;
        }
    }
    Ok(())
}

fn check_gift(
    after: &Projects,
    children: &Children,
    project: &Project,
    parent: &Project,
    kind: &ResourceKind,
) -> Result<(), Refusal> {
    let above = |bound, asked: Amount, most: u64| Refusal::AboveParent {
        project: project.name.clone(),
        parent: parent.name.clone(),
        kind: kind.clone(),
        bound,
        asked: asked.finite(),
        most,
    };
    let own = project.quota(kind);
    if let (Some(most), Some(limit)) = (parent.quota(kind).limit.finite(), own.limit.finite())
        && limit > most
    {
        return Err(above(Bound::Limit, own.limit, most));
    }
    // A department that is guaranteed only its children's sum gives its admin nothing to assign.
    let written = parent.quota(kind).guaranteed.unwrap_or(Amount::NOTHING);
    let Some(most) = written.finite() else { return Ok(()) };
    let below = children.get(&parent.name).into_iter().flatten();
    let given = below
        .filter_map(|name| after.get(name))
        .map(|it| project_tree::guaranteed(after, children, it, kind))
        .fold(Amount::NOTHING, Amount::plus);
    let gives = own.guaranteed.unwrap_or(Amount::NOTHING) > Amount::NOTHING;
    match gives && !matches!(given.finite(), Some(given) if given <= most) {
        true => Err(above(Bound::Guaranteed, given, most)),
        false => Ok(()),
    }
}

fn kinds<const N: usize>(quotas: [&Quotas; N]) -> BTreeSet<ResourceKind> {
    let written = quotas.into_iter().flat_map(|it| it.iter().map(|(kind, _)| kind.clone()));
    written.chain([ResourceKind::Gpu]).collect()
}
