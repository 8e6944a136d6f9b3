//! Refusals of reservations and drains.

use gpool_model::Refusal;

use crate::problem::Problem;
use crate::reason::request_words;
use crate::touched;

pub(super) fn told(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: String| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::NoSuchReservation { name, names } => {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            problem(format!("there is no reservation {:?}", name.as_str()))
                .because(format!("there are: {there}"))
                .try_this("gpool reserve list")
        }
        Refusal::ReservationExists { name } => {
            problem(format!("there is a reservation {name} already"))
                .try_this(format!("gpool reserve edit {name}   (changes it), or another --name"))
        }
        Refusal::ReservationClash { other, whom, node, index, from, until } => {
            problem(format!("reservation {other} keeps the same for somebody else at that time"))
                .because(touched::clash(whom, node, *index, *from, *until))
                .try_this(format!("gpool reserve show {other}, then another time or other GPUs"))
        }
        Refusal::NotEnoughToReserve { asked, most, spread } => {
            let asked = request_words(asked);
            match spread {
                true => problem(format!("there is not as much to reserve: {asked}"))
                    .because(format!("{most} can be reserved, on all nodes together"))
                    .try_this("gpool reserve list   (what is kept for others)"),
                false => problem(format!("there is not as much to reserve: {asked} on one node"))
                    .because(format!("the most that can be reserved on one node is {most}"))
                    .try_this("--spread takes them from several nodes"),
            }
        }
        Refusal::TooManyReservations { most } => {
            problem(format!("there are {most} reservations, as many as there may be"))
                .try_this("gpool reserve cancel NAME   (of those that are not needed)")
        }
        Refusal::AffectsOthers { action, affected } => touched::affects(
            problem(format!("nothing changed yet: to {action} touches the work of others")),
            affected,
        ),
        Refusal::NotDrained { what } => {
            problem(format!("{what} is not drained")).try_this("gpool nodes   (what is drained)")
        }
        _ => return None,
    })
}
