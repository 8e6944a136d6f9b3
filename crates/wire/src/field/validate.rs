//! Checks of flag values. They keep the text as the user wrote it.

use gpool_model::enforcement::Enforcement;
use gpool_model::{
    Compat, GpuRequest, GroupPlace, JobPart, NodeRule, Objective, Refusal, Share, ShareWith,
    Topology, hostlist, parse,
};

use crate::problem::Problem;
use crate::{array, check, container, course, exits, gang, notify, secret};

type CheckedText = Result<String, String>;

/// Checks a GPU request.
pub(super) fn gpus(text: &str) -> CheckedText {
    checked_text(text, GpuRequest::parse(text))
}

/// Checks a list of nodes.
///
/// # Errors
/// Returns an error if the text is no list of names.
pub fn node_list(text: &str) -> CheckedText {
    checked_text(text, hostlist::nodes(text))
}

/// Checks a rule for node labels.
pub(super) fn node_rule(text: &str) -> CheckedText {
    checked_text(text, NodeRule::parse(text))
}

pub(super) fn topology(text: &str) -> CheckedText {
    checked_text(text, Topology::parse(text))
}

/// Checks a place in a group.
pub(super) fn group(text: &str) -> CheckedText {
    checked_text(text, GroupPlace::parse(text))
}

/// Checks a metric with its goal.
pub(super) fn objective(text: &str) -> CheckedText {
    checked_text(text, Objective::parse(text))
}

/// Checks a part of a job.
pub(super) fn part(text: &str) -> CheckedText {
    checked_text(text, JobPart::parse(text))
}

/// Checks a fraction of each GPU.
pub(super) fn gpu_share(text: &str) -> CheckedText {
    match Share::parse(text).map_err(|error| error.to_string())? {
        Share::Part { .. } => Ok(text.to_owned()),
        Share::Memory { .. } => {
            Err(format!("{text:?} is an amount of memory; write --gpu-memory {text}"))
        }
    }
}

/// Checks the memory of each GPU.
pub(super) fn gpu_memory(text: &str) -> CheckedText {
    match Share::parse(text) {
        Ok(Share::Memory { .. }) => Ok(text.to_owned()),
        Err(error) if text.contains(':') => Err(error.to_string()),
        Ok(Share::Part { .. }) | Err(_) => {
            let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
            not_zero(text, bytes.is_zero(), "leave --gpu-memory out for whole GPUs")
        }
    }
}

/// Checks the name of an image.
pub(super) fn image(text: &str) -> CheckedText {
    of_container(container::image(text).map(drop), text)
}

/// Checks a mount of a container.
pub(super) fn mount(text: &str) -> CheckedText {
    of_container(container::mount(text).map(drop), text)
}

/// Checks the name of a secret.
pub(super) fn secret(text: &str) -> CheckedText {
    of_container(secret::name("secrets", text).map(drop), text)
}

/// Checks a pattern of results.
pub(super) fn result_pattern(text: &str) -> CheckedText {
    crate::files::check_pattern(text).map(|()| text.to_owned())
}

/// Checks a path that must be absolute.
pub(super) fn absolute(text: &str) -> CheckedText {
    of_container(check::checked_directory(text).map(drop), text)
}

fn of_container(checked: Result<(), Refusal>, text: &str) -> CheckedText {
    match checked {
        Ok(()) => Ok(text.to_owned()),
        Err(Refusal::Invalid { why, .. }) => Err(why),
        Err(refusal) => Err(Problem::from(&refusal).detail),
    }
}

/// Checks a level of enforcement.
pub(super) fn enforce(text: &str) -> CheckedText {
    checked_text(text, text.parse::<Enforcement>())
}

/// Checks the jobs to share GPUs with.
pub(super) fn share_with(text: &str) -> CheckedText {
    checked_text(text, text.parse::<ShareWith>())
}

/// Checks the kind of a job.
pub(super) fn kind(text: &str) -> CheckedText {
    check::kind(text).map(|kind| kind.to_string()).map_err(why)
}

/// Checks the time after which a job counts as idle.
pub(super) fn idle_after(text: &str) -> CheckedText {
    check::idle_after(&text.into()).map(|_| text.to_owned()).map_err(why)
}

/// Checks a number of nodes.
pub(super) fn nodes(text: &str) -> CheckedText {
    let none = "a job needs at least one node: --nodes 1";
    range(text, gang::n_nodes(&text.into()), none)
}

/// Checks a number of tasks.
pub(super) fn tasks(text: &str) -> CheckedText {
    range(text, gang::n_tasks(&text.into()), "a job needs at least one task: --tasks 1")
}

