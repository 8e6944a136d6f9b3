//! Refusals of invalid values, and of values above a user's limits.

use gpool_model::Refusal;
use gpool_model::policy::UserCap;

use crate::problem::Problem;
use crate::reason::cap_words;

pub(super) fn told(refusal: &Refusal) -> Option<Problem> {
    const UNTIL: &str = "--allow-unsatisfiable queues it until the cap is another";
    let problem = |what: String| Problem::new(refusal.code(), what);
    let more =
        |n_found: &u64, n_asked: &u64| format!("you have {n_found}, and this would add {n_asked}");
    Some(match refusal {
        Refusal::Invalid { field, why } => problem(format!("{field}: {why}")),
        Refusal::TooLarge { what, most } => {
            problem(format!("{what} is too large; the most is {most}"))
        }
        Refusal::TooManyJobs { n_found, n_asked, most } => {
            problem(format!("one user may have {most} jobs that have not ended"))
                .because(more(n_found, n_asked))
                .try_this(
                    "gpool queue   (cancel what is not needed, or wait until some have ended)",
                )
        }
        Refusal::TooMuchStored { n_kept, n_more, most } => {
            problem(format!("one user may have {most} of environments and scripts stored for jobs"))
                .because(format!("{n_kept} are stored for your jobs, and this would add {n_more}"))
                .because("what ended jobs had is kept for a while, for `gpool retry`")
                .try_this("--clean-env, or large data in files that jobs read")
        }
        Refusal::TooManyDependencies { n_found, n_asked, most } => {
            let problem = match n_found {
                None => problem(format!("one job may wait for {most} others"))
                    .because(format!("it names {n_asked}")),
                Some(n_found) => {
                    problem(format!("the jobs of one user may name {most} dependencies together"))
                        .because(format!("your jobs name {n_found}, and this would add {n_asked}"))
                }
            };
            problem.try_this("gpool help GP0522   (wait for an array, or in several steps)")
        }
        Refusal::UserCap { n_found, n_asked, most, project } => {
            let place = project.as_ref().map(|it| format!(" in project {it}")).unwrap_or_default();
            problem(format!("one user may have {most} jobs that wait{place}"))
                .because(more(n_found, n_asked))
                .try_this("gpool queue   (cancel what is not needed, or wait until some start)")
        }
        Refusal::AboveUserCap { user, project, what, asked, most } => {
            let place = project.as_ref().map(|it| format!(" in project {it}")).unwrap_or_default();
            let [asked, cap] = [asked, most].map(|amount| cap_words(*what, *amount));
            let problem = problem(format!(
                "this could never run: it is {asked}, and {user} may have at most {cap}{place}"
            ));
            let problem = match what {
                UserCap::RunningJobs => problem.because("nobody may run anything while that is 0"),
                UserCap::Gpus => problem.try_this(format!("--gpus {}", crate::node::cores(*most))),
            };
            problem.try_this(UNTIL)
        }
        Refusal::ExtendTooLong { asked, most } => problem(match asked {
            Some(asked) => format!("{asked} more is more than you may add to a job that runs"),
            None => "you may not take the limit off a job that runs".to_owned(),
        })
        .because(format!("users may add {most} in all to a job that runs"))
        .try_this("ask an admin: gpool extend JOB --to 8h"),
        Refusal::PriorityTooHigh { asked, most } => {
            problem(format!("priority {asked} is higher than you may ask for"))
                .because(format!("users may ask for at most {most}"))
                .try_this("--prio 0")
        }
        _ => return None,
    })
}
