//! The reason of a held job.

use gpool_model::Reason as R;
use serde_json::json;

use super::{About, Told, about};
use crate::hold;
use crate::time::Time;

pub(super) const ABOUT: &[About] = &[
    about(
        "held_by_admin",
        "An admin stopped it, and only an admin can start it.",
        "ask the admin that gpool why names; gpool cancel ends it",
    ),
    about("held_by_user", "Its user holds it.", "gpool release"),
    about(
        "path_or_image_missing",
        "A folder or file that it needs is not there.",
        "make it, or submit again with another",
    ),
    about(
        "set_aside",
        "The scheduler's plan for it broke a rule, so the scheduler holds it and starts others.",
        "gpool release tries again; an admin sends the case in alerts/ to whoever mends gpool",
    ),
];

/// The text for a job that the scheduler holds.
pub(crate) const SET_ASIDE: &str = concat!(
    "held by the scheduler: its plan for this job broke a rule, ",
    "and an admin finds the case in alerts/",
);

pub(super) fn told(reason: &R) -> Option<Told> {
    Some(match reason {
        R::HeldByUser { since } => {
            ("held by its user until released".to_owned(), vec![("since", json!(Time(*since)))])
        }
        R::SetAside { since } => (
            format!("{SET_ASIDE}; released, it is tried again"),
            vec![("since", json!(Time(*since)))],
        ),
        R::HeldByAdmin { since, hold } => {
            let facts = vec![
                ("since", json!(Time(*since))),
                ("by", json!(hold.as_ref().map(|hold| &hold.by))),
                ("admin_of", json!(hold.as_ref().and_then(|hold| hold.project.as_ref()))),
            ];
            (hold::reason(hold.as_ref()), facts)
        }
        R::PathOrImageMissing { since, node, path } => {
            let facts =
                vec![("since", json!(Time(*since))), ("node", json!(node)), ("path", json!(path))];
            (format!("held: {path} is not on {node}; released, it looks again"), facts)
        }
        _ => return None,
    })
}
