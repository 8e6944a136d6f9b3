//! From a job as it was written to a job whose every field is valid by itself. Whether it can run
//! anywhere, and whether its user may ask for it, is decided where the cluster is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpool_model::array::{ArrayValues, ValuesRef};
use gpool_model::command::NewJob;
use gpool_model::id::{PoolName, ProjectName, is_plain_name};
use gpool_model::job::{BlobId, Dependency, DependencyKind};
use gpool_model::notify::NotifyRule;
use gpool_model::said::{is_unprintable, repeated};
use gpool_model::unit::{Bytes, MilliCpu, Millis};
use gpool_model::{JobRequest, Refusal, parse};

use crate::amount::Written;
use crate::array::ArrayAsked;
use crate::course;
use crate::create::{JobCreate, ScriptText};
use crate::field::fields;
use crate::launch;

/// Characters of a name.
pub(crate) const NAME_MAX: usize = 128;
/// Characters of a note.
const NOTE_MAX: usize = 4096;
/// Bytes of a path, as the kernel counts them.
const PATH_MAX: usize = 4095;
/// Bytes of one argument, or of one `NAME=VALUE`, ending zero included.
/// Source: `MAX_ARG_STRLEN` in Linux's `include/uapi/linux/binfmts.h`.
pub(crate) const ARGUMENT_MAX: usize = 128 * 1024;
/// Jobs that one may name to wait for, whatever the server's settings allow.
const AFTER_MAX: usize = 100_000;
/// Ten years.
const TIME_MAX: Millis = Millis::from_hours(10 * 365 * 24);
const GRACE_MAX: Millis = Millis::from_hours(1);
const PRIORITY_MAX: i32 = 1000;

/// A job whose every field is valid by itself, and what is stored beside its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedJob {
    // Invariant: its blobs are empty until `into_new_job` names them.
    job: NewJob,
    /// What prepares it, as a job of its own.
    setup: Option<Box<NewJob>>,
    /// A script to store.
    pub script: Option<Script>,
    /// What the elements of an array are given, to store.
    pub values: Option<ArrayValues>,
    /// Environment to store, by name.
    pub environment: BTreeMap<Vec<u8>, Vec<u8>>,
    /// File mode creation mask to store.
    pub umask: Option<u32>,
}

/// A script that can be run as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The name of its file.
    pub name: String,
    /// What it says.
    pub bytes: Vec<u8>,
}

impl CheckedJob {
    /// Names the blob in which what [`CheckedJob::values`] holds was stored.
    pub fn name_values(&mut self, blob: BlobId) {
        let values = self.values.take();
        if let (Some(array), Some(n_rows)) =
            (&mut self.job.array, values.and_then(|values| values.n_rows()))
        {
            array.values = Some(ValuesRef { blob, n_rows });
        }
    }

    /// The job, with the names under which its context and script were stored.
    #[must_use]
    pub fn into_new_job(self, context: BlobId, script: Option<BlobId>) -> NewJob {
        NewJob { context, script, ..self.job }
    }

    /// The same, after the job that prepares it if there is one.
    #[must_use]
    pub fn into_new_jobs(mut self, context: BlobId, script: Option<BlobId>) -> Vec<NewJob> {
        let setup = self.setup.take();
        let setup = setup.map(|setup| NewJob { context: context.clone(), ..*setup });
        setup.into_iter().chain([self.into_new_job(context, script)]).collect()
    }

    /// Whether another job prepares it.
    #[must_use]
    pub fn has_setup(&self) -> bool {
        self.setup.is_some()
    }

    /// The job, with those who are told of it.
    #[must_use]
    pub fn told_to(mut self, rules: &[NotifyRule]) -> Self {
        self.job.standing.notify = rules.to_vec();
        self
    }
}

impl Script {
    /// Takes bytes that can be run as a script.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if they begin with no `#!` line, or are no text.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, Refusal> {
        const HEAD: usize = 8192;
        plain_line("script name", name, 255)?;
        if name.is_empty() || name.contains('/') {
            return Err(invalid("script name", "it is a file's name without folders: train.sh"));
        }
        if bytes.iter().take(HEAD).any(|byte| *byte == 0) {
            let why = "it is binary; to run a program, give it as a command: -- ./program";
            return Err(invalid("script", why));
        }
        if !bytes.starts_with(b"#!") {
            let why = "it does not say what runs it; begin it with a line such as #!/bin/bash";
            return Err(invalid("script", why));
        }
        Ok(Self { name: name.to_owned(), bytes })
    }
}