fn range(text: &str, read: Result<(u32, u32), Refusal>, none: &str) -> CheckedText {
    match read {
        Ok((0, _)) => Err(none.to_owned()),
        Ok(_) => Ok(text.to_owned()),
        Err(refusal) => Err(why(refusal)),
    }
}

/// Checks a number of tasks per node.
pub(super) fn tasks_per_node(text: &str) -> CheckedText {
    match text.parse::<u32>() {
        Ok(1..) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not a number of tasks; write, for example, 1")),
    }
}

/// Checks a number of CPU cores.
pub(super) fn cpus(text: &str) -> CheckedText {
    let cpus = parse::cpus(text).map_err(|error| error.to_string())?;
    not_zero(text, cpus.is_zero(), "leave --cpus out to request none")
}

/// Checks an amount of memory.
pub(super) fn memory(text: &str) -> CheckedText {
    let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
    not_zero(text, bytes.is_zero(), "leave --mem out to request none")
}

/// Checks a time limit.
pub(super) fn time_limit(text: &str) -> CheckedText {
    let span = parse::span(text).map_err(|error| error.to_string())?;
    not_zero(text, span.is_zero(), "leave --time out for no limit")
}

/// Checks a time span.
///
/// # Errors
/// Returns an error if the text is no time span.
pub fn time_span(text: &str) -> CheckedText {
    checked_text(text, parse::span(text))
}

/// Checks a warning signal and its time before the end.
pub(super) fn warning(text: &str) -> CheckedText {
    course::warning(text).map(|_| text.to_owned()).map_err(why)
}

/// Checks the name of an exit (`pause`, `requeue`) and normalizes it.
pub(super) fn exit(text: &str) -> CheckedText {
    exits::exit(text).map(|exit| exit.to_string()).map_err(why)
}

/// Checks the signal that makes a job save its state.
pub(super) fn checkpoint(text: &str) -> CheckedText {
    exits::checkpoint(text).map(|_| text.to_owned()).map_err(why)
}

/// Checks how a job frees its GPUs itself.
pub(super) fn yields(text: &str) -> CheckedText {
    exits::yields(text).map(|_| text.to_owned()).map_err(why)
}

/// Checks a priority.
pub(super) fn priority(text: &str) -> CheckedText {
    let number = text.parse::<i32>().ok();
    match number.filter(|number| check::checked_priority(*number).is_ok()) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!(
            "{text:?} is not a priority; write a whole number from -1000 to 1000, higher goes first"
        )),
    }
}

/// Checks the indexes of an array.
pub(super) fn array(text: &str) -> CheckedText {
    checked_text(text, array::read_array(text))
}

/// Checks the maximum number of array elements that run at once.
pub(super) fn max_parallel(text: &str) -> CheckedText {
    match text.parse::<u32>() {
        Ok(1..) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not a number of at least 1; write, for example, 8")),
    }
}

/// Checks a whole number.
pub(super) fn count(text: &str) -> CheckedText {
    checked_text(text, text.parse::<u32>())
}

/// Checks the name of a scheduler for `--compat`, and normalizes it.
pub(super) fn compat(text: &str) -> CheckedText {
    match Compat::named(text) {
        Some(compat) => Ok(compat.as_str().to_owned()),
        None => Err(format!("{text:?} is not slurm, gflow or valohai")),
    }
}

/// Checks the name of a job.
pub(super) fn name(text: &str) -> CheckedText {
    check::checked_name(text).map_err(why)
}

/// Checks a note, which may be empty.
///
/// # Errors
/// Returns an error if the note is too long or not printable.
pub fn note(text: &str) -> CheckedText {
    check::checked_note(text).map(Option::unwrap_or_default).map_err(why)
}

/// Checks a notification rule.
///
/// # Errors
/// Returns an error if the text is no rule.
pub fn notify(text: &str) -> CheckedText {
    notify::rules(&[text.to_owned()]).map_err(why)?;
    Ok(text.to_owned())
}

/// Checks that text is not empty.
///
/// # Errors
/// Returns an error if the text is empty.
pub fn filled(text: &str) -> CheckedText {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// Returns the error without the name of the field: clap names the flag.
pub(super) fn why(refusal: Refusal) -> String {
    match refusal {
        Refusal::Invalid { why, .. } => why,
        other => Problem::from(other).detail,
    }
}

fn checked_text<T, E: ToString>(text: &str, read: Result<T, E>) -> CheckedText {
    read.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn not_zero(text: &str, is_zero: bool, instead: &str) -> CheckedText {
    if is_zero {
        Err(format!("{text:?} must be more than 0; {instead}"))
    } else {
        Ok(text.to_owned())
    }
}
