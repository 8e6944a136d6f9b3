//! Readers of single values, with messages of their own.

use gpool_model::{Compat, GpuRequest, Millis, Refusal, Share, gpu::GpuRequestError, parse};

use gpool_wire::check::{checked_name, checked_note};
use gpool_wire::{Problem, catalogue};

use crate::failure::{self, Failure};
use crate::reference::Reference;

/// Lowest and highest priority there is; what a caller may ask for is the server's to say.
pub const PRIORITY_MAX: i32 = 1000;

/// More devices than this no node has.
const DEVICES_MAX: usize = 4096;

/// A request for GPUs, kept as written.
///
/// # Errors
/// It follows no form of the grammar.
pub fn gpus(text: &str) -> Result<String, GpuRequestError> {
    GpuRequest::parse(text).map(|_| text.to_owned())
}

/// A list of nodes, kept as written.
///
/// # Errors
/// It is no list of names.
pub fn node_list(text: &str) -> Result<String, gpool_model::ParseError> {
    gpool_model::hostlist::nodes(text).map(|_| text.to_owned())
}

/// A rule for labels of nodes, kept as written.
///
/// # Errors
/// It is none.
pub fn node_rule(text: &str) -> Result<String, gpool_model::ParseError> {
    gpool_model::NodeRule::parse(text).map(|_| text.to_owned())
}

/// A part of each GPU, kept as written.
///
/// # Errors
/// It is no part of one.
pub fn gpu_share(text: &str) -> Result<String, String> {
    match Share::parse(text).map_err(|error| error.to_string())? {
        Share::Part(_) => Ok(text.to_owned()),
        Share::Memory(_) => Err(format!("{text:?} is memory; write --gpu-memory {text}")),
    }
}

/// Memory of each GPU, kept as written.
///
/// # Errors
/// It is no amount of memory, or 0.
pub fn gpu_memory(text: &str) -> Result<String, String> {
    match Share::parse(text) {
        Ok(Share::Memory(_)) => Ok(text.to_owned()),
        Err(error) if text.contains(':') => Err(error.to_string()),
        Ok(Share::Part(_)) | Err(_) => {
            let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
            not_zero(text, bytes.is_zero(), "leave --gpu-memory out for whole GPUs")
        }
    }
}

/// A number of nodes, kept as written.
///
/// # Errors
/// It is none.
pub fn nodes(text: &str) -> Result<String, String> {
    let none = "a job runs on at least one node: --nodes 1";
    range(text, gpool_wire::gang::n_nodes(&text.into()), none)
}

/// A number of tasks, kept as written.
///
/// # Errors
/// It is none.
pub fn tasks(text: &str) -> Result<String, String> {
    range(text, gpool_wire::gang::n_tasks(&text.into()), "a job has at least one task: --tasks 1")
}

fn range(text: &str, read: Result<(u32, u32), Refusal>, none: &str) -> Result<String, String> {
    match read {
        Ok((0, _)) => Err(none.to_owned()),
        Ok(_) => Ok(text.to_owned()),
        Err(Refusal::Invalid { why, .. }) => Err(why),
        Err(refusal) => Err(Problem::from(refusal).detail),
    }
}

/// How many tasks each node gets.
///
/// # Errors
/// It is no number of at least 1.
pub fn tasks_per_node(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n @ 1..) => Ok(n),
        _ => Err(format!("{text:?} is no number of tasks, such as 1")),
    }
}

/// A number of CPU cores, kept as written.
///
/// # Errors
/// It is no number of cores, or 0.
pub fn cpus(text: &str) -> Result<String, String> {
    let cpus = parse::cpus(text).map_err(|error| error.to_string())?;
    not_zero(text, cpus.is_zero(), "leave --cpus out to book none")
}

/// An amount of memory, kept as written.
///
/// # Errors
/// It is no amount of memory, or 0.
pub fn memory(text: &str) -> Result<String, String> {
    let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
    not_zero(text, bytes.is_zero(), "leave --mem out to book none")
}

