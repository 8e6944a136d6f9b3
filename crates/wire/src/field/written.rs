//! Values of flags, checked and kept as they were written.

use gpool_model::{Compat, GpuRequest, NodeRule, Refusal, Share, hostlist, parse};

use crate::problem::Problem;
use crate::{array, check, course, exits, gang, notify};

type Kept = Result<String, String>;

/// A request for GPUs.
pub(super) fn gpus(text: &str) -> Kept {
    kept(text, GpuRequest::parse(text))
}

/// A list of nodes.
///
/// # Errors
/// It is no list of names.
pub fn node_list(text: &str) -> Kept {
    kept(text, hostlist::nodes(text))
}

/// A rule for labels of nodes.
pub(super) fn node_rule(text: &str) -> Kept {
    kept(text, NodeRule::parse(text))
}

/// A part of each GPU.
pub(super) fn gpu_share(text: &str) -> Kept {
    match Share::parse(text).map_err(|error| error.to_string())? {
        Share::Part(_) => Ok(text.to_owned()),
        Share::Memory(_) => Err(format!("{text:?} is memory; write --gpu-memory {text}")),
    }
}

/// Memory of each GPU.
pub(super) fn gpu_memory(text: &str) -> Kept {
    match Share::parse(text) {
        Ok(Share::Memory(_)) => Ok(text.to_owned()),
        Err(error) if text.contains(':') => Err(error.to_string()),
        Ok(Share::Part(_)) | Err(_) => {
            let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
            not_zero(text, bytes.is_zero(), "leave --gpu-memory out for whole GPUs")
        }
    }
}

/// A number of nodes.
pub(super) fn nodes(text: &str) -> Kept {
    let none = "a job runs on at least one node: --nodes 1";
    range(text, gang::n_nodes(&text.into()), none)
}

/// A number of tasks.
pub(super) fn tasks(text: &str) -> Kept {
    range(text, gang::n_tasks(&text.into()), "a job has at least one task: --tasks 1")
}

fn range(text: &str, read: Result<(u32, u32), Refusal>, none: &str) -> Kept {
    match read {
        Ok((0, _)) => Err(none.to_owned()),
        Ok(_) => Ok(text.to_owned()),
        Err(refusal) => Err(why(refusal)),
    }
}

/// A number of tasks of each node.
pub(super) fn tasks_per_node(text: &str) -> Kept {
    match text.parse::<u32>() {
        Ok(1..) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is no number of tasks, such as 1")),
    }
}

/// A number of CPU cores.
pub(super) fn cpus(text: &str) -> Kept {
    let cpus = parse::cpus(text).map_err(|error| error.to_string())?;
    not_zero(text, cpus.is_zero(), "leave --cpus out to book none")
}

/// An amount of memory.
pub(super) fn memory(text: &str) -> Kept {
    let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
    not_zero(text, bytes.is_zero(), "leave --mem out to book none")
}

/// A time limit.
pub(super) fn time_limit(text: &str) -> Kept {
    let span = parse::span(text).map_err(|error| error.to_string())?;
    not_zero(text, span.is_zero(), "leave --time out for no limit")
}

/// A length of time.
///
/// # Errors
/// It is no length of time.
pub fn span_written(text: &str) -> Kept {
    kept(text, parse::span(text))
}

/// A signal and how long before the end it is sent.
pub(super) fn warning(text: &str) -> Kept {
    course::warning(text).map(|_| text.to_owned()).map_err(why)
}

/// The name of an exit (`pause`, `requeue`), in its usual form.
pub(super) fn exit(text: &str) -> Kept {
    exits::exit(text).map(|exit| exit.to_string()).map_err(why)
}

/// The signal that makes a job save its state.
pub(super) fn checkpoint(text: &str) -> Kept {
    exits::checkpoint(text).map(|_| text.to_owned()).map_err(why)
}

/// A priority.
pub(super) fn priority(text: &str) -> Kept {
    let number = text.parse::<i32>().ok();
    match number.filter(|number| check::checked_priority(*number).is_ok()) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!(
            "{text:?} is not a priority; write a whole number from -1000 to 1000, higher goes first"
        )),
    }
}

/// The indexes of an array.
pub(super) fn array(text: &str) -> Kept {
    kept(text, array::read_array(text))
}

/// How many elements of an array may run at once.
pub(super) fn max_parallel(text: &str) -> Kept {
    match text.parse::<u32>() {
        Ok(1..) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is no number from 1 on; write, for example, 8")),
    }
}

/// A whole number.
pub(super) fn count(text: &str) -> Kept {
    kept(text, text.parse::<u32>())
}

/// The name of a scheduler that gpool sets variables of, in its usual form.
pub(super) fn compat(text: &str) -> Kept {
    match Compat::named(text) {
        Some(compat) => Ok(compat.as_str().to_owned()),
        None => Err(format!("{text:?} is not slurm, gflow or valohai")),
    }
}

/// The name of a job.
pub(super) fn name(text: &str) -> Kept {
    check::checked_name(text).map_err(why)
}

/// A note, which may be empty.
///
/// # Errors
/// It is too long, or can't be shown as it is.
pub fn note(text: &str) -> Kept {
    check::checked_note(text).map(Option::unwrap_or_default).map_err(why)
}

/// Events of a job and the address that gets them.
///
/// # Errors
/// It is no event and address.
pub fn notify(text: &str) -> Kept {
    notify::rules(&[text.to_owned()]).map_err(why)?;
    Ok(text.to_owned())
}

/// Text that is not empty.
///
/// # Errors
/// It is empty.
pub fn filled(text: &str) -> Kept {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// The reason without the name of the field: the flag is named instead.
fn why(refusal: Refusal) -> String {
    match refusal {
        Refusal::Invalid { why, .. } => why,
        other => Problem::from(other).detail,
    }
}

fn kept<T, E: ToString>(text: &str, read: Result<T, E>) -> Kept {
    read.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn not_zero(text: &str, is_zero: bool, instead: &str) -> Kept {
    if is_zero { Err(format!("{text:?} is nothing; {instead}")) } else { Ok(text.to_owned()) }
}
