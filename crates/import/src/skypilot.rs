//! Tasks and pipelines of SkyPilot.
//!
//! Source: <https://docs.skypilot.co/en/latest/reference/yaml-spec.html>

use gpool_yaml::{Node, Value, YamlError, scalar};

use crate::interpolate::fill;
use crate::job::{Dependency, ImportedJob};
use crate::keys::{child_path, count, each, map, text, wrong};
use crate::note::Notes;
use crate::skypilot_resources;
use crate::surroundings::Surroundings;
use crate::variables::{NAMES, SKYPILOT};

const SERVICE: &str = "it is about a service";
const OLD: &str = "SkyPilot no longer uses it";

const REASONS: &[(&str, &str)] = &[
    ("service", "gpool imports the task, not the service"),
    ("pool", "gpool has pools of nodes: --pool"),
    ("volumes", "gpool makes no volumes; --mount shows paths of the node in a container"),
    ("config", "it is about clouds"),
    ("experimental", "it is about clouds"),
    ("api_server", "it is about a server of SkyPilot"),
    ("event_callback", "--notify sends events to an address"),
    ("inputs", OLD),
    ("outputs", OLD),
    ("readiness_probe", SERVICE),
];

/// What a task says besides its flags.
#[derive(Default)]
struct Task {
    /// Variables with values, which other values can refer to.
    variables: Vec<(String, String)>,
    run: Option<String>,
    setup: Option<(usize, String)>,
    folder: Option<(usize, String)>,
    /// Lines, keys and values of `--mount`.
    mounts: Vec<(usize, String, String)>,
}

/// The jobs of a file; of a pipeline, each waits for the one before.
pub(crate) fn jobs(
    documents: &[Node],
    surroundings: &Surroundings<'_>,
    notes: &mut Notes,
) -> Result<Vec<ImportedJob>, YamlError> {
    let mut documents: Vec<&Node> =
        documents.iter().filter(|node| node.value != Value::Null).collect();
    let mut pipeline = None;
    // The first document of a pipeline only has its name.
    let is_header = |node: &Node| {
        let mut keys = node.entries().iter().map(|(key, _)| key.text.as_str());
        keys.all(|key| key == "name" || key == "execution")
    };
    if documents.len() > 1 && is_header(documents[0]) {
        let header = documents.remove(0);
        pipeline = header.get("name").map(|name| text(name, "name")).transpose()?;
        if let Some(order) = header.get("execution")
            && text(order, "execution")? != "serial"
        {
            return Err(wrong(order, "execution", "serial"));
        }
    }
    let mut jobs = Vec::new();
    for (ix, node) in documents.iter().enumerate() {
        let mut job = job(node, surroundings, notes)?;
        if job.name.is_empty() {
            let folder = surroundings.folder.rsplit('/').find(|part| !part.is_empty());
            job.name = folder.unwrap_or("task").to_owned();
            if ix > 0 {
                job.name = format!("{}-{}", job.name, ix + 1);
            }
        }
        if let Some(pipeline) = &pipeline {
            job.flag("group", pipeline.as_str());
        }
        if ix > 0 {
            job.after.push(Dependency { kind: "ok", job_ix: ix - 1 });
        }
        jobs.push(job);
    }
    Ok(jobs)
}

