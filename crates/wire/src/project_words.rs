//! Words about projects: what should be known of them, and why something of them was refused.

use gpool_model::reason::Bound;
use gpool_model::{ProjectName, ProjectWarning, Refusal, ResourceKind};

use crate::json::nearest;
use crate::kind::amount_words;
use crate::problem::Problem;

/// More names than this nobody reads.
const NAMED_MAX: usize = 20;

/// What should be known, in a line.
#[must_use]
pub fn warning(it: &ProjectWarning) -> String {
    match it {
        ProjectWarning::AboveParent { project, kind, promised, guaranteed } => format!(
            "the projects below {project} are guaranteed {} together, and {project} has {}: each \
             can keep its part of that",
            amount_words(kind, *promised),
            amount_words(kind, *guaranteed),
        ),
        ProjectWarning::AboveCluster { kind, promised, capacity } => format!(
            "{} are guaranteed in all, and there are {}: each project can keep its part of that",
            amount_words(kind, *promised),
            amount_words(kind, *capacity),
        ),
        ProjectWarning::AboveOwnLimit { project, kind, guaranteed, limit } => format!(
            "{project} is guaranteed {} and limited to {}: the limit holds",
            amount_words(kind, *guaranteed),
            amount_words(kind, *limit),
        ),
        ProjectWarning::NoSuchGpus { project, kind: ResourceKind::GpuModel(model) } => format!(
            "{project} has a quota of {} GPUs, and no GPU here is of that model: gpool gpus",
            model.to_uppercase()
        ),
        ProjectWarning::NoSuchGpus { project, kind } => {
            format!("{project} has a quota of {kind}, and there are none: gpool node list")
        }
        ProjectWarning::NeverTakenBack { project } => format!(
            "GPUs that {project} holds are never taken back, for it is guaranteed as many as there \
             are; to bound it: gpool project edit {project} --gpus 0"
        ),
        ProjectWarning::HoldsMore { project, kind, held, guaranteed, for_good } => {
            let kept = match for_good {
                0 => String::new(),
                kept => format!("; {} can't be taken back", amount_words(kind, *kept)),
            };
            format!(
                "{project} holds {} and is guaranteed {} now: the rest is on loan, and nothing \
                 ends before its owner asks{kept}",
                amount_words(kind, *held),
                amount_words(kind, *guaranteed),
            )
        }
    }
}

