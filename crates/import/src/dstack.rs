//! Tasks of dstack.
//!
//! Source: <https://dstack.ai/docs/reference/dstack.yml/task/>

use gpool_yaml::{Node, Value, YamlError};

use crate::amounts::time;
use crate::dstack_resources;
use crate::job::ImportedJob;
use crate::keys::{child_path, count, each, flag, map, text, texts, wrong};
use crate::note::Notes;
use crate::surroundings::Surroundings;
use crate::variables::{DSTACK, NAMES};

const CLOUD: &str = "it is about machines of a cloud";
const UPLOAD: &str = "the job runs in the current folder; --upload sends a folder";

const REASONS: &[(&str, &str)] = &[
    ("python", "gpool installs no Python; --venv, --conda and --image choose one"),
    ("nvcc", "gpool installs no CUDA; --image chooses one"),
    ("docker", "jobs do not run Docker"),
    ("privileged", "containers of jobs have no privileges"),
    ("registry_auth", "--image-login names a secret with USER:PASSWORD"),
    ("ports", "gpool forward JOB PORT opens a port"),
    ("repos", UPLOAD),
    ("files", UPLOAD),
    ("single_branch", UPLOAD),
    ("fleets", CLOUD),
    ("backends", CLOUD),
    ("regions", CLOUD),
    ("availability_zones", CLOUD),
    ("instance_types", CLOUD),
    ("instances", CLOUD),
    ("spot_policy", CLOUD),
    ("max_price", CLOUD),
    ("creation_policy", CLOUD),
    ("idle_duration", CLOUD),
    ("reservation", "--pool and gpool reserve choose nodes"),
    ("startup_order", "all tasks of a job start together"),
    ("stop_criteria", "a job ends when all its tasks have ended"),
    ("utilization_policy", "--idle-after names a time, and the policy decides"),
    ("schedule", "gpool repeats no jobs; cron can run gpool submit"),
    ("tags", "gpool has --note and --group"),
    ("setup", "dstack no longer has it; put it into commands"),
];

/// What a task says besides its flags.
#[derive(Default)]
struct Task {
    commands: Vec<String>,
    shell: Option<String>,
    entrypoint: Option<String>,
    has_image: bool,
    /// The working folder with its line; its flag depends on the image.
    folder: Option<(usize, String)>,
    mounts: Vec<(usize, String)>,
    n_nodes: u32,
    nodes_line: usize,
}

/// The jobs of a file.
pub(crate) fn jobs(
    documents: &[Node],
    surroundings: &Surroundings<'_>,
    notes: &mut Notes,
) -> Result<Vec<ImportedJob>, YamlError> {
    let documents = documents.iter().filter(|node| node.value != Value::Null);
    documents.map(|node| job(node, surroundings, notes)).collect()
}

fn job(
    node: &Node,
    surroundings: &Surroundings<'_>,
    notes: &mut Notes,
) -> Result<ImportedJob, YamlError> {
    check_kind(node)?;
    let mut job = ImportedJob::new(node.line);
    let mut task = Task::default();
    each(node, "", REASONS, notes, |key, value, notes| {
        match key {
            "type" => {}
            "name" => job.name = text(value, key)?,
            "nodes" => {
                (task.n_nodes, task.nodes_line) = (count(value, key)?, value.line);
                if task.n_nodes > 1 {
                    job.flag("nodes", task.n_nodes.to_string());
                }
            }
            "resources" => dstack_resources::take(value, &mut job, notes)?,
            "env" => environment(value, &mut job, notes)?,
            "max_duration" => limit(value, key, "time", &mut job)?,
            "stop_duration" => limit(value, key, "grace", &mut job)?,
            "priority" => {
                job.flag("priority", count(value, key)?.to_string());
                job.switch("lenient");
                notes.approximated(value.line, key, "users of gpool can only lower their priority");
            }
            "retry" => retry(value, &mut job, notes)?,
            _ => return task.take(key, value, &mut job, notes),
        }
        Ok(true)
    })?;
    task.finish(node, surroundings, &mut job, notes)?;
    Ok(job)
}

