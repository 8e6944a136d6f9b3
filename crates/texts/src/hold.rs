//! Texts for jobs that an admin holds.

use gpool_model::{AdminHold, JobId};

use crate::problem::Problem;

/// Returns why such a job does not start or continue.
pub fn reason(hold: Option<&AdminHold>) -> String {
    format!("It is held by {}; only {} can release it", admin(hold), starters(hold))
}

/// Returns why such a paused job does not continue.
pub fn paused(why: &str, since: &str, hold: Option<&AdminHold>) -> String {
    format!(
        "It is {why}, since {since}, and held by {}; only {} can resume it",
        admin(hold),
        starters(hold)
    )
}

/// Adds the reason and the way out to a refusal to start such a job.
pub fn because(problem: Problem, id: JobId, hold: Option<&AdminHold>) -> Problem {
    let ask = hold.map_or_else(|| "an admin".to_owned(), |hold| hold.by.to_string());
    problem
        .because(format!("it is held by {}; only {} can start it", admin(hold), starters(hold)))
        .try_this(format!("ask {ask} to run: gpool release {id}"))
        .try_this(format!("gpool cancel {id}   (its owner can always end it)"))
}

fn admin(hold: Option<&AdminHold>) -> String {
    match hold {
        None => "an admin".to_owned(),
        Some(AdminHold { by, project: None }) => format!("admin {by}"),
        Some(AdminHold { by, project: Some(project) }) => {
            format!("{by}, an admin of project {project}")
        }
    }
}

fn starters(hold: Option<&AdminHold>) -> String {
    match hold.and_then(|hold| hold.project.as_ref()) {
        None => "an admin".to_owned(),
        Some(project) => format!("an admin of project {project} or of the server"),
    }
}