impl JobCreate {
    /// Checks each field by itself. A job that says no directory runs in `home`.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field, what is wrong, and an example of what is right.
    pub fn check(&self, home: &str) -> Result<CheckedJob, Refusal> {
        let script = self.script.as_ref().map(read_script).transpose()?;
        check_command(&self.command, script.is_some() || self.launcher.is_some())?;
        let name = Arc::from(derived_name(script.as_ref(), &self.command));
        let mut request = JobRequest { name, ..JobRequest::default() };
        for field in fields() {
            (field.apply)(self, &mut request)?;
        }
        if self.directory.is_none() {
            request.directory = checked_directory(home)?;
        }
        course::check_warning(&request)?;
        let ArrayAsked { array, values, max_parallel } = self.checked_array()?;
        if max_parallel.is_some() {
            request.standing.max_parallel = max_parallel;
        }
        request.array = array;
        let has_file =
            [&request.stdin, &request.stdout, &request.stderr].iter().any(|it| it.is_some());
        if request.pty.is_some() && has_file {
            let why = "a job on a terminal reads and writes there; leave stdin, stdout and stderr \
                       out";
            return Err(invalid("pty", why));
        }
        let job = NewJob { after_setup: self.setup.is_some(), ..NewJob::from(request) };
        let setup = self.setup.as_ref().map(|setup| launch::setup_of(&job, setup)).transpose()?;
        let setup = setup.map(Box::new);
        let umask = self.umask.map(checked_umask).transpose()?;
        Ok(CheckedJob {
            job,
            setup,
            script,
            values,
            environment: self.environment_entries()?,
            umask,
        })
    }

    /// The environment by name, as bytes.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for a name or value that no process can be given.
    pub fn environment_entries(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Refusal> {
        let mut entries = BTreeMap::new();
        if let Some(text) = &self.environment_bytes {
            let bad = |why: &str| invalid("environment_bytes", why);
            let bytes = STANDARD.decode(text).map_err(|error| bad(&error.to_string()))?;
            for entry in bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
                let equals = entry.iter().position(|byte| *byte == b'=');
                let equals = equals.ok_or_else(|| bad("an entry is not NAME=VALUE"))?;
                let (name, value) = (&entry[..equals], &entry[equals + 1..]);
                check_variable(name, value)?;
                entries.insert(name.to_vec(), value.to_vec());
            }
        }
        for (name, value) in &self.environment {
            check_variable(name.as_bytes(), value.as_bytes())?;
            entries.insert(name.clone().into_bytes(), value.clone().into_bytes());
        }
        Ok(entries)
    }
}

/// Checks a new priority.
///
/// # Errors
/// [`Refusal::Invalid`] outside -1000…1000.
pub fn checked_priority(priority: i32) -> Result<i32, Refusal> {
    if (-PRIORITY_MAX..=PRIORITY_MAX).contains(&priority) {
        return Ok(priority);
    }
    Err(invalid("priority", &format!("{priority} is not between -1000 and 1000; 0 is the usual")))
}