fn job(
    node: &Node,
    surroundings: &Surroundings<'_>,
    notes: &mut Notes,
) -> Result<ImportedJob, YamlError> {
    let mut job = ImportedJob::new(node.line);
    let mut task = Task::default();
    for key in ["envs", "secrets"] {
        if let Some(envs) = node.get(key) {
            task.environment(key, envs, &mut job, notes)?;
        }
    }
    each(node, "", REASONS, notes, |key, value, notes| {
        match key {
            "envs" | "secrets" => {}
            "name" => job.name = task.filled(value, key, surroundings)?,
            "num_nodes" => {
                let n_nodes = count(value, key)?;
                if n_nodes > 1 {
                    job.flag("nodes", n_nodes.to_string());
                    notes.approximated(value.line, key, NAMES);
                }
            }
            "resources" => {
                let value = task.tree(value, surroundings)?;
                skypilot_resources::take(&value, &mut job, notes)?;
            }
            "workdir" => task.workdir(value, surroundings, notes)?,
            "file_mounts" => task.file_mounts(value, surroundings, notes)?,
            "setup" => task.setup = Some((value.line, text(value, key)?)),
            "run" => task.run = Some(text(value, key)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    task.finish(node, &mut job, notes)?;
    Ok(job)
}

impl Task {
    /// Variables; one without a value has that of the caller. Values of secrets are not shown.
    fn environment(
        &mut self,
        path: &str,
        node: &Node,
        job: &mut ImportedJob,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        for (key, value) in map(node, path)? {
            let full = child_path(path, &key.text);
            // SkyPilot passes values as Python writes them.
            let written = match &value.value {
                Value::Null => None,
                Value::List(_) | Value::Map(_) => return Err(wrong(value, &full, "a text")),
                value => Some(scalar::text(value)),
            };
            match written {
                Some(written) if path == "envs" => {
                    job.flag("env", format!("{}={written}", key.text));
                    self.variables.push((key.text.clone(), written));
                }
                Some(_) => {
                    job.flag("env", key.text.as_str());
                    let how = "the caller's variable; set it, or use gpool secret set";
                    notes.approximated(key.line, &full, how);
                }
                None => job.flag("env", key.text.as_str()),
            }
        }
        Ok(())
    }

    /// A text with the variables of `envs`.
    fn filled(
        &self,
        node: &Node,
        path: &str,
        surroundings: &Surroundings<'_>,
    ) -> Result<String, YamlError> {
        self.fill(&text(node, path)?, node.line, surroundings)
    }

    fn fill(
        &self,
        text: &str,
        line: usize,
        surroundings: &Surroundings<'_>,
    ) -> Result<String, YamlError> {
        let value = |name: &str| {
            let own = self.variables.iter().find(|(own, _)| own == name);
            own.map(|(_, value)| value.clone()).or_else(|| (surroundings.variable)(name))
        };
        let filled = fill(text, &value).map_err(|why| YamlError::new(line, why))?;
        match filled.missing.first() {
            None => Ok(filled.text),
            Some(name) => Err(YamlError::new(line, format!("{name} has no value"))
                .advice(format!("export {name}=VALUE, or set it in envs"))),
        }
    }

    /// A value with the variables in its texts.
    fn tree(&self, node: &Node, surroundings: &Surroundings<'_>) -> Result<Node, YamlError> {
        let value = match &node.value {
            Value::Text(text) => Value::Text(self.fill(text, node.line, surroundings)?),
            Value::List(items) => {
                let items = items.iter().map(|item| self.tree(item, surroundings));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            Value::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.tree(value, surroundings)?)));
                Value::Map(entries.collect::<Result<_, YamlError>>()?)
            }
            other => other.clone(),
        };
        Ok(Node { line: node.line, value })
    }

    fn workdir(
        &mut self,
        node: &Node,
        surroundings: &Surroundings<'_>,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        match &node.value {
            Value::Map(_) => {
                notes.not_taken(node.line, "workdir", "gpool clones no repositories; use --cwd");
            }
            _ => self.folder = Some((node.line, self.filled(node, "workdir", surroundings)?)),
        }
        Ok(())
    }

    fn file_mounts(
        &mut self,
        node: &Node,
        surroundings: &Surroundings<'_>,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        for (key, value) in map(node, "file_mounts")? {
            let path = child_path("file_mounts", &key.text);
            match &value.value {
                Value::Text(source) if !source.contains("://") => {
                    let source = self.fill(source, value.line, surroundings)?;
                    let target = self.fill(&key.text, key.line, surroundings)?;
                    self.mounts.push((key.line, path, format!("{source}:{target}")));
                }
                Value::Text(_) | Value::Map(_) => {
                    notes.not_taken(key.line, &path, "gpool mounts no buckets");
                }
                _ => return Err(wrong(value, &path, "a path or a mapping")),
            }
        }
        Ok(())
    }

    /// Adds the flags that depend on the image, and the script.
    fn finish(
        self,
        node: &Node,
        job: &mut ImportedJob,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        let has_image = job.has("image");
        if let Some((_, folder)) = self.folder {
            job.flag("cwd", folder);
        }
        for (line, path, mount) in self.mounts {
            let is_absolute = mount.starts_with('/') && mount.contains(":/");
            match has_image && is_absolute {
                true => job.flag("mount", mount),
                false => {
                    let why = match has_image {
                        true => "--mount needs absolute paths",
                        false => "the job runs on the host, and sees its files",
                    };
                    notes.not_taken(line, &path, why);
                }
            }
        }
        let Some(run) = self.run else {
            return Err(YamlError::new(node.line, "the task has no run")
                .advice("without commands there is no job"));
        };
        let mut script = SKYPILOT.to_owned();
        if let Some((line, setup)) = self.setup {
            if has_image {
                notes.approximated(line, "setup", "at the start of each attempt, in the container");
                script.push_str(&format!("(\nset -e\n{}\n) || exit\n", setup.trim_end()));
            } else {
                notes.approximated(line, "setup", "once, on one node, before the job waits");
                job.flag("setup", setup.trim_end());
            }
        }
        script.push_str(run.trim_end());
        job.run_script("/bin/bash", &script);
        Ok(())
    }
}
