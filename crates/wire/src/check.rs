//! Checks of single values. Other crates check whether a node can run the job and whether its user
//! may request it.

use gpool_model::escape::{is_unprintable, repeated};
use gpool_model::id::{PoolName, ProjectName, is_plain_name};
use gpool_model::job::{Dependency, DependencyKind};
use gpool_model::kind::UnknownKind;
use gpool_model::sharer::NoSuchShareWith;
use gpool_model::unit::{Bytes, MilliCpu, Millis};
use gpool_model::{JobKind, Refusal, ShareWith, parse};

use crate::amount::Quantity;

/// Maximum number of characters in a name.
pub(crate) const NAME_MAX: usize = 128;
/// Maximum number of characters in a note.
const NOTE_MAX: usize = 4096;
/// Maximum length of a path in bytes, as in the kernel.
const PATH_MAX: usize = 4095;
/// Maximum size of one argument, or one `NAME=VALUE`, in bytes, including the terminating zero.
pub(crate) const ARGUMENT_MAX: usize = 128 * 1024;
/// Maximum number of dependencies of a job, independent of the server's settings.
const AFTER_MAX: usize = 100_000;
/// Ten years.
const TIME_MAX: Millis = Millis::from_hours(10 * 365 * 24);
const GRACE_MAX: Millis = Millis::from_hours(1);
const PRIORITY_MAX: i32 = 1000;

/// Checks a new priority.
///
/// # Errors
/// [`Refusal::Invalid`] outside -1000…1000.
pub fn checked_priority(priority: i32) -> Result<i32, Refusal> {
    if (-PRIORITY_MAX..=PRIORITY_MAX).contains(&priority) {
        return Ok(priority);
    }
    Err(invalid("priority", &format!("{priority} is not between -1000 and 1000; the default is 0")))
}

/// Checks a new note; `None` if it is empty.
///
/// # Errors
/// [`Refusal::Invalid`] if it is too long or holds control characters other than a new line.
pub fn checked_note(note: &str) -> Result<Option<String>, Refusal> {
    limit("note", note.chars().count(), NOTE_MAX, "characters")?;
    if note.chars().any(|c| is_unprintable(c) && c != '\n') {
        return Err(invalid("note", "it contains control characters; leave them out"));
    }
    Ok((!note.is_empty()).then(|| note.to_owned()))
}

pub(crate) fn invalid(field: &str, why: &str) -> Refusal {
    Refusal::Invalid { field: field.to_owned(), why: why.to_owned() }
}

fn limit(field: &str, n_found: usize, most: usize, unit: &str) -> Result<(), Refusal> {
    if n_found <= most {
        return Ok(());
    }
    Err(invalid(field, &format!("it has {n_found} {unit}; the maximum is {most}")))
}

pub(crate) fn plain_line(field: &str, text: &str, most: usize) -> Result<(), Refusal> {
    limit(field, text.chars().count(), most, "characters")?;
    if text.chars().any(is_unprintable) {
        return Err(invalid(
            field,
            "it contains control characters or line breaks; leave them out",
        ));
    }
    Ok(())
}

/// Checks that a name is one printable line.
///
/// # Errors
/// [`Refusal::Invalid`] if it is empty, too long or holds control characters.
pub fn checked_name(name: &str) -> Result<String, Refusal> {
    plain_line("name", name, NAME_MAX)?;
    if name.trim().is_empty() {
        return Err(invalid("name", "it is empty; leave it out to name the job by its command"));
    }
    Ok(name.to_owned())
}

pub(crate) fn check_command(command: &[String], has_script: bool) -> Result<(), Refusal> {
    match command.first() {
        None if !has_script => {
            return Err(invalid("command", "it is empty; give a program: [\"python\", \"x.py\"]"));
        }
        Some(program) if program.is_empty() && !has_script => {
            return Err(invalid("command", "the program's name is empty"));
        }
        _ => {}
    }
    for argument in command {
        limit("command", argument.len() + 1, ARGUMENT_MAX, "bytes in one argument")?;
        if argument.contains('\0') {
            return Err(invalid(
                "command",
                "an argument contains a zero byte, which can't be passed to a program",
            ));
        }
    }
    Ok(())
}

pub(crate) fn checked_directory(directory: &str) -> Result<String, Refusal> {
    check_path("directory", directory)?;
    if !directory.starts_with('/') {
        return Err(invalid("directory", "it must be absolute: /home/ana/project"));
    }
    Ok(directory.to_owned())
}

/// Checks an optional path.
pub(crate) fn path(field: &str, path: Option<&str>) -> Result<Option<Box<str>>, Refusal> {
    path.map(|path| check_path(field, path).map(|()| Box::from(path))).transpose()
}

pub(crate) fn check_path(field: &str, path: &str) -> Result<(), Refusal> {
    limit(field, path.len(), PATH_MAX, "bytes")?;
    if path.is_empty() {
        return Err(invalid(field, "the path is empty"));
    }
    if path.contains('\0') {
        return Err(invalid(field, "the path contains a zero byte"));
    }
    Ok(())
}

pub(crate) fn check_variable(name: &[u8], value: &[u8]) -> Result<(), Refusal> {
    let shown = || String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
    if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
        return Err(invalid(
            "environment",
            &format!("{:?} is not the name of a variable", shown()),
        ));
    }
    if value.contains(&0) {
        let why = format!("the value of {:?} contains a zero byte", shown());
        return Err(invalid("environment", &why));
    }
    if name.len() + value.len() + 2 > ARGUMENT_MAX {
        let size = name.len() + value.len();
        let why = format!(
            "{:?} has {size} bytes, and the kernel accepts {} per variable; unset it, or pass the \
             value in a file",
            shown(),
            ARGUMENT_MAX - 2
        );
        return Err(invalid("environment", &why));
    }
    Ok(())
}