/// A time limit, kept as written.
///
/// # Errors
/// It is no length of time, or 0.
pub fn time_limit(text: &str) -> Result<String, String> {
    let span = parse::span(text).map_err(|error| error.to_string())?;
    not_zero(text, span.is_zero(), "leave --time out for no limit")
}

/// A length of time, kept as written.
///
/// # Errors
/// It is no length of time.
pub fn span_written(text: &str) -> Result<String, parse::ParseError> {
    parse::span(text).map(|_| text.to_owned())
}

/// A signal and how long before the end it is sent, kept as written.
///
/// # Errors
/// There is no such signal, or it is no length of time.
pub fn warning(text: &str) -> Result<String, String> {
    gpool_wire::course::warning(text).map(|_| text.to_owned()).map_err(why)
}

/// A way in which a job may be taken back.
///
/// # Errors
/// There is no such way.
pub fn exit(text: &str) -> Result<String, String> {
    gpool_wire::exits::exit(text).map(|exit| exit.to_string()).map_err(why)
}

/// The signal by which a job is told to save what it has, kept as written.
///
/// # Errors
/// There is no such signal, or it is no length of time.
pub fn checkpoint(text: &str) -> Result<String, String> {
    gpool_wire::exits::checkpoint(text).map(|_| text.to_owned()).map_err(why)
}

/// How often a job is run again.
///
/// # Errors
/// It is no number, or more than anybody means.
pub fn retries(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| *n <= 1000);
    number.ok_or_else(|| format!("{text:?} is not a number of retries; write 0 to 1000"))
}

/// An interval at which something is repeated.
///
/// # Errors
/// It is no length of time, or so short that it would load the server for nothing.
pub fn interval(text: &str) -> Result<Millis, String> {
    // In an interval a bare number is seconds, as in `watch`.
    let is_bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let seconds = if is_bare { format!("{text}s") } else { text.to_owned() };
    let span = parse::span(&seconds).map_err(|error| error.to_string())?;
    if span.get() < 100 {
        return Err(format!("{text:?} is too short; write, for example, 2s"));
    }
    Ok(span)
}

/// A priority.
///
/// # Errors
/// It is no whole number from -1000 to 1000.
pub fn priority(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|n: &i32| n.abs() <= PRIORITY_MAX);
    number.ok_or_else(|| {
        format!(
            "{text:?} is not a priority; write a whole number from -1000 to 1000, higher goes first"
        )
    })
}

/// The indexes of an array, kept as written.
///
/// # Errors
/// Where they are not indexes, and what is.
pub fn array(text: &str) -> Result<String, parse::ParseError> {
    gpool_wire::array::read_array(text).map(|_| text.to_owned())
}

/// How many elements of an array may run at once.
///
/// # Errors
/// It is no whole number, or 0.
pub fn max_parallel(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| format!("{text:?} is no number from 1 on; write, for example, 8"))
}

/// A parameter with its values: `lr=0.1,0.01`, or `lr=["a,b","c"]` where values hold commas.
///
/// # Errors
/// It has no name or no value.
pub fn param(text: &str) -> Result<gpool_wire::Param, String> {
    let shown: String = text.chars().take(80).collect();
    let Some((name, values)) = text.split_once('=') else {
        return Err(format!("{shown:?} has no '='; write, for example, lr=0.1,0.01"));
    };
    if !gpool_model::placeholder::is_name(name) {
        return Err(format!(
            "{shown:?}: before '=' stands a name of letters, digits and '_': lr=0.1,0.01"
        ));
    }
    if values.is_empty() {
        return Err(format!("{shown:?} has no value; write, for example, {name}=1,2"));
    }
    let listed = serde_json::from_str::<Vec<serde_json::Value>>(values).ok();
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    let values = match listed {
        Some(listed) => listed.into_iter().map(text).collect(),
        None => values.split(',').map(str::to_owned).collect(),
    };
    Ok(gpool_wire::Param { name: name.to_owned(), values })
}

/// The name of a scheduler whose variables a job may find.
///
/// # Errors
/// It is none that is known.
pub fn compat(text: &str) -> Result<String, String> {
    match Compat::named(text) {
        Some(compat) => Ok(compat.as_str().to_owned()),
        None => Err(format!("{text:?} is not slurm, gflow or valohai")),
    }
}

