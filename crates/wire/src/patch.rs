//! Changes to a job that has not ended: the body of `PATCH /jobs/{id}`.

use std::sync::Arc;

use gpool_model::Refusal;
use gpool_model::gpu::GpuRequest;
use gpool_model::job::BlobId;
use gpool_model::patch::SpecPatch;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::amount::Written;
use crate::check::{self, Script, dependencies, invalid};
use crate::course::{self, RetryAsked};
use crate::create::ScriptText;
use crate::exits;
use crate::time::Time;

/// Changes to a job; what is absent stays, and `null` takes away what may be absent. Once it has
/// started, only name, note, retry and requeue can change; its time limit through `extend`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"time": "4h", "deadline": null}))]
pub struct JobPatch {
    /// New priority, -1000…1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// New note; empty removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who is told of it from now on, as on submission; `[]` or `["none"]` for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<Vec<String>>,
    /// How many elements of an array may run at once; 0 is any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// How many elements of an array may fail before the rest is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Program and arguments in place of program or script; with `script`, what follows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// A script in place of program or script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptText>,
    /// Where it runs, an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// A file to read.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<String>)]
    pub stdin: Option<Option<String>>,
    /// A file for its output.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<String>)]
    pub stdout: Option<Option<String>>,
    /// A file for its errors.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<String>)]
    pub stderr: Option<Option<String>>,
    /// GPUs in the grammar of `--gpus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// The only nodes that it may use; `[]` for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Vec<String>>,
    /// Nodes that it may not use; `[]` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_node: Option<Vec<String>>,
    /// Rules for the labels of its nodes; `[]` for none.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<String>>,
    /// Whether it runs only on nodes without other jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    /// CPU cores.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<Written>)]
    pub cpus: Option<Option<Written>>,
    /// Host memory.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<Written>)]
    pub mem: Option<Option<Written>>,
    /// Time limit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<Written>)]
    pub time: Option<Option<Written>>,
    /// Between TERM and KILL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Written>,
    /// Jobs that must have ended before, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// Jobs of which one must have ended so before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_one: Option<Vec<String>>,
    /// `cancel` or `keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_unmet: Option<String>,
    /// It does not start before then.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<Time>)]
    pub begin: Option<Option<Time>>,
    /// It must end by then.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<Time>)]
    pub deadline: Option<Option<Time>>,
    /// A signal before its time is over.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<String>)]
    pub signal_before: Option<Option<String>>,
    /// When it is run again by itself.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<RetryAsked>)]
    pub retry: Option<Option<RetryAsked>>,
    /// Whether it may be put back and run again.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<bool>)]
    pub requeue: Option<Option<bool>>,
    /// Whether what it holds may be taken back for others, and so whether it may use more than its
    /// project is guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// In which ways it may be taken back, all of them; none for what is usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits: Option<Vec<String>>,
    /// How it is told to save what it has.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "twice")]
    #[schema(value_type = Option<String>)]
    pub checkpoint: Option<Option<String>>,
}

/// Tells what is `null` from what is absent.
pub(crate) fn twice<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// A patch whose every field is valid by itself, and the script to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPatch {
    patch: gpool_model::JobPatch,
    /// A script to store.
    pub script: Option<Script>,
}

impl CheckedPatch {
    /// The patch, with the name under which its script was stored.
    #[must_use]
    pub fn into_patch(mut self, script: Option<BlobId>) -> gpool_model::JobPatch {
        if let Some(program) = &mut self.patch.spec.program {
            program.1 = script;
        }
        self.patch
    }
}

impl JobPatch {
    /// Checks each field by itself.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field, what is wrong, and an example of what is right.
    pub fn check(&self) -> Result<CheckedPatch, Refusal> {
        if *self == Self::default() {
            let why = "it changes nothing; say, for example, {\"priority\": -5}";
            return Err(invalid("patch", why));
        }
        self.priority.map(check::checked_priority).transpose()?;
        self.note.as_deref().map(check::checked_note).transpose()?;
        let script = self.script.as_ref().map(check::read_script).transpose()?;
        let spec = Box::new(self.checked_spec(script.is_some())?);
        let patch = gpool_model::JobPatch {
            priority: self.priority,
            note: self.note.clone(),
            notify: self.notify.as_deref().map(crate::notify::rules).transpose()?,
            max_parallel: self.max_parallel,
            max_fails: self.max_fails,
            spec,
        };
        Ok(CheckedPatch { patch, script })
    }

    fn checked_spec(&self, has_script: bool) -> Result<SpecPatch, Refusal> {
        let program = match (&self.command, has_script) {
            (None, false) => None,
            (command, _) => {
                let command = command.clone().unwrap_or_default();
                check::check_command(&command, has_script)?;
                Some((command, None))
            }
        };
        let gpus = match &self.gpus {
            None => None,
            Some(written) => {
                let gpus = GpuRequest::parse(written);
                let gpus = gpus.map_err(|error| invalid("gpus", &error.to_string()))?;
                Some((gpus, Arc::from(written.as_str())))
            }
        };
        let spec = SpecPatch {
            name: self.name.as_deref().map(check::checked_name).transpose()?.map(Arc::from),
            project: self.project.as_deref().map(|name| check::project(Some(name))).transpose()?,
            program,
            directory: self.directory.as_deref().map(check::checked_directory).transpose()?,
            stdin: path("stdin", &self.stdin)?,
            stdout: path("stdout", &self.stdout)?,
            stderr: path("stderr", &self.stderr)?,
            gpus,
            nodes: self.filter_patch()?,
            cpus: inner(&self.cpus, check::cpus)?.map(|it| it.filter(|cpus| !cpus.is_zero())),
            memory: inner(&self.mem, check::memory)?.map(|it| it.filter(|mem| !mem.is_zero())),
            time_limit: inner(&self.time, check::time_limit)?,
            grace: self.grace.as_ref().map(check::grace).transpose()?,
            ..SpecPatch::default()
        };
        self.checked_life(spec)
    }

    fn checked_life(&self, spec: SpecPatch) -> Result<SpecPatch, Refusal> {
        let jobs = |field: &str, jobs: &Option<Vec<String>>| {
            jobs.as_deref().map(|jobs| dependencies(field, jobs)).transpose()
        };
        let warning = inner(&self.signal_before, |text| course::warning(text))?;
        let retry = inner(&self.retry, RetryAsked::check)?;
        Ok(SpecPatch {
            after: jobs("after", &self.after)?,
            after_one: jobs("after_one", &self.after_one)?,
            on_unmet: self.on_unmet.as_deref().map(course::on_unmet).transpose()?,
            begin: self.begin.map(|it| it.map(|at| at.0)),
            deadline: self.deadline.map(|it| it.map(|at| at.0)),
            warning,
            retry: retry.map(|it| it.filter(|retry| retry.most > 0)),
            requeue: self.requeue,
            preemptible: self.preemptible,
            exits: self.exits.as_deref().map(exits::read).transpose()?,
            checkpoint: inner(&self.checkpoint, |text| exits::checkpoint(text))?,
            ..spec
        })
    }
}

fn inner<T, U>(
    field: &Option<Option<T>>,
    check: impl FnOnce(&T) -> Result<U, Refusal>,
) -> Result<Option<Option<U>>, Refusal> {
    match field {
        None => Ok(None),
        Some(None) => Ok(Some(None)),
        Some(Some(value)) => check(value).map(Some).map(Some),
    }
}

fn path(field: &str, path: &Option<Option<String>>) -> Result<Option<Option<String>>, Refusal> {
    inner(path, |path| check::check_path(field, path).map(|()| path.clone()))
}
