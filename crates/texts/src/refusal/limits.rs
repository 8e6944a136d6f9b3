//! Refusals of invalid values, and of values above a user's limits.

use gpool_model::Refusal;
use gpool_model::policy::UserCap;

use crate::problem::Problem;
use crate::reason::cap_words;

pub(super) fn text(refusal: &Refusal) -> Option<Problem> {
    const UNTIL: &str = "--allow-unsatisfiable   (queues it until the cap is raised)";
    let problem = |what: String| Problem::new(refusal.code(), what);
    let more =
        |n_found: &u64, n_asked: &u64| format!("you have {n_found}; this would add {n_asked}");
    Some(match refusal {
        Refusal::Invalid { field, why } => problem(format!("{field}: {why}")),
        Refusal::TooLarge { what, most } => {
            problem(format!("{what} is too large; the maximum is {most}"))
        }
        Refusal::TooManyJobs { n_found, n_asked, most } => problem(format!(
            "a user may have at most {most} jobs that have not ended"
        ))
        .because(more(n_found, n_asked))
        .try_this(
            "gpool queue   (cancel jobs that you do not need, or wait until some have ended)",
        ),
        Refusal::TooMuchStored { n_kept, n_more, most } => {
            problem(format!("a user may store at most {most} of environments and scripts for jobs"))
                .because(format!("your jobs have {n_kept} stored; this would add {n_more}"))
                .because("those of ended jobs are kept for a limited time, for `gpool retry`")
                .try_this("--clean-env, or pass large data to jobs in files")
        }
        Refusal::TooManyDependencies { n_found, n_asked, most } => {
            let problem = match n_found {
                None => problem(format!("a job may wait for at most {most} other jobs"))
                    .because(format!("it has {n_asked} dependencies")),
                Some(n_found) => problem(format!(
                    "all jobs of a user together may have at most {most} dependencies"
                ))
                .because(format!("your jobs have {n_found}; this would add {n_asked}")),
            };
            problem.try_this("gpool help GP0522   (describes how to use fewer)")
        }
        Refusal::UserCap { n_found, n_asked, most, project } => {
            let place = project.as_ref().map(|it| format!(" in project {it}")).unwrap_or_default();
            problem(format!("a user may have at most {most} waiting jobs{place}"))
                .because(more(n_found, n_asked))
                .try_this(
                    "gpool queue   (cancel jobs that you do not need, or wait until some start)",
                )
        }
        Refusal::AboveUserCap { user, project, what, asked, most } => {
            let place = project.as_ref().map(|it| format!(" in project {it}")).unwrap_or_default();
            let [asked, cap] = [asked, most].map(|amount| cap_words(*what, *amount));
            let problem = problem(format!(
                "this could never run: it needs {asked}, and {user} may have at most {cap}{place}"
            ));
            let problem = match what {
                UserCap::RunningJobs => problem.because("a cap of 0 lets no job run"),
                UserCap::Gpus => problem.try_this(format!("--gpus {}", crate::words::cores(*most))),
            };
            problem.try_this(UNTIL)
        }
        Refusal::ExtendTooLong { asked, most } => problem(match asked {
            Some(asked) => format!("you may not add {asked} to the time limit of a running job"),
            None => "you may not remove the time limit of a running job".to_owned(),
        })
        .because(format!("the owner of a running job may add at most {most} in total"))
        .try_this("ask an admin to run: gpool extend JOB --to 8h"),
        Refusal::PriorityTooHigh { asked, most } => {
            problem(format!("priority {asked} is higher than users may set"))
                .because(format!("the highest priority for users is {most}"))
                .try_this(format!("--priority {most}"))
        }
        _ => return None,
    })
}
