//! Refusals of projects: of jobs, and of changes to a project.

use gpool_model::reason::Bound;
use gpool_model::{ProjectName, Refusal, ResourceKind};

use crate::kind::amount_words;
use crate::problem::Problem;
use crate::words::nearest;

/// Maximum number of names in a message.
const NAMED_MAX: usize = 20;

pub(super) fn text(refusal: &Refusal) -> Option<Problem> {
    of_job(refusal).or_else(|| of_change(refusal))
}

fn of_job(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: String| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::NoSuchProject { name, projects } => {
            let names: Vec<&str> = projects.iter().map(|name| name.as_str()).collect();
            // The name may be of a job, a budget, a reservation or another project.
            let tip = match nearest(name.as_str(), names.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "gpool project list   (shows the projects)".to_owned(),
            };
            problem(format!("there is no project {:?}", name.as_str()))
                .because(format!("there are: {}", list(projects)))
                .try_this(tip)
        }
        Refusal::DepartmentTakesNoJobs { name, leaves } => {
            let problem =
                problem(format!("project {name} is a department: submit to a project below it"))
                    .because(format!("below it: {}", list(leaves)));
            match leaves.first() {
                Some(leaf) => problem.try_this(format!("--project {leaf}")),
                None => problem,
            }
        }
        Refusal::NotMember { name, members, open, user } => {
            let problem = problem(format!("you may not submit to project {name}"))
                .because(format!("its members are {}, and you are {user}", members.join(", ")))
                .because(format!("you may submit to: {}", list(open)));
            match open.first() {
                Some(open) => problem.try_this(format!("--project {open}")),
                None => {
                    problem.try_this("ask an admin to run: gpool project edit PROJECT --members …")
                }
            }
        }
        Refusal::AboveQuota { project, kind, bound, asked, most, .. } => {
            let (asked, most) = (amount_words(kind, *asked), amount_words(kind, *most));
            let guaranteed = format!("{project} is guaranteed {most}");
            let (what, why) = match bound {
                Bound::Limit => (
                    format!("it requests {asked}, more than the limit of project {project}"),
                    format!("the limit of {project} is {most}"),
                ),
                Bound::Guaranteed => (
                    format!(
                        "it requests {asked}, and a non-preemptible job can only use the \
                         guaranteed quota of project {project}"
                    ),
                    guaranteed,
                ),
                Bound::GuaranteedOnly => (
                    format!(
                        "it requests {asked}, more than project {project} is guaranteed, and the \
                         policy lets projects borrow nothing"
                    ),
                    guaranteed,
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
        Refusal::ProjectExists { name } => problem(format!("project {name} already exists"))
            .try_this(format!("gpool project edit {name}   (changes it)")),
        Refusal::ProjectHasJobs { name, n_jobs, child } => {
            let jobs = if *n_jobs == 1 { "job" } else { "jobs" };
            problem(match child {
                None => format!("project {name} has jobs that have not ended"),
                Some(child) => format!(
                    "project {child} can't be below {name}: {name} has jobs, and a department \
                     can't have jobs"
                ),
            })
            .because(format!("{n_jobs} {jobs} of {name} wait or run"))
            .try_this(format!("gpool queue -p {name}   (cancel them, or wait until they end)"))
        }
        Refusal::ProjectHasChildren { name, children } => {
            problem(format!("project {name} has projects below it"))
                .because(format!("below it: {}", list(children)))
                .try_this("delete those first, or move them with --parent")
        }
        Refusal::ProjectCycle { projects } => {
            let names: Vec<&str> = projects.iter().map(|name| name.as_str()).collect();
            let circle = names.join(" → ");
            problem(format!("a project would be below itself: {circle} → {}", names[0]))
        }
        Refusal::ProjectNeeded { name } => {
            problem(format!("project {name} is needed: jobs without --project belong to it"))
                .try_this(format!("gpool project edit {name} --limit 0   (no job starts in it)"))
        }
        Refusal::TooManyProjects { most, below } => {
            let (place, more) = match below {
                Some(name) => (format!(" below {name}"), Some("an admin can create more")),
                None => (String::new(), None),
            };
            let refused = problem(format!("there are already {most} projects{place}, the maximum"))
                .try_this("gpool project delete NAME   (deletes one that is not needed)");
            more.into_iter().fold(refused, Problem::try_this)
        }
        Refusal::ProjectConflict { name, expected, found } => {
            problem(format!("another request changed project {name} first"))
                .because(match (expected, found) {
                    (_, 0) => "it was deleted".to_owned(),
                    (0, _) => "it was created in the meantime".to_owned(),
                    _ => format!("you read version {expected}; it is now at version {found}"),
                })
                .try_this(format!(
                    "gpool project show {name}, then repeat the change if you still want it"
                ))
        }
        Refusal::AboveParent { project, parent, kind, bound, asked, most } => {
            let what =
                asked.map_or_else(|| "an unlimited amount".to_owned(), |it| amount_words(kind, it));
            let most = amount_words(kind, *most);
            problem(format!("{what} for {project} is more than {parent} has"))
                .because(match bound {
                    Bound::Limit => format!("the limit of {parent} is {most}"),
                    Bound::Guaranteed | Bound::GuaranteedOnly => {
                        format!("{parent} is guaranteed {most}, for all projects below it together")
                    }
                })
                .try_this("give less, or ask an admin of the server")
        }
        _ => return None,
    })
}

fn above_quota(problem: Problem, bound: Bound, kind: &ResourceKind) -> Problem {
    let problem = match kind {
        ResourceKind::GpuModel(_) => {
            problem.try_this("--gpus N   (of any model), or another model")
        }
        ResourceKind::GpuPool(_) => problem.try_this("another --pool"),
        _ => problem,
    };
    let problem = match bound {
        Bound::Limit | Bound::GuaranteedOnly => {
            problem.try_this("request less, or use another --project")
        }
        Bound::Guaranteed => problem
            .try_this("--preemptible   (it can borrow idle GPUs until their owner needs them)"),
    };
    problem.try_this("--allow-unsatisfiable   (queues it until the quota is raised)")
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
