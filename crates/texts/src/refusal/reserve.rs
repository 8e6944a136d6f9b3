//! Refusals of reservations, drains and removals of nodes.

use gpool_model::{JobId, NodeName, Refusal, ReservationName};

use crate::problem::Problem;
use crate::reason::request_words;
use crate::touched;

pub(super) fn text(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: String| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::NoSuchReservation { name, names } => {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            problem(format!("there is no reservation {:?}", name.as_str()))
                .because(format!("there are: {there}"))
                .try_this("gpool reserve list")
        }
        Refusal::ReservationExists { name } => problem(format!(
            "reservation {name} already exists"
        ))
        .try_this(format!("gpool reserve edit {name}   (changes it), or use another --name")),
        Refusal::ReservationClash { other, beneficiary: whom, node, index, from, until } => {
            problem(format!(
                "reservation {other} overlaps: it has the same GPUs or nodes at that time"
            ))
            .because(touched::clash(whom, node, *index, *from, *until))
            .try_this(format!("gpool reserve show {other}, then choose another time or other GPUs"))
        }
        Refusal::NotEnoughToReserve { asked, most, spread } => {
            let asked = request_words(asked);
            match spread {
                true => problem(format!("can't reserve {asked}"))
                    .because(format!("at most {most} can be reserved then, on all nodes together"))
                    .try_this("gpool reserve list   (shows the other reservations)"),
                false => problem(format!("can't reserve {asked} on one node"))
                    .because(format!("at most {most} can be reserved then on one node"))
                    .try_this("--spread   (takes them from several nodes)"),
            }
        }
        Refusal::TooManyReservations { most } => {
            problem(format!("there are already {most} reservations, the maximum"))
                .try_this("gpool reserve cancel NAME   (cancels one that is not needed)")
        }
        Refusal::AffectsOthers { action, affected } => touched::affects(
            problem(format!(
                "{action}: nothing changed yet, because it affects running or waiting jobs"
            )),
            affected,
        ),
        Refusal::NotDrained { what } => problem(format!("{what} is not drained"))
            .try_this("gpool nodes   (shows the drained nodes and GPUs)"),
        Refusal::NodeAnswers { name } => problem(format!("{name} can't be removed: it answers"))
            .try_this(format!("gpool drain {name} --reason TEXT   (then remove it)")),
        Refusal::NodeInUse { name, jobs, reservations } => {
            node_in_use(problem(format!("{name} can't be removed yet")), name, jobs, reservations)
        }
        _ => return None,
    })
}

fn node_in_use(
    problem: Problem,
    name: &NodeName,
    jobs: &[JobId],
    reservations: &[ReservationName],
) -> Problem {
    /// The most objects that a message names.
    const MOST: usize = 10;
    let list = |all: Vec<String>| match all.get(..MOST) {
        Some(some) if all.len() > MOST => {
            format!("{} and {} more", some.join(", "), all.len() - MOST)
        }
        _ => all.join(", "),
    };
    let problem = match jobs {
        [] => problem,
        _ => problem
            .because(format!(
                "jobs may still run there: {}",
                list(jobs.iter().map(ToString::to_string).collect())
            ))
            .try_this(format!(
                "gpool nodes remove {name} --off   (only if its machine is off for good)"
            )),
    };
    match reservations {
        [] => problem,
        [first, ..] => problem
            .because(format!(
                "reservations name it: {}",
                list(reservations.iter().map(ToString::to_string).collect())
            ))
            .try_this(format!("gpool reserve cancel {first}")),
    }
}
