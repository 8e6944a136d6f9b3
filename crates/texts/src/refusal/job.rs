//! Refusals of actions on a job: no such job, no permission, or a wrong state.

use gpool_model::Refusal;
use gpool_model::refusal::Permitted;

use crate::hold;
use crate::problem::Problem;

pub(super) fn text(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: String| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::NotPermitted { what, by } => match by {
            Permitted::Owner => problem(format!("you may not {what}"))
                .because("only the job's owner and admins may"),
            Permitted::ProjectAdmin => problem(format!("you may not {what}"))
                .because("only admins of the server, or of a project above it, may"),
            Permitted::AdminOfProject => problem(format!("you may not {what}"))
                .because("only admins of the server, of the project, or of one above it, may"),
            Permitted::Admin => problem(format!("only an admin may {what}"))
                .because("admins are root and the user that runs the server"),
        },
        Refusal::HeldByAdmin { id, action, hold } => {
            let what = format!("you may not {action} job {id}: an admin stopped it");
            hold::because(problem(what), *id, hold.as_ref())
        }
        Refusal::CannotRunAs { user, only } => {
            problem(format!("this server can't run jobs of {user}"))
                .because(format!(
                    "it runs without root, so it can only run jobs of its own user (uid {only})"
                ))
                .try_this("gpool up   (starts a server of your own)")
        }
        Refusal::DependencyCycle { jobs } => {
            let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
            problem(format!("a job would wait for itself: {} → {}", ids.join(" → "), ids[0]))
                .try_this("gpool edit JOB --after none   (removes its dependencies)")
        }
        Refusal::DependencyNeverMet { job, state } => problem(format!(
            "the job could never start: job {job}, which it depends on, has ended: {state}"
        ))
        .try_this(format!("--after end:{job}   (accepts any end)")),
        Refusal::NotKept { id } => {
            problem(format!("the environment or script of job {id} was removed after its end"))
                .because(
                    "both are stored for a limited time after the end of a job, for `gpool retry`",
                )
                .try_this(format!("gpool show {id}   (shows the command, to submit it again)"))
        }
        Refusal::NotRequeueable { id } => problem(format!("job {id} must not run twice"))
            .because("it was submitted with --no-requeue")
            .try_this(format!("gpool edit {id} --requeue   (allows it), then repeat the command")),
        Refusal::NoSuchJob { id } => {
            problem(format!("there is no job {id}")).try_this("gpool queue --state all")
        }
        Refusal::NoSuchSecret { name } => problem(format!("you have no secret {name:?}"))
            .because("each user has secrets of their own")
            .try_this(format!("gpool secret set {name}"))
            .try_this("gpool secret list"),
        Refusal::AlreadyEnded { id, state } => {
            problem(format!("job {id} has already ended: {state}"))
                .try_this(format!("gpool show {id}"))
        }
        Refusal::WrongState { id, state, action } => {
            problem(format!("can't {action} job {id}: it is {state}"))
                .try_this(format!("gpool show {id}"))
        }
        Refusal::VersionConflict { id, expected, found } => {
            problem(format!("another request changed job {id} first"))
                .because(format!("you read version {expected}; it is now at version {found}"))
                .try_this(format!("gpool show {id}, then repeat the change if you still want it"))
        }
        // The caller knows how the user wrote the job IDs, and names the job.
        Refusal::OfJob { refusal, .. } => Problem::from(&**refusal),
        _ => return None,
    })
}
