//! Reasons for limits and quotas of users and projects.

use gpool_model::policy::UserCap;
use gpool_model::reason::Bound;
use gpool_model::{ProjectName, Reason as R, ResourceKind};
use serde_json::{Value, json};

use super::{About, Explanation, about, gpus};
use crate::kind::{amount_words, in_api_unit, kind_word};

pub(super) const ABOUT: &[About] = &[
    about(
        "not_reserved",
        "Only reserved GPUs are used, and too few of the GPUs reserved for it are free.",
        "an admin reserves GPUs with gpool reserve create; gpool reserve list shows them",
    ),
    about(
        "quota_project",
        "Its project, or one above it, has reached its limit or uses its whole guarantee.",
        "gpool quota; a job with --preemptible may borrow idle GPUs of other projects",
    ),
    about(
        "quota_user",
        "Its user has reached the limit for one user.",
        "it starts when another job of the user has ended; an admin can raise the limit",
    ),
    about(
        "quota_user_in_project",
        "Its user has reached the limit for one user in the project, or in one above it.",
        concat!(
            "it starts when another job of the user there has ended; ",
            "gpool project show has the limit",
        ),
    ),
    about(
        "user_slots",
        "Its user has reached the limit of task slots for one user (node_user_tasks_max).",
        "it starts when another job of the user ends",
    ),
];

const ONLY_RESERVED: &str = "Only reserved GPUs are used here";
const ASK_TO_RESERVE: &str = "an admin can reserve more with gpool reserve create";

pub(super) fn explain(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::UserSlots { used, most, slots } => (
            format!(
                "Its user has {used} of {slots} task slots, and the limit for one user is {most}"
            ),
            vec![("used", json!(used)), ("most", json!(most)), ("slots", json!(slots))],
        ),
        R::QuotaUser { what, used, most } => {
            let held = held_words(*what, *used, *most);
            let text = format!("Its user {held}, their limit (set by an admin)");
            (text, of_cap(*what, *used, *most))
        }
        R::QuotaUserInProject { user, project, what, used, most } => {
            let held = held_words(*what, *used, *most);
            let text = format!(
                "Its user {held} in project {project}, their limit there (set by an admin)"
            );
            let mut facts = of_cap(*what, *used, *most);
            facts.extend([("user", json!(user)), ("project", json!(project))]);
            (text, facts)
        }
        R::NotReserved { reserved } => {
            let text = match reserved {
                0 => {
                    format!("{ONLY_RESERVED}, and none is reserved for it; {ASK_TO_RESERVE}")
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

fn of_project(reason: &R) -> Option<Explanation> {
    let R::QuotaProject { project, kind, bound, held, asked, most } = reason else { return None };
    let facts = vec![
        ("project", json!(project)),
        ("kind", json!(kind_word(kind))),
        ("bound", json!(bound)),
        ("held", in_api_unit(kind, *held)),
        ("asked", in_api_unit(kind, *asked)),
        ("most", in_api_unit(kind, *most)),
    ];
    let text = match bound {
        Bound::Limit => {
            let [held, asked, most] = [held, asked, most].map(|it| amount_words(kind, *it));
            format!(
                "Project {project} uses {held}, its limit is {most}, and this job needs {asked}"
            )
        }
        Bound::GuaranteedOnly => {
            let all = format!("Project {project} uses");
            let used = guarantee_words((project, all.as_str()), kind, [*held, *asked, *most]);
            format!("{used}; projects do not lend here")
        }
        Bound::Guaranteed => {
            let jobs = format!("Non-preemptible jobs of project {project} use");
            let used = guarantee_words((project, jobs.as_str()), kind, [*held, *asked, *most]);
            format!("{used}; with --preemptible it can borrow idle capacity")
        }
    };
    Some((text, facts))
}

/// Describes the use of a guarantee: `vision's 2 guaranteed GPUs are in use`. The project comes
/// with the beginning of a sentence about a part of it.
fn guarantee_words(
    (project, users): (&ProjectName, &str),
    kind: &ResourceKind,
    [held, asked, most]: [u64; 3],
) -> String {
    if most == 0 {
        return format!("Project {project} has no guaranteed {kind}");
    }
    let words = amount_words(kind, most);
    let guaranteed = match words.split_once(' ') {
        Some((n, noun)) if !words.contains(" of ") => format!("{n} guaranteed {noun}"),
        _ => format!("guaranteed {words}"),
    };
    if held >= most {
        let are = if words.starts_with("1 ") || words.contains(" of ") { "is" } else { "are" };
        return format!("{project}'s {guaranteed} {are} in use");
    }
    let [held, asked] = [held, asked].map(|it| amount_words(kind, it));
    format!("{users} {held} of its {guaranteed}, and this job needs {asked}")
}

/// Describes the use of a user's limit: `holds 1 GPU`, `holds 2.5 of 3 GPUs`, `runs 2 jobs`.
fn held_words(what: UserCap, used: u64, most: u64) -> String {
    match what {
        UserCap::RunningJobs if used == 1 => "runs 1 job".to_owned(),
        UserCap::RunningJobs => format!("runs {used} jobs"),
        UserCap::Gpus if used == most => {
            format!("holds {}", amount_words(&ResourceKind::Gpu, used))
        }
        UserCap::Gpus => {
            let most = amount_words(&ResourceKind::Gpu, most);
            format!("holds {} of {most}", crate::words::cores(used))
        }
    }
}

fn of_cap(what: UserCap, used: u64, most: u64) -> Vec<(&'static str, Value)> {
    let amount = |amount: u64| match what {
        UserCap::RunningJobs => json!(amount),
        UserCap::Gpus => json!(crate::words::cores(amount)),
    };
    vec![("what", json!(what)), ("used", amount(used)), ("most", amount(most))]
}
