//! Refusals of projects: of jobs, and of changes to a project.

use gpool_model::reason::Bound;
use gpool_model::{ProjectName, Refusal, ResourceKind};

use crate::json::nearest;
use crate::kind::amount_words;
use crate::problem::Problem;

/// Maximum number of names in a message.
const NAMED_MAX: usize = 20;

pub(super) fn told(refusal: &Refusal) -> Option<Problem> {
    of_job(refusal).or_else(|| of_change(refusal))
}

fn of_job(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: String| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::NoSuchProject { name, projects } => {
            let names: Vec<&str> = projects.iter().map(|name| name.as_str()).collect();
            let near = nearest(name.as_str(), names.iter().copied());
            problem(format!("there is no project {:?}", name.as_str()))
                .because(format!("there are: {}", list(projects)))
                .try_this(format!("--project {}", near.unwrap_or("default")))
        }
        Refusal::DepartmentTakesNoJobs { name, leaves } => {
            let problem = problem(format!(
                "project {name} is a department: jobs belong to the projects below it"
            ))
            .because(format!("below it: {}", list(leaves)));
            match leaves.first() {
                Some(leaf) => problem.try_this(format!("--project {leaf}")),
                None => problem,
            }
        }
        Refusal::NotMember { name, members, open, user } => {
            let problem = problem(format!("you may not submit to project {name}"))
                .because(format!("its members are {}; you are {user}", members.join(", ")))
                .because(format!("you may submit to: {}", list(open)));
            match open.first() {
                Some(open) => problem.try_this(format!("--project {open}")),
                None => problem.try_this("ask an admin: gpool project edit PROJECT --members …"),
            }
        }
        Refusal::AboveQuota { project, kind, bound, asked, most, .. } => {
            let (asked, most) = (are(kind, *asked), amount_words(kind, *most));
            let (what, why) = match bound {
                Bound::Limit => (
                    format!("{asked} more than project {project} may ever hold"),
                    format!("the limit of {project} is {most}"),
                ),
                Bound::Guaranteed => (
                    format!(
                        "it can't be taken back, and {asked} more than project {project} is \
                         guaranteed"
                    ),
                    format!("{project} is guaranteed {most}"),
                ),
                Bound::GuaranteedOnly => (
                    format!(
                        "{asked} more than project {project} is guaranteed, and nothing is lent \
                         here"
                    ),
                    format!("{project} is guaranteed {most}"),
                ),
            };
            let problem = problem(format!("this could never run: {what}")).because(why);
            above_quota(problem, *bound, kind)
        }
        Refusal::TimeTooLong { project, asked, most } => {
            problem(format!("a time limit of {asked} is longer than project {project} allows"))
                .because(format!("the longest is {most}"))
                .try_this(format!("--time {most}"))
        }
        _ => return None,
    })
}

fn of_change(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: String| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::ProjectExists { name } => problem(format!("there is a project {name} already"))
            .try_this(format!("gpool project edit {name}   (changes it)")),
        Refusal::ProjectHasJobs { name, n_jobs, child } => {
            let jobs = if *n_jobs == 1 { "job" } else { "jobs" };
            problem(match child {
                None => format!("project {name} has jobs that have not ended"),
                Some(child) => format!(
                    "project {name} has jobs, so {child} can't be below it: departments have none"
                ),
            })
            .because(format!("{n_jobs} {jobs} of it wait or run"))
            .try_this(format!("gpool queue -p {name}   (cancel them, or wait for their ends)"))
        }
        Refusal::ProjectHasChildren { name, children } => {
            problem(format!("project {name} has others below it"))
                .because(format!("below it: {}", list(children)))
                .try_this("delete those first, or give them another --parent")
        }
        Refusal::ProjectCycle { projects } => {
            let names: Vec<&str> = projects.iter().map(|name| name.as_str()).collect();
            let circle = names.join(" → ");
            problem(format!("a project would be below itself: {circle} → {}", names[0]))
        }
        Refusal::ProjectNeeded { name } => problem(format!(
            "project {name} must take jobs: those that name no project belong to it"
        ))
        .try_this(format!("gpool project edit {name} --limit 0   (nothing starts in it)")),
        Refusal::TooManyProjects { most } => {
            problem(format!("there are {most} projects, as many as there may be"))
                .try_this("gpool project delete NAME   (of those that are not needed)")
        }
        Refusal::ProjectConflict { name, expected, found } => {
            problem(format!("project {name} was changed by somebody else"))
                .because(match (expected, found) {
                    (_, 0) => "it was deleted".to_owned(),
                    (0, _) => "it was created meanwhile".to_owned(),
                    _ => format!("you saw version {expected}; it is at version {found} now"),
                })
                .try_this(format!("gpool project show {name}, then repeat it if still wanted"))
        }
        Refusal::AboveParent { project, parent, kind, bound, asked, most } => {
            let what =
                asked.map_or_else(|| "without bound".to_owned(), |it| amount_words(kind, it));
            let most = amount_words(kind, *most);
            problem(format!("{what} for {project} is more than {parent} has to give"))
                .because(match bound {
                    Bound::Limit => format!("the limit of {parent} is {most}"),
                    Bound::Guaranteed | Bound::GuaranteedOnly => {
                        format!("{parent} is guaranteed {most}, for all below it together")
                    }
                })
                .try_this("less, or ask an admin of the cluster")
        }
        _ => return None,
    })
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

/// Returns an amount and its verb: `1 GPU is`, `2 GPUs are`.
fn are(kind: &ResourceKind, amount: u64) -> String {
    let words = amount_words(kind, amount);
    let are = if words.starts_with("1 ") { "is" } else { "are" };
    format!("{words} {are}")
}
