//! Readers of single values, with messages of their own.

use gpool_model::{GpuRequest, Millis, Refusal, gpu::GpuRequestError, parse};

use gpool_wire::Problem;
use gpool_wire::check::{checked_name, checked_note};

use crate::reference::Reference;

/// Lowest and highest priority there is; what a caller may ask for is the server's to say.
pub const PRIORITY_MAX: i32 = 1000;

/// A request for GPUs, kept as written.
///
/// # Errors
/// It follows no form of the grammar.
pub fn gpus(text: &str) -> Result<String, GpuRequestError> {
    GpuRequest::parse(text).map(|_| text.to_owned())
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
