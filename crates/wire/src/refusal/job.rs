//! Refusals of actions on a job: no such job, no permission, or a wrong state.

use gpool_model::Refusal;

use crate::hold;
use crate::problem::Problem;

pub(super) fn told(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: String| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::NotPermitted { what } => problem(format!("you may not {what}"))
            .because("only a job's owner and admins may: root, and the server's own user"),
        Refusal::HeldByAdmin { id, action, hold } => {
            let what = format!("you may not {action} job {id}, which an admin stopped");
            hold::because(problem(what), *id, hold.as_ref())
        }
        Refusal::CannotRunAs { user, only } => {
            problem(format!("this server can't run jobs of {user}"))
                .because(format!("it runs without root, and so only jobs of its user (uid {only})"))
                .try_this("gpool up   (a server of your own)")
        }
        Refusal::DependencyCycle { jobs } => {
            let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
            problem(format!("a job would wait for itself: {} → {}", ids.join(" → "), ids[0]))
                .try_this("gpool edit JOB --after ''   (waits for nothing)")
        }
        Refusal::DependencyNeverMet { job, state } => {
            problem(format!("this would wait for ever: job {job} has ended already: {state}"))
                .try_this(format!("--after end:{job} accepts any end"))
        }
        Refusal::NotKept { id } => {
            problem(format!("the environment or script of job {id} was removed after its end"))
                .because("it is kept for a while after the end of a job, for `gpool retry`")
                .try_this(format!("gpool show {id}   (its command, to submit it again)"))
        }
        Refusal::NotRequeueable { id } => problem(format!("job {id} is not to be run again"))
            .because("it was submitted with --no-requeue")
            .try_this(format!("gpool edit {id} --requeue, then again")),
        Refusal::NoSuchJob { id } => {
            problem(format!("there is no job {id}")).try_this("gpool queue --state all")
        }
        Refusal::AlreadyEnded { id, state } => {
            problem(format!("job {id} has ended already: {state}"))
                .try_this(format!("gpool show {id}"))
        }
        Refusal::WrongState { id, state, action } => {
            problem(format!("can't {action} job {id}: it is {state}"))
                .try_this(format!("gpool show {id}"))
        }
        Refusal::VersionConflict { id, expected, found } => {
            problem(format!("job {id} was changed by somebody else"))
                .because(format!("you saw version {expected}; it is at version {found} now"))
                .try_this(format!("gpool show {id}, then repeat the change if it is still wanted"))
        }
        // The caller knows how the user wrote the job IDs, and names the job.
        Refusal::OfJob { refusal, .. } => Problem::from(&**refusal),
        _ => return None,
    })
}