/// Checks that it is a task.
fn check_kind(node: &Node) -> Result<(), YamlError> {
    let Some(kind) = node.get("type") else {
        return Err(YamlError::new(node.line, "the document has no type").advice("type: task"));
    };
    match text(kind, "type")?.as_str() {
        "task" => Ok(()),
        "dev-environment" => Err(YamlError::new(kind.line, "gpool imports no dev-environment")
            .advice("gpool shell --gpus 1 opens a shell as a job")),
        other => Err(YamlError::new(kind.line, format!("gpool imports no {other}"))
            .advice("it imports type: task")),
    }
}

/// A time limit; `off` is none.
fn limit(
    node: &Node,
    path: &str,
    name: &'static str,
    job: &mut ImportedJob,
) -> Result<(), YamlError> {
    let is_off = matches!(&node.value, Value::Bool(false))
        || matches!(&node.value, Value::Text(text) if text == "off");
    if !is_off {
        job.flag(name, time(node, path)?);
    }
    Ok(())
}

/// `NAME=VALUE` or `NAME` in a list, or a mapping.
fn environment(node: &Node, job: &mut ImportedJob, notes: &mut Notes) -> Result<(), YamlError> {
    let mut words = Vec::new();
    match &node.value {
        Value::List(items) => {
            for item in items {
                words.push((item.line, text(item, "env")?));
            }
        }
        _ => {
            for (key, value) in map(node, "env")? {
                let word = match value.value {
                    Value::Null => key.text.clone(),
                    _ => format!("{}={}", key.text, text(value, &child_path("env", &key.text))?),
                };
                words.push((key.line, word));
            }
        }
    }
    for (line, word) in words {
        let name = word.split('=').next().unwrap_or_default();
        if word.contains("${{") {
            let why = "gpool secret set stores a secret, and --secret NAME makes it a file";
            notes.not_taken(line, &child_path("env", name), why);
        } else {
            job.flag("env", word);
        }
    }
    Ok(())
}

/// `true`, or the events to retry after.
fn retry(node: &Node, job: &mut ImportedJob, notes: &mut Notes) -> Result<(), YamlError> {
    const TIMES: &str = "3";
    let after_error = |job: &mut ImportedJob, notes: &mut Notes, line: usize| {
        job.flag("retry", TIMES);
        notes.approximated(line, "retry", format!("at most {TIMES} retries after an error"));
    };
    if let Value::Bool(is_on) = node.value {
        if is_on {
            job.switch("requeue");
            after_error(job, notes, node.line);
        }
        return Ok(());
    }
    const REASONS: &[(&str, &str)] = &[("duration", "gpool limits the number of retries")];
    each(node, "retry", REASONS, notes, |key, value, notes| {
        if key != "on_events" {
            return Ok(false);
        }
        for event in value.one_or_more() {
            match text(event, "retry.on_events")?.as_str() {
                // Jobs wait for capacity.
                "no-capacity" => {}
                "interruption" => job.switch("requeue"),
                "error" => after_error(job, notes, event.line),
                _ => {
                    let expected = "no-capacity, interruption or error";
                    return Err(wrong(event, "retry.on_events", expected));
                }
            }
        }
        Ok(true)
    })
}

