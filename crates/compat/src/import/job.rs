//! A job of gflow, and its translation into a request to gpool.

use std::collections::BTreeMap;
use std::path::Path;

use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::PassedFlag;
use gpool_cli::foreign::gflow::flags::GBATCH;
use gpool_cli::foreign::gflow::translate::translate;
use gpool_cli::request::{self, Request};
use gpool_cli::script::Script;
use serde::Deserialize;

/// A job of gflow, with only the fields that an import needs.
#[derive(Debug, Clone, Deserialize)]
pub struct TheirJob {
    pub id: u64,
    pub script: Option<String>,
    pub command: Option<String>,
    #[serde(default)]
    pub gpus: u64,
    pub conda_env: Option<String>,
    pub run_dir: String,
    pub priority: u8,
    #[serde(default)]
    pub depends_on_ids: Vec<u64>,
    pub dependency_mode: Option<String>,
    #[serde(default = "yes")]
    pub auto_cancel_on_dependency_failure: bool,
    pub task_id: Option<u64>,
    pub gpu_sharing_mode: Option<String>,
    pub gpu_memory_limit_mb: Option<u64>,
    pub time_limit: Option<TheirSpan>,
    pub memory_limit_mb: Option<u64>,
    pub submitted_by: String,
    #[serde(default)]
    pub max_retries: u64,
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    pub max_concurrent: Option<u64>,
    pub run_name: Option<String>,
    pub project: Option<String>,
    pub state: String,
    pub submitted_at: Option<TheirMoment>,
}

/// A length of time in gflow's JSON.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct TheirSpan {
    pub secs: u64,
}

/// A time in gflow's JSON.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct TheirMoment {
    pub secs_since_epoch: u64,
    pub nanos_since_epoch: u32,
}

fn yes() -> bool {
    true
}

impl TheirJob {
    /// Whether it waits, or is held.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state.as_str(), "Queued" | "Hold")
    }

    /// Whether its user holds it.
    pub fn is_held(&self) -> bool {
        self.state == "Hold"
    }

    /// A key that is unique among all jobs of this gflow: it reuses ids after a crash.
    pub fn key(&self, url: &str) -> String {
        let at = self.submitted_at.map_or((0, 0), |at| (at.secs_since_epoch, at.nanos_since_epoch));
        format!("gflow {url} {} {}.{}", self.id, at.0, at.1)
    }

    /// The name from its user, without gflow's prefix.
    fn name(&self) -> Option<String> {
        let name = self.run_name.as_deref()?;
        let own = format!("gjob-{}", self.id);
        match name.strip_prefix(&own) {
            None => Some(name.to_owned()),
            Some(rest) => rest.strip_prefix('-').map(str::to_owned),
        }
    }

    /// The job as flags of `gbatch`; `after` has the gpool ids of its dependencies.
    fn flags(&self, after: &[String]) -> Vec<PassedFlag> {
        let mut given = Vec::new();
        let mut put = |long: &str, value: Option<String>| {
            let flag = GBATCH.rows().find(|flag| flag.long == long);
            given.extend(value.zip(flag).map(|(value, flag)| PassedFlag {
                flag,
                value,
                place: None,
            }));
        };
        let is_shared = self.gpu_sharing_mode.as_deref() == Some("Shared");
        put("name", self.name());
        put("gpus", (self.gpus > 0).then(|| self.gpus.to_string()));
        put("shared", is_shared.then(String::new));
        put("gpu-memory", self.gpu_memory_limit_mb.map(|mb| format!("{mb}M")));
        put("memory", self.memory_limit_mb.map(|mb| format!("{mb}M")));
        put("time", self.time_limit.filter(|limit| limit.secs > 0).map(clock));
        put("conda-env", self.conda_env.clone());
        put("project", self.project.clone());
        // gflow's default priority is gpool's default, which needs no permission.
        put("priority", (self.priority != 10).then(|| self.priority.to_string()));
        put("max-retries", (self.max_retries > 0).then(|| self.max_retries.to_string()));
        let mode = match self.dependency_mode.as_deref() {
            Some("Any") => "depends-on-any",
            _ => "depends-on-all",
        };
        put(mode, (!after.is_empty()).then(|| after.join(",")));
        let keeps = !self.auto_cancel_on_dependency_failure && !after.is_empty();
        put("no-auto-cancel", keeps.then(String::new));
        given
    }

    /// The job as a request, held until it is cancelled in gflow.
    ///
    /// # Errors
    /// Its folder or script is gone, or gpool refuses it.
    pub fn request(&self, after: &[String], note: &str) -> Result<Request> {
        let mut translation = translate(&self.flags(after))?;
        for word in [format!("--cwd={}", self.run_dir), format!("--note={note}"), "--hold".into()] {
            translation.words.push((word, None));
        }
        if let Some(task) = self.task_id {
            translation.words.push((format!("--env=GFLOW_ARRAY_TASK_ID={task}"), None));
        }
        if let Some(most) = self.max_concurrent {
            translation.warnings.push(format!(
                "gflow job {}: its group limit of {most} jobs at once is dropped",
                self.id
            ));
        }
        let mut request = request::of_brought(translation.flags()?, &translation, |_| None)?;
        match (&self.script, &self.command) {
            (Some(script), _) => request.job.script = Some(Script::read(script)?.to_wire()),
            (None, command) => {
                let line = filled(command.as_deref().unwrap_or_default(), &self.parameters);
                let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
                let first = line.split_whitespace().next().unwrap_or("gflow").to_owned();
                let base = first.rsplit('/').next().unwrap_or(&first).to_owned();
                request.job.name.get_or_insert(base);
                request.job.command = vec![shell.to_owned(), "-c".to_owned(), line];
            }
        }
        if self.task_id.is_none() {
            request.job.compat.push("gflow".to_owned());
        }
        Ok(request)
    }
}

fn clock(limit: TheirSpan) -> String {
    let TheirSpan { secs } = limit;
    format!("{}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

/// A command with the values of its parameters in place of their names in braces.
fn filled(command: &str, parameters: &BTreeMap<String, String>) -> String {
    parameters.iter().fold(command.to_owned(), |command, (name, value)| {
        command.replace(&format!("{{{name}}}"), value)
    })
}