pub(crate) fn project(name: Option<&str>) -> Result<ProjectName, Refusal> {
    let name = name.unwrap_or("default");
    let allowed = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    if name.is_empty() || name.chars().count() > NAME_MAX || !name.chars().all(allowed) {
        let why = "a project name has only letters, digits, '.', '_', '-' and '/': vision";
        return Err(invalid("project", why));
    }
    Ok(ProjectName::new(name))
}

/// Reads the jobs that may share the job's devices.
pub(crate) fn share_with(text: Option<&str>) -> Result<Option<ShareWith>, Refusal> {
    let why = |error: NoSuchShareWith| invalid("share_with", &error.to_string());
    text.map(|text| text.parse().map_err(why)).transpose()
}

/// Checks the name of a pool.
///
/// # Errors
/// [`Refusal::Invalid`] if the name is not valid.
pub fn pool(name: &str) -> Result<PoolName, Refusal> {
    if !is_plain_name(name) {
        let why = "a pool name begins with a letter and has only letters, digits, '.', '_' and \
                   '-': batch";
        return Err(invalid("pool", why));
    }
    Ok(PoolName::new(name))
}

pub(crate) fn cpus(written: &Quantity) -> Result<MilliCpu, Refusal> {
    parse::cpus(&written.to_string()).map_err(|error| invalid("cpus", &error.to_string()))
}

pub(crate) fn memory(written: &Quantity) -> Result<Bytes, Refusal> {
    match written {
        Quantity::Whole(bytes) => Ok(Bytes::new(*bytes)),
        Quantity::Decimal(_) => {
            Err(invalid("mem", "a number of bytes must be whole; for a unit write text: \"1.5G\""))
        }
        Quantity::Text(text) => {
            parse::bytes(text).map_err(|error| invalid("mem", &error.to_string()))
        }
    }
}

pub(crate) fn span(field: &str, written: &Quantity) -> Result<Millis, Refusal> {
    let large = || invalid(field, &format!("{written} seconds is out of range"));
    match written {
        Quantity::Whole(seconds) => seconds.checked_mul(1000).map(Millis::new).ok_or_else(large),
        Quantity::Decimal(seconds) => std::time::Duration::try_from_secs_f64(*seconds)
            .ok()
            .and_then(|span| u64::try_from(span.as_millis()).ok())
            .map(Millis::new)
            .ok_or_else(large),
        Quantity::Text(text) => {
            parse::span(text).map_err(|error| invalid(field, &error.to_string()))
        }
    }
}

pub(crate) fn kind(word: &str) -> Result<JobKind, Refusal> {
    word.to_ascii_lowercase().parse().map_err(|error: UnknownKind| {
        let shown: String = word.chars().take(32).collect();
        invalid("kind", &format!("{shown:?}: {error}"))
    })
}

pub(crate) fn idle_after(written: &Quantity) -> Result<Millis, Refusal> {
    let after = match written {
        Quantity::Text(text) if text == "off" => Millis::ZERO,
        written => span("idle_after", written)?,
    };
    if after > TIME_MAX {
        return Err(invalid("idle_after", "it is at most ten years; write off for never"));
    }
    Ok(after)
}

pub(crate) fn time_limit(written: &Quantity) -> Result<Millis, Refusal> {
    let limit = span("time", written)?;
    if limit.is_zero() {
        return Err(invalid("time", "a time limit must be more than 0; leave it out for no limit"));
    }
    if limit > TIME_MAX {
        return Err(invalid(
            "time",
            "a time limit is at most ten years; leave it out for no limit",
        ));
    }
    Ok(limit)
}

pub(crate) fn grace(written: &Quantity) -> Result<Millis, Refusal> {
    let grace = span("grace", written)?;
    if grace > GRACE_MAX {
        return Err(invalid(
            "grace",
            &format!("{grace} is more than the maximum of 1h; the default is 30s"),
        ));
    }
    Ok(grace)
}

pub(crate) fn dependencies(field: &str, after: &[String]) -> Result<Vec<Dependency>, Refusal> {
    limit(field, after.len(), AFTER_MAX, "jobs")?;
    after.iter().map(|text| dependency(field, text)).collect()
}

fn dependency(field: &str, text: &str) -> Result<Dependency, Refusal> {
    let (kind, id) = match text.split_once(':') {
        None => (DependencyKind::Ok, text),
        Some(("ok", id)) => (DependencyKind::Ok, id),
        Some(("fail", id)) => (DependencyKind::Fail, id),
        Some(("end", id)) => (DependencyKind::End, id),
        Some(("each", id)) if field == "after" => (DependencyKind::Each, id),
        Some(("start", id)) if field == "after" => (DependencyKind::Start, id),
        Some(_) => {
            let start = repeated(text);
            let known = "ok:, fail:, end:, each: and start:; write ok:17";
            let why = format!("{start:?} does not begin with one of {known}");
            return Err(invalid(field, &why));
        }
    };
    let bad = |error: parse::ParseError| invalid(field, &error.to_string());
    let (id, delay) = match id.split_once('+').filter(|_| kind == DependencyKind::Start) {
        Some((id, delay)) => (id, Some(parse::span(delay).map_err(bad)?)),
        None => (id, None),
    };
    Ok(Dependency { delay, ..Dependency::new(id.parse().map_err(bad)?, kind) })
}