/// Checks a new note; `None` if it is empty.
///
/// # Errors
/// [`Refusal::Invalid`] if it is too long or holds control characters other than a new line.
pub fn checked_note(note: &str) -> Result<Option<String>, Refusal> {
    limit("note", note.chars().count(), NOTE_MAX, "characters")?;
    if note.chars().any(|c| is_unprintable(c) && c != '\n') {
        return Err(invalid("note", "it holds control characters; leave them out: after the demo"));
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
    Err(invalid(field, &format!("it has {n_found} {unit}, and {most} are the most")))
}

fn plain_line(field: &str, text: &str, most: usize) -> Result<(), Refusal> {
    limit(field, text.chars().count(), most, "characters")?;
    if text.chars().any(is_unprintable) {
        return Err(invalid(field, "it holds control characters or line breaks; leave them out"));
    }
    Ok(())
}

/// Checks a name: one line that can be shown as it is.
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

/// The name of a job that was given none. A program may be called anything, so what can't be
/// shown is replaced rather than refused.
fn derived_name(script: Option<&Script>, command: &[String]) -> String {
    let program = || command.first().map_or("", String::as_str);
    let path = script.map_or_else(program, |script| script.name.as_str());
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let shown = |c: char| if is_unprintable(c) { '?' } else { c };
    let name: String = last.chars().take(NAME_MAX).map(shown).collect();
    if name.trim().is_empty() { "job".to_owned() } else { name }
}

pub(crate) fn read_script(written: &ScriptText) -> Result<Script, Refusal> {
    let bytes = match (&written.text, &written.base64) {
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(text)) => {
            STANDARD.decode(text).map_err(|error| invalid("script.base64", &error.to_string()))?
        }
        _ => return Err(invalid("script", "it needs one of text and base64")),
    };
    Script::new(&written.name, bytes)
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
            return Err(invalid("command", "an argument holds a zero byte, which no program gets"));
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

/// A path that may be left out.
pub(crate) fn path(field: &str, path: Option<&str>) -> Result<Option<Box<str>>, Refusal> {
    path.map(|path| check_path(field, path).map(|()| Box::from(path))).transpose()
}

pub(crate) fn check_path(field: &str, path: &str) -> Result<(), Refusal> {
    limit(field, path.len(), PATH_MAX, "bytes")?;
    if path.is_empty() {
        return Err(invalid(field, "the path is empty"));
    }
    if path.contains('\0') {
        return Err(invalid(field, "the path holds a zero byte"));
    }
    Ok(())
}

pub(crate) fn check_variable(name: &[u8], value: &[u8]) -> Result<(), Refusal> {
    let shown = || String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
    if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
        return Err(invalid("environment", &format!("{:?} is no name of a variable", shown())));
    }
    if value.contains(&0) {
        let why = format!("the value of {:?} holds a zero byte", shown());
        return Err(invalid("environment", &why));
    }
    if name.len() + value.len() + 2 > ARGUMENT_MAX {
        let size = name.len() + value.len();
        let why = format!(
            "{:?} has {size} bytes, and the kernel takes {} in one variable; unset it, or hand it \
             over in a file",
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
        let why = "a project's name has letters, digits, '.', '_', '-' and '/': vision";
        return Err(invalid("project", why));
    }
    Ok(ProjectName::new(name))
}

/// Checks the name of a pool.
///
/// # Errors
/// [`Refusal::Invalid`] if nothing could be called so.
pub fn pool(name: &str) -> Result<PoolName, Refusal> {
    if !is_plain_name(name) {
        let why = "a pool's name has letters, digits, '.', '_' and '-', a letter first: batch";
        return Err(invalid("pool", why));
    }
    Ok(PoolName::new(name))
}

pub(crate) fn cpus(written: &Written) -> Result<MilliCpu, Refusal> {
    parse::cpus(&written.to_string()).map_err(|error| invalid("cpus", &error.to_string()))
}

pub(crate) fn memory(written: &Written) -> Result<Bytes, Refusal> {
    match written {
        Written::Whole(bytes) => Ok(Bytes::new(*bytes)),
        Written::Decimal(_) => {
            Err(invalid("mem", "a number counts bytes and is whole; or write text: \"1.5G\""))
        }
        Written::Text(text) => {
            parse::bytes(text).map_err(|error| invalid("mem", &error.to_string()))
        }
    }
}

pub(crate) fn span(field: &str, written: &Written) -> Result<Millis, Refusal> {
    let large = || invalid(field, &format!("{written} seconds is more than can be written down"));
    match written {
        Written::Whole(seconds) => seconds.checked_mul(1000).map(Millis::new).ok_or_else(large),
        Written::Decimal(seconds) => std::time::Duration::try_from_secs_f64(*seconds)
            .ok()
            .and_then(|span| u64::try_from(span.as_millis()).ok())
            .map(Millis::new)
            .ok_or_else(large),
        Written::Text(text) => {
            parse::span(text).map_err(|error| invalid(field, &error.to_string()))
        }
    }
}

pub(crate) fn time_limit(written: &Written) -> Result<Millis, Refusal> {
    let limit = span("time", written)?;
    if limit.is_zero() {
        return Err(invalid("time", "a job can't end before it starts; leave it out for no limit"));
    }
    if limit > TIME_MAX {
        return Err(invalid("time", "more than ten years; leave it out for no limit"));
    }
    Ok(limit)
}

pub(crate) fn grace(written: &Written) -> Result<Millis, Refusal> {
    let grace = span("grace", written)?;
    if grace > GRACE_MAX {
        return Err(invalid("grace", &format!("{grace} is more than an hour; 30s is the usual")));
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
            let why = format!("{start:?} begins with none of {known}");
            return Err(invalid(field, &why));
        }
    };
    let job = id.parse().map_err(|error: parse::ParseError| invalid(field, &error.to_string()))?;
    Ok(Dependency { job, kind })
}

fn checked_umask(umask: u32) -> Result<u32, Refusal> {
    if umask <= 0o777 {
        return Ok(umask);
    }
    Err(invalid("umask", &format!("{umask} is above 511, which is 777 in octal")))
}
