//! Converts a job request into a checked job: every field is valid on its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpool_model::array::{ArrayValues, ValuesRef};
use gpool_model::command::NewJob;
use gpool_model::escape::is_unprintable;
use gpool_model::job::BlobId;
use gpool_model::notify::NotifyRule;
use gpool_model::{JobRequest, Refusal};

use crate::array_check::CheckedArray;
use crate::check::{
    NAME_MAX, check_command, check_variable, checked_directory, invalid, plain_line,
};
use crate::course;
use crate::create::{JobCreate, ScriptText};
use crate::field::fields;
use crate::launch;

/// A job with valid fields, and the data that is stored separately from its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedJob {
    // Invariant: blob names are empty until `into_new_job` sets them.
    job: NewJob,
    /// The job that runs the setup command.
    setup: Option<Box<NewJob>>,
    /// Script to store.
    pub script: Option<Script>,
    /// Values of the array elements to store.
    pub values: Option<ArrayValues>,
    /// Environment variables to store.
    pub environment: BTreeMap<Vec<u8>, Vec<u8>>,
    /// File mode creation mask to store.
    pub umask: Option<u32>,
}

/// A script that the agent can run unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// File name.
    pub name: String,
    /// Content.
    pub bytes: Vec<u8>,
}

impl CheckedJob {
    /// Sets the ID of the blob that stores [`CheckedJob::values`].
    pub fn name_values(&mut self, blob: BlobId) {
        let values = self.values.take();
        if let (Some(array), Some(n_rows)) =
            (&mut self.job.array, values.and_then(|values| values.n_rows()))
        {
            array.values = Some(ValuesRef { blob, n_rows });
        }
    }

    /// Returns the job with the IDs of its stored context and script.
    #[must_use]
    pub fn into_new_job(self, context: BlobId, script: Option<BlobId>) -> NewJob {
        NewJob { context, script, ..self.job }
    }

    /// Returns the job, preceded by its setup job if it has one.
    #[must_use]
    pub fn into_new_jobs(mut self, context: BlobId, script: Option<BlobId>) -> Vec<NewJob> {
        let setup = self.setup.take();
        let setup = setup.map(|setup| NewJob { context: context.clone(), ..*setup });
        setup.into_iter().chain([self.into_new_job(context, script)]).collect()
    }

    /// How often it may run: its elements, their retries, and its setup job.
    #[must_use]
    pub fn n_runs(&self) -> u64 {
        self.job.n_runs().saturating_add(u64::from(self.has_setup()))
    }

    /// Whether the job has a setup job.
    #[must_use]
    pub fn has_setup(&self) -> bool {
        self.setup.is_some()
    }

    /// Returns the names of the secrets that it needs.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.job.secret_names()
    }

    /// Returns the notification rules.
    #[must_use]
    pub fn notify(&self) -> &[NotifyRule] {
        &self.job.standing.notify
    }

    /// Returns the job with these notification rules.
    #[must_use]
    pub fn told_to(mut self, rules: &[NotifyRule]) -> Self {
        self.job.standing.notify = rules.to_vec();
        self
    }
}

impl Script {
    /// Checks that the bytes are a script.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if the first line has no `#!`, or the bytes are not text.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, Refusal> {
        const HEAD: usize = 8192;
        plain_line("script name", name, 255)?;
        if name.is_empty() || name.contains('/') {
            return Err(invalid("script name", "it must be a file name without folders: train.sh"));
        }
        if bytes.iter().take(HEAD).any(|byte| *byte == 0) {
            let why = "it is binary; to run a program, give it as a command: -- ./program";
            return Err(invalid("script", why));
        }
        if !bytes.starts_with(b"#!") {
            let why = "it has no interpreter line; begin it with a line such as #!/bin/bash";
            return Err(invalid("script", why));
        }
        Ok(Self { name: name.to_owned(), bytes })
    }
}

impl JobCreate {
    /// Checks each field separately. A job without a directory runs in `home`.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field, the error, and a valid example.
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
        let CheckedArray { array, values, max_parallel } = self.checked_array()?;
        if max_parallel.is_some() {
            request.standing.max_parallel = max_parallel;
        }
        request.array = array;
        let has_file =
            [&request.stdin, &request.stdout, &request.stderr].iter().any(|it| it.is_some());
        if request.pty.is_some() && has_file {
            let why =
                "a job with a terminal reads and writes there; leave stdin, stdout and stderr out";
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

    /// Returns the environment by name, as bytes.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for a name or value that a process environment cannot hold.
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

/// Derives a job's name from its script or program. A program may have any name, so this function
/// replaces unprintable characters instead of refusing them.
fn derived_name(script: Option<&Script>, command: &[String]) -> String {
    let program = || command.first().map_or("", String::as_str);
    let path = script.map_or_else(program, |script| script.name.as_str());
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let shown = |c: char| if is_unprintable(c) { '?' } else { c };
    let name: String = last.chars().take(NAME_MAX).map(shown).collect();
    if name.trim().is_empty() { "job".to_owned() } else { name }
}

pub(crate) fn read_script(written: &ScriptText) -> Result<Script, Refusal> {
    Script::new(&written.name, written.bytes()?)
}

fn checked_umask(umask: u32) -> Result<u32, Refusal> {
    if umask <= 0o777 {
        return Ok(umask);
    }
    Err(invalid("umask", &format!("{umask} is more than the maximum of 511 (octal 777)")))
}
