//! Reasons for limits and quotas of users and projects.

use gpool_model::Reason as R;
use gpool_model::policy::UserCap;
use gpool_model::reason::Bound;
use serde_json::{Value, json};

use super::{About, Told, about, cap_words, gpus};
use crate::kind::{amount_words, in_api_unit, kind_word};

pub(super) const ABOUT: &[About] = &[
    about(
        "not_reserved",
        "Only GPUs that are reserved are given out, and too few are reserved for it and free.",
        "an admin reserves some with gpool reserve create; gpool reserve list shows what there is",
    ),
    about(
        "quota_project",
        "Its project, or one above it, holds as much as it may, or as is guaranteed.",
        "gpool quota; a job with --preemptible may borrow what stands idle",
    ),
    about(
        "quota_user",
        "Its user runs or holds as much as one user may.",
        "it goes on when another job of that user has ended",
    ),
    about(
        "quota_user_in_project",
        "Its user runs or holds as much in the project, or in one above it, as one user may there.",
        concat!(
            "it goes on when another job of that user there has ended; ",
            "gpool project show names the cap",
        ),
    ),
    about(
        "user_slots",
        "Its user has as many task slots as one user may have (node_user_tasks_max).",
        "it starts when another job of the user ends",
    ),
];

const ONLY_RESERVED: &str = "only reserved GPUs are given out";
const ASK_TO_RESERVE: &str = "an admin can reserve more: gpool reserve create";

pub(super) fn told(reason: &R) -> Option<Told> {
    Some(match reason {
        R::UserSlots { used, most, slots } => (
            format!("its user has {used} of {slots} task slots, and one user may have {most}"),
            vec![("used", json!(used)), ("most", json!(most)), ("slots", json!(slots))],
        ),
        R::QuotaUser { what, used, most } => {
            let text = match what {
                UserCap::RunningJobs => {
                    format!("its user has {used} jobs running, and {most} are the most")
                }
                UserCap::Gpus => {
                    let [used, most] = [used, most].map(|it| crate::node::cores(*it));
                    format!("its user holds {used} GPUs, and {most} are the most")
                }
            };
            (text, of_cap(*what, *used, *most))
        }
        R::QuotaUserInProject { user, project, what, used, most } => {
            let text = format!(
                "{user} has {} in project {project}, and one user may have at most {}",
                cap_words(*what, *used),
                cap_words(*what, *most)
            );
            let mut facts = of_cap(*what, *used, *most);
            facts.extend([("user", json!(user)), ("project", json!(project))]);
            (text, facts)
        }
        R::NotReserved { reserved } => {
            let text = match reserved {
                0 => {
                    format!("{ONLY_RESERVED}, and no such GPU is reserved for it; {ASK_TO_RESERVE}")
                }
                n => format!(
                    "{ONLY_RESERVED}, and too few of the {n} {} reserved for it are free; \
                     {ASK_TO_RESERVE}",
                    gpus(u32::try_from(*n).unwrap_or(u32::MAX))
                ),
            };
            (text, vec![("reserved", json!(reserved))])
        }
        R::QuotaProject { .. } => of_project(reason)?,
        _ => return None,
    })
}

fn of_project(reason: &R) -> Option<Told> {
    let R::QuotaProject { project, kind, bound, held, asked, most } = reason else { return None };
    let facts = vec![
        ("project", json!(project)),
        ("kind", json!(kind_word(kind))),
        ("bound", json!(bound)),
        ("held", in_api_unit(kind, *held)),
        ("asked", in_api_unit(kind, *asked)),
        ("most", in_api_unit(kind, *most)),
    ];
    let [held, asked, most] = [held, asked, most].map(|it| amount_words(kind, *it));
    let text = match bound {
        Bound::Limit => format!(
            "project {project} holds {held} of at most {most}, and this asks for {asked} more"
        ),
        Bound::GuaranteedOnly => format!(
            "project {project} holds {held} of the {most} that it is guaranteed, nothing is lent \
             here, and this asks for {asked} more"
        ),
        Bound::Guaranteed => {
            let are = if asked.starts_with("1 ") { "is" } else { "are" };
            format!(
                "it can't be taken back, so it needs {asked} that {are} guaranteed; project \
                 {project} has used {held} of {most}; with --preemptible it may borrow"
            )
        }
    };
    Some((text, facts))
}

fn of_cap(what: UserCap, used: u64, most: u64) -> Vec<(&'static str, Value)> {
    let amount = |amount: u64| match what {
        UserCap::RunningJobs => json!(amount),
        UserCap::Gpus => json!(crate::node::cores(amount)),
    };
    vec![("what", json!(what)), ("used", amount(used)), ("most", amount(most))]
}