/// The name of a job.
///
/// # Errors
/// It is empty, too long, or can't be shown as it is.
pub fn name(text: &str) -> Result<String, String> {
    checked_name(text).map_err(why)
}

/// A note, which may be empty.
///
/// # Errors
/// It is too long, or can't be shown as it is.
pub fn note(text: &str) -> Result<String, String> {
    checked_note(text).map(Option::unwrap_or_default).map_err(why)
}

/// A note that stands behind no flag.
///
/// # Errors
/// As for [`note`].
pub fn note_alone(text: &str) -> Result<String, String> {
    note(text).map_err(|why| format!("the note: {why}"))
}

/// Who is to be told of a job, kept as written.
///
/// # Errors
/// It is no event and address.
pub fn notify(text: &str) -> Result<String, String> {
    gpool_wire::notify::rules(&[text.to_owned()]).map_err(why)?;
    Ok(text.to_owned())
}

/// Without the name of the field: the flag is named instead.
fn why(refusal: Refusal) -> String {
    match refusal {
        Refusal::Invalid { why, .. } => why,
        other => Problem::from(other).detail,
    }
}

/// References to jobs: one argument, with commas between.
///
/// # Errors
/// One of them names no job.
pub fn references(text: &str) -> Result<References, String> {
    Reference::list(text).map(References).map_err(|error| error.to_string())
}

/// References that stood in one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct References(pub Vec<Reference>);

/// GPUs of a node by index or UUID, ranges written out: `0-3`, `0,2`; or `all`.
///
/// # Errors
/// It names none, or more than a node can have.
pub fn devices(text: &str) -> failure::Result<Vec<String>> {
    let invalid = |what| Failure::new(catalogue::INVALID, format!("--gpus: {what}"));
    let is_word = |part: &&str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let parts: Vec<&str> = text.split(',').collect();
    if !parts.iter().all(is_word) {
        let failure = invalid(format!("{:?} names no GPUs", beginning(text)));
        return Err(failure.tip("--gpus 0-3, 0,2 or all"));
    }
    let mut devices = Vec::new();
    for part in parts {
        match part.split_once('-').map(|(a, b)| (a.parse::<u32>(), b.parse::<u32>())) {
            Some((Ok(first), Ok(last))) if first <= last && last - first < 1024 => {
                devices.extend((first..=last).map(|index| index.to_string()));
            }
            Some((Ok(_), Ok(_))) => {
                let failure = invalid(format!("{:?} is no range of GPUs", beginning(part)));
                return Err(failure.tip("--gpus 0-3"));
            }
            // A UUID has dashes too.
            _ => devices.push(part.to_owned()),
        }
        if devices.len() > DEVICES_MAX {
            let what = format!("{:?} names more than {DEVICES_MAX} GPUs", beginning(text));
            return Err(invalid(what).tip("--gpus all"));
        }
    }
    Ok(devices)
}

/// As much of a bad value as a message repeats.
fn beginning(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Text without control characters at its ends, not empty.
///
/// # Errors
/// It is empty.
pub fn filled(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn not_zero(text: &str, is_zero: bool, instead: &str) -> Result<String, String> {
    if is_zero { Err(format!("{text:?} is nothing; {instead}")) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_written_in_ranges() {
        assert_eq!(devices("0-2,5").as_deref(), Ok(&["0", "1", "2", "5"].map(str::to_owned)[..]));
        assert_eq!(devices("all").as_deref(), Ok(&["all".to_owned()][..]));
        assert_eq!(devices("GPU-1-2").as_deref(), Ok(&["GPU-1-2".to_owned()][..]));
        for text in ["", "0,,1", "3-1", "0-99999", "a b"] {
            assert!(devices(text).is_err(), "{text}");
        }
        let failure = devices(&["0-1023"; 5].join(",")).expect_err("more than any node has");
        assert!(failure.what().contains("more than 4096"), "{}", failure.what());
    }
}
