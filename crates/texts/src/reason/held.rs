//! The reason of a held job.

use gpool_model::Reason as R;
use serde_json::json;

use super::{About, Explanation, about};
use crate::hold;
use crate::time::Time;

pub(super) const ABOUT: &[About] = &[
    about(
        "held_by_admin",
        "An admin holds it, and only an admin can release it.",
        "ask the admin that gpool why names; gpool cancel ends the job",
    ),
    about("held_by_user", "Its user holds it.", "gpool release JOB"),
    about(
        "over_budget",
        "The budget of its project or user for this month is used up.",
        "wait for the next month, or ask an admin for a higher budget; gpool budget shows all",
    ),
    about(
        "pausing",
        "It is being paused. With GPU memory, the driver copies that to host memory first.",
        "wait; gpool events JOB shows when it is paused",
    ),
    about(
        "released",
        "It did not use its GPUs, and they were released. Its processes run on.",
        "its next GPU call, or gpool resume JOB, brings it back in queue order",
    ),
    about(
        "set_aside",
        "The scheduler's plan for it broke a rule, so the scheduler holds it and starts others.",
        "gpool release JOB tries again; an admin reports the case in alerts/ as a bug",
    ),
];

/// The text for a job that the scheduler holds.
pub const SET_ASIDE: &str = concat!(
    "held by the scheduler: its plan for this job broke a rule; ",
    "the case is in alerts/",
);

pub(super) fn explain(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::HeldByUser { since } => (
            "It is held until its user releases it".to_owned(),
            vec![("since", json!(Time(*since)))],
        ),
        R::Pausing { since } => (
            "It is being paused, and its GPUs are not free yet".to_owned(),
            vec![("since", json!(Time(*since)))],
        ),
        R::Released { since } => (
            "Its GPUs are released, because it was idle; it returns at its next GPU call"
                .to_owned(),
            vec![("since", json!(Time(*since)))],
        ),
        R::SetAside { since } => (
            format!("It is {SET_ASIDE}; gpool release tries again"),
            vec![("since", json!(Time(*since)))],
        ),
        R::OverBudget { since, by } => {
            let text = match by {
                Some(it) => format!(
                    "It is held: the budget of {} for this month is used up, {} {} of {}",
                    it.payer, it.spent, it.currency, it.budget
                ),
                None => "It is held for its budget, and is about to be released".to_owned(),
            };
            let payer = by.as_ref().map(|it| it.payer.to_string());
            (text, vec![("since", json!(Time(*since))), ("payer", json!(payer))])
        }
        R::HeldByAdmin { since, hold } => {
            let facts = vec![
                ("since", json!(Time(*since))),
                ("by", json!(hold.as_ref().map(|hold| &hold.by))),
                ("admin_of", json!(hold.as_ref().and_then(|hold| hold.project.as_ref()))),
            ];
            (hold::reason(hold.as_ref()), facts)
        }
        _ => return None,
    })
}