fn list(names: &[ProjectName]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<&str> = names.iter().take(NAMED_MAX).map(|name| name.as_str()).collect();
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// `1 GPU is`, `2 GPUs are`.
fn are(kind: &ResourceKind, amount: u64) -> String {
    let words = amount_words(kind, amount);
    let are = if words.starts_with("1 ") { "is" } else { "are" };
    format!("{words} {are}")
}

/// The one line that says what was refused; `None` if it is not about projects.
pub(crate) fn what(refusal: &Refusal) -> Option<String> {
    Some(match refusal {
        Refusal::NoSuchProject { name, .. } => format!("there is no project {:?}", name.as_str()),
        Refusal::DepartmentTakesNoJobs { name, .. } => {
            format!("project {name} is a department: jobs belong to the projects below it")
        }
        Refusal::NotMember { name, .. } => format!("you may not submit to project {name}"),
        Refusal::AboveQuota { project, kind, bound: Bound::Limit, asked, .. } => format!(
            "this could never run: {} more than project {project} may ever hold",
            are(kind, *asked)
        ),
        Refusal::AboveQuota { project, kind, bound: Bound::Guaranteed, asked, .. } => format!(
            "this could never run: it can't be taken back, and {} more than project {project} \
             is guaranteed",
            are(kind, *asked)
        ),
        Refusal::AboveQuota { project, kind, bound: Bound::GuaranteedOnly, asked, .. } => format!(
            "this could never run: {} more than project {project} is guaranteed, and nothing \
             is lent here",
            are(kind, *asked)
        ),
        Refusal::TimeTooLong { project, asked, .. } => {
            format!("a time limit of {asked} is longer than project {project} allows")
        }
        Refusal::ProjectExists { name } => format!("there is a project {name} already"),
        Refusal::ProjectHasJobs { name, child: None, .. } => {
            format!("project {name} has jobs that have not ended")
        }
        Refusal::ProjectHasJobs { name, child: Some(child), .. } => {
            format!("project {name} has jobs, so {child} can't be below it: departments have none")
        }
        Refusal::ProjectHasChildren { name, .. } => {
            format!("project {name} has others below it")
        }
        Refusal::ProjectCycle { projects } => {
            let names: Vec<&str> = projects.iter().map(|name| name.as_str()).collect();
            format!("a project would be below itself: {} → {}", names.join(" → "), names[0])
        }
        Refusal::ProjectNeeded { name } => {
            format!("project {name} must take jobs: those that name no project belong to it")
        }
        Refusal::TooManyProjects { most } => {
            format!("there are {most} projects, as many as there may be")
        }
        Refusal::ProjectConflict { name, .. } => {
            format!("project {name} was changed by somebody else")
        }
        Refusal::AboveParent { project, parent, kind, asked, .. } => {
            let what =
                asked.map_or_else(|| "without bound".to_owned(), |it| amount_words(kind, it));
            format!("{what} for {project} is more than {parent} has to give")
        }
        _ => return None,
    })
}

/// Why, and what to try; the problem as it is where it is not about projects.
pub(crate) fn because(problem: Problem, refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::NoSuchProject { name, projects } => {
            let names: Vec<&str> = projects.iter().map(|name| name.as_str()).collect();
            let near = nearest(name.as_str(), names.iter().copied());
            problem
                .because(format!("there are: {}", list(projects)))
                .try_this(format!("--project {}", near.unwrap_or("default")))
        }
        Refusal::DepartmentTakesNoJobs { leaves, .. } => {
            let problem = problem.because(format!("below it: {}", list(leaves)));
            match leaves.first() {
                Some(leaf) => problem.try_this(format!("--project {leaf}")),
                None => problem,
            }
        }
        Refusal::NotMember { members, open, user, .. } => {
            let problem = problem
                .because(format!("its members are {}; you are {user}", members.join(", ")))
                .because(format!("you may submit to: {}", list(open)));
            match open.first() {
                Some(open) => problem.try_this(format!("--project {open}")),
                None => problem.try_this("ask an admin: gpool project edit PROJECT --members …"),
            }
        }
        Refusal::AboveQuota { project, kind, bound, most, .. } => above_quota(
            problem.because(match bound {
                Bound::Limit => {
                    format!("the limit of {project} is {}", amount_words(kind, *most))
                }
                Bound::Guaranteed | Bound::GuaranteedOnly => {
                    format!("{project} is guaranteed {}", amount_words(kind, *most))
                }
            }),
            *bound,
            kind,
        ),
        Refusal::TimeTooLong { most, .. } => {
            problem.because(format!("the longest is {most}")).try_this(format!("--time {most}"))
        }
        Refusal::ProjectExists { name } => {
            problem.try_this(format!("gpool project edit {name}   (changes it)"))
        }
        Refusal::ProjectHasJobs { name, n_jobs, .. } => {
            let jobs = if *n_jobs == 1 { "job" } else { "jobs" };
            problem
                .because(format!("{n_jobs} {jobs} of it wait or run"))
                .try_this(format!("gpool queue -p {name}   (cancel them, or wait for their ends)"))
        }
        Refusal::ProjectHasChildren { children, .. } => problem
            .because(format!("below it: {}", list(children)))
            .try_this("delete those first, or give them another --parent"),
        Refusal::ProjectNeeded { name } => problem
            .try_this(format!("gpool project edit {name} --limit 0   (nothing starts in it)")),
        Refusal::TooManyProjects { .. } => {
            problem.try_this("gpool project delete NAME   (of those that are not needed)")
        }
        Refusal::ProjectConflict { name, expected, found } => {
            let why = match (expected, found) {
                (_, 0) => "it was deleted".to_owned(),
                (0, _) => "it was created meanwhile".to_owned(),
                _ => format!("you saw version {expected}; it is at version {found} now"),
            };
            problem
                .because(why)
                .try_this(format!("gpool project show {name}, then repeat it if still wanted"))
        }
        Refusal::AboveParent { parent, kind, bound, most, .. } => problem
            .because(match bound {
                Bound::Limit => {
                    format!("the limit of {parent} is {}", amount_words(kind, *most))
                }
                Bound::Guaranteed | Bound::GuaranteedOnly => format!(
                    "{parent} is guaranteed {}, for all below it together",
                    amount_words(kind, *most)
                ),
            })
            .try_this("less, or ask an admin of the cluster"),
        _ => problem,
    }
}

fn above_quota(problem: Problem, bound: Bound, kind: &ResourceKind) -> Problem {
    let problem = match kind {
        ResourceKind::GpuModel(_) => problem.try_this("--gpus N of another model, or of any"),
        ResourceKind::GpuPool(_) => problem.try_this("another --pool"),
        _ => problem,
    };
    let problem = match bound {
        Bound::Limit | Bound::GuaranteedOnly => problem.try_this("less, or another --project"),
        Bound::Guaranteed => problem.try_this(
            "--preemptible   (it may borrow what is idle, and is put back when its owner asks)",
        ),
    };
    problem.try_this("--allow-unsatisfiable queues it until the quota is another")
}