impl Task {
    /// Keys about the program and its container.
    fn take(
        &mut self,
        key: &str,
        value: &Node,
        job: &mut ImportedJob,
        notes: &mut Notes,
    ) -> Result<bool, YamlError> {
        match key {
            "commands" => self.commands = commands(value)?,
            "image" => {
                job.flag("image", text(value, key)?);
                self.has_image = true;
            }
            "shell" => self.shell = Some(text(value, key)?),
            "entrypoint" => self.entrypoint = Some(text(value, key)?),
            "user" => {
                job.flag("container-user", text(value, key)?);
            }
            "working_dir" => self.folder = Some((value.line, text(value, key)?)),
            "volumes" => self.volumes(value, notes)?,
            "privileged" => return Ok(!flag(value, key)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn volumes(&mut self, node: &Node, notes: &mut Notes) -> Result<(), YamlError> {
        const WHY: &str = "gpool mounts paths of the node, written /SOURCE:/TARGET";
        for item in node.one_or_more() {
            match &item.value {
                Value::Text(text) if text.starts_with('/') && text.contains(":/") => {
                    self.mounts.push((item.line, text.clone()));
                }
                Value::Map(_) => {
                    const REASONS: &[(&str, &str)] = &[("optional", "a mount must exist")];
                    let (mut source, mut target) = (None, None);
                    each(item, "volumes", REASONS, notes, |key, value, _| {
                        match key {
                            "instance_path" => source = Some(text(value, "volumes")?),
                            "path" => target = Some(text(value, "volumes")?),
                            "name" => {}
                            _ => return Ok(false),
                        }
                        Ok(true)
                    })?;
                    match (source, target) {
                        (Some(source), Some(target)) => {
                            self.mounts.push((item.line, format!("{source}:{target}")));
                        }
                        _ => notes.not_taken(item.line, "volumes", WHY),
                    }
                }
                Value::Text(_) => notes.not_taken(item.line, "volumes", WHY),
                _ => return Err(wrong(item, "volumes", "a text or a mapping")),
            }
        }
        Ok(())
    }

    /// Adds the flags that depend on the image, and the script.
    fn finish(
        self,
        node: &Node,
        surroundings: &Surroundings<'_>,
        job: &mut ImportedJob,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        if let Some((line, folder)) = self.folder {
            match (self.has_image, folder.starts_with('/')) {
                (true, true) => job.flag("workdir", folder),
                (true, false) => notes.not_taken(line, "working_dir", "it is no absolute path"),
                (false, _) => job.flag("cwd", folder),
            }
        }
        for (line, mount) in self.mounts {
            match self.has_image {
                true => job.flag("mount", mount),
                false => notes.not_taken(line, "volumes", "the job runs on the host"),
            }
        }
        if !self.has_image && job.has("container-user") {
            job.flags.retain(|flag| flag.name != "container-user");
            let line = node.get("user").map_or(node.line, |user| user.line);
            notes.not_taken(line, "user", "the job runs on the host, as you");
        }
        if self.commands.is_empty() {
            return Err(YamlError::new(node.line, "the task has no commands")
                .advice("gpool does not know the command of an image; write commands"));
        }
        if job.name.is_empty() {
            let folder = surroundings.folder.rsplit('/').find(|part| !part.is_empty());
            job.name = folder.unwrap_or("task").to_owned();
        }
        if self.n_nodes > 1 {
            notes.approximated(self.nodes_line, "nodes", NAMES);
        }
        let default = if self.has_image { "/bin/sh" } else { "/bin/bash" };
        let shell = match self.shell.as_deref() {
            None => default,
            Some("sh") => "/bin/sh",
            Some("bash") => "/bin/bash",
            Some(path) => path,
        };
        let script = format!("{DSTACK}set -e\n{}", self.commands.join("\n"));
        job.run_script(shell, script.trim_end());
        if let Some(entrypoint) = self.entrypoint {
            let words = crate::words::split(&entrypoint)
                .ok_or_else(|| YamlError::new(node.line, "entrypoint: a quote is not closed"))?;
            job.command.splice(0..0, words);
        }
        Ok(())
    }
}

/// The lines of the script.
fn commands(node: &Node) -> Result<Vec<String>, YamlError> {
    let lines = texts(node, "commands")?;
    for (line, item) in lines.iter().zip(node.one_or_more()) {
        if line.contains("${{") {
            let what = "a command has ${{ … }}, which has no value here";
            return Err(YamlError::new(item.line, what).advice("write the value"));
        }
    }
    Ok(lines)
}
