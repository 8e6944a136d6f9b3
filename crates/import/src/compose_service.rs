//! One service of docker-compose.

use gpool_yaml::{Node, Value, YamlError};

use crate::amounts::{cores, memory, time};
use crate::compose_resources;
use crate::job::ImportedJob;
use crate::keys::{child_path, each, flag, list, map, text, texts, wrong};
use crate::note::Notes;
use crate::surroundings::Surroundings;
use crate::words;

const NETWORK: &str = "jobs of gpool use the network of their node";
const RIGHTS: &str = "containers of jobs have the rights of their user";
const SHM: &str = "the container engine sets it";

const REASONS: &[(&str, &str)] = &[
    ("build", "gpool builds no images"),
    ("ports", "gpool forward JOB PORT opens a port"),
    ("expose", NETWORK),
    ("networks", NETWORK),
    ("network_mode", NETWORK),
    ("hostname", NETWORK),
    ("domainname", NETWORK),
    ("extra_hosts", NETWORK),
    ("dns", NETWORK),
    ("links", NETWORK),
    ("healthcheck", "gpool does not probe jobs"),
    ("labels", "jobs have --note and --group, and no labels"),
    ("annotations", "jobs have --note and --group, and no labels"),
    ("logging", "gpool logs JOB shows the output"),
    ("privileged", RIGHTS),
    ("cap_add", RIGHTS),
    ("cap_drop", RIGHTS),
    ("security_opt", RIGHTS),
    ("devices", RIGHTS),
    ("device_cgroup_rules", RIGHTS),
    ("group_add", RIGHTS),
    ("read_only", RIGHTS),
    ("sysctls", RIGHTS),
    ("ipc", SHM),
    ("pid", SHM),
    ("shm_size", SHM),
    ("ulimits", SHM),
    ("tmpfs", SHM),
    ("init", SHM),
    ("platform", SHM),
    ("isolation", SHM),
    ("userns_mode", SHM),
    ("cgroup_parent", SHM),
    ("stdin_open", "--pty gives a job a terminal"),
    ("tty", "--pty gives a job a terminal"),
    ("secrets", "gpool secret set stores a secret, and --secret NAME makes it a file"),
    ("configs", "mount a file of the node"),
    ("develop", "it is about builds"),
    ("extends", "write the keys of the other service here"),
    ("mem_reservation", "--mem reserves memory; deploy.resources.reservations.memory sets it"),
    ("memswap_limit", "gpool does not count swap"),
];

/// A service as a job.
pub(crate) struct Service {
    pub name: String,
    pub job: ImportedJob,
    pub needs: Vec<Need>,
}

/// A service that another one waits for.
pub(crate) struct Need {
    pub line: usize,
    pub service: String,
    /// The kind in `--after`.
    pub kind: &'static str,
    pub is_optional: bool,
}

/// Reads a service; `None` if `docker compose up` would not start it.
pub(crate) fn read(
    name: &str,
    node: &Node,
    path: &str,
    surroundings: &Surroundings<'_>,
    notes: &mut Notes,
) -> Result<Option<Service>, YamlError> {
    if let Some(profiles) = node.get("profiles") {
        let path = child_path(path, "profiles");
        if !texts(profiles, &path)?.is_empty() {
            notes.not_taken(profiles.line, &path, "without its profile the service does not run");
            return Ok(None);
        }
    }
    let mut job = ImportedJob::new(node.line);
    job.name = name.to_owned();
    let mut parts = Parts::default();
    each(node, path, REASONS, notes, |key, value, notes| {
        let path = child_path(path, key);
        match key {
            "image" => job.flag("image", text(value, &path)?),
            "command" => parts.command = Some(command(value, &path)?),
            "entrypoint" => parts.entrypoint = Some(command(value, &path)?),
            "environment" => environment(value, &path, &mut job)?,
            "env_file" => env_file(value, &path, surroundings, &mut job, notes)?,
            "volumes" => volumes(value, &path, surroundings, &mut job, notes)?,
            "depends_on" => parts.needs = needs(value, &path, notes)?,
            _ => return settings(key, value, &path, &mut job, notes),
        }
        Ok(true)
    })?;
    if !job.has("image") {
        return Err(YamlError::new(node.line, format!("service {name:?} has no image"))
            .advice("build it with your container engine, and write image"));
    }
    let entrypoint = parts.entrypoint.unwrap_or_default();
    let command = parts.command.unwrap_or_default();
    if entrypoint.is_empty() && command.is_empty() {
        return Err(YamlError::new(node.line, format!("service {name:?} has no command"))
            .advice("gpool does not know the command of an image; write command"));
    }
    if entrypoint.is_empty() {
        let line = node.get("command").map_or(node.line, |command| command.line);
        let how = "gpool does not use the entrypoint of the image";
        notes.approximated(line, &child_path(path, "command"), how);
    }
    job.command = entrypoint.into_iter().chain(command).collect();
    if job.name.is_empty() {
        job.name = "service".to_owned();
    }
    Ok(Some(Service { name: name.to_owned(), job, needs: parts.needs }))
}

/// What a service says besides its flags.
#[derive(Default)]
struct Parts {
    command: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    needs: Vec<Need>,
}

/// Keys that set one flag.
fn settings(
    key: &str,
    value: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<bool, YamlError> {
    match key {
        "container_name" => job.name = text(value, path)?,
        "working_dir" => job.flag("workdir", text(value, path)?),
        "user" => job.flag("container-user", text(value, path)?),
        "stop_grace_period" => job.flag("grace", time(value, path)?),
        "stop_signal" => job.flag("stop-signal", text(value, path)?),
        "mem_limit" => job.flag("mem", memory(value, path, 1, false)?),
        "cpus" | "cpu_count" => job.flag("cpus", cores(value, path)?),
        "pull_policy" => match text(value, path)?.as_str() {
            policy @ ("always" | "never" | "missing") => job.flag("pull", policy),
            "if_not_present" => job.flag("pull", "missing"),
            _ => return Ok(false),
        },
        "restart" => restarts(value, path, job, notes)?,
        "scale" => compose_resources::replicas(value, path, job)?,
        "deploy" => compose_resources::deploy(value, path, job, notes)?,
        "gpus" => compose_resources::gpus(value, path, job, notes)?,
        "runtime" => {
            if text(value, path)? != "nvidia" {
                notes.not_taken(value.line, path, "the administrator chooses the runtime");
            }
        }
        "privileged" | "tty" | "stdin_open" | "read_only" | "init" => {
            return Ok(!flag(value, path)?);
        }
        _ if key.starts_with("x-") => {
            notes.not_taken(value.line, path, "an extension has no effect of its own")
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Words, or a text that is split as a shell does.
fn command(node: &Node, path: &str) -> Result<Vec<String>, YamlError> {
    match &node.value {
        Value::List(_) => texts(node, path),
        _ => words::split(&text(node, path)?)
            .ok_or_else(|| YamlError::new(node.line, format!("{path}: a quote is not closed"))),
    }
}

/// `NAME=VALUE` or `NAME` in a list, or a mapping.
fn environment(node: &Node, path: &str, job: &mut ImportedJob) -> Result<(), YamlError> {
    if let Value::List(items) = &node.value {
        for item in items {
            job.flag("env", text(item, path)?);
        }
        return Ok(());
    }
    for (key, value) in map(node, path)? {
        match value.value {
            Value::Null => job.flag("env", key.text.as_str()),
            _ => {
                let value = text(value, &child_path(path, &key.text))?;
                job.flag("env", format!("{}={value}", key.text));
            }
        }
    }
    Ok(())
}

fn env_file(
    node: &Node,
    path: &str,
    surroundings: &Surroundings<'_>,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    const REASONS: &[(&str, &str)] =
        &[("format", "values of --env-file have no quotes"), ("required", "the file must exist")];
    for item in node.one_or_more() {
        let mut file = None;
        match &item.value {
            Value::Map(_) => each(item, path, REASONS, notes, |key, value, _| {
                if key == "path" {
                    file = Some(text(value, path)?);
                }
                Ok(key == "path")
            })?,
            _ => file = Some(text(item, path)?),
        }
        let Some(file) = file else { return Err(wrong(item, path, "a path")) };
        job.flag("env-file", absolute(&file, surroundings));
    }
    Ok(())
}

/// A path of the node; relative ones are below the folder of the file.
fn absolute(path: &str, surroundings: &Surroundings<'_>) -> String {
    let folder = surroundings.folder.trim_end_matches('/');
    match path.strip_prefix("./").unwrap_or(path) {
        path if path.starts_with('/') => path.to_owned(),
        "." | "" => folder.to_owned(),
        path => match path.strip_prefix("~/") {
            Some(below) => {
                let home = (surroundings.variable)("HOME").unwrap_or_default();
                format!("{}/{below}", home.trim_end_matches('/'))
            }
            None => format!("{folder}/{path}"),
        },
    }
}

fn volumes(
    node: &Node,
    path: &str,
    surroundings: &Surroundings<'_>,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    const WHY: &str = "gpool makes no volumes; mount a folder of the node";
    for item in list(node, path)? {
        let (source, target, is_readonly) = match &item.value {
            Value::Map(_) => {
                let part = |key: &str| item.text_of(key).unwrap_or_default().to_owned();
                if part("type") != "bind" {
                    notes.not_taken(item.line, path, WHY);
                    continue;
                }
                const REASONS: &[(&str, &str)] = &[("bind", "gpool mounts as the node sees it")];
                let mut is_readonly = false;
                each(item, path, REASONS, notes, |key, value, _| {
                    if key == "read_only" {
                        is_readonly = flag(value, path)?;
                    }
                    Ok(["type", "source", "target", "read_only"].contains(&key))
                })?;
                (part("source"), part("target"), is_readonly)
            }
            _ => {
                let written = text(item, path)?;
                let mut parts = written.splitn(3, ':');
                let source = parts.next().unwrap_or_default().to_owned();
                let target = parts.next().unwrap_or_default().to_owned();
                let options = parts.next().unwrap_or_default();
                let mut others = options.split(',').filter(|it| !["", "ro", "rw"].contains(it));
                if let Some(other) = others.next() {
                    notes.not_taken(item.line, path, format!("{other}: gpool has :ro only"));
                }
                (source, target, options.split(',').any(|it| it == "ro"))
            }
        };
        let is_path = source.starts_with(['/', '.', '~']);
        if !is_path || target.is_empty() {
            notes.not_taken(item.line, path, WHY);
            continue;
        }
        let end = if is_readonly { ":ro" } else { "" };
        job.flag("mount", format!("{}:{target}{end}", absolute(&source, surroundings)));
    }
    Ok(())
}

/// The services that it waits for: a list, or a mapping with conditions.
fn needs(node: &Node, path: &str, notes: &mut Notes) -> Result<Vec<Need>, YamlError> {
    let mut needs = Vec::new();
    if let Value::List(items) = &node.value {
        for item in items {
            let (line, service) = (item.line, text(item, path)?);
            needs.push(Need { line, service, kind: "start", is_optional: false });
        }
        return Ok(needs);
    }
    const REASONS: &[(&str, &str)] = &[("restart", "gpool restarts no jobs with others")];
    for (key, value) in map(node, path)? {
        let path = child_path(path, &key.text);
        let (line, service) = (key.line, key.text.clone());
        let mut need = Need { line, service, kind: "start", is_optional: false };
        each(value, &path, REASONS, notes, |key, value, notes| {
            match key {
                "condition" => match text(value, &path)?.as_str() {
                    "service_started" => {}
                    "service_completed_successfully" => need.kind = "ok",
                    "service_healthy" => {
                        let how = "gpool waits for the start, and does not probe jobs";
                        notes.approximated(value.line, &path, how);
                    }
                    _ => {
                        let expected = "service_started, service_healthy or \
                                        service_completed_successfully";
                        return Err(wrong(value, &path, expected));
                    }
                },
                "required" => need.is_optional = !flag(value, &path)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        needs.push(need);
    }
    Ok(needs)
}

fn restarts(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    let written = match &node.value {
        Value::Bool(false) => "no".to_owned(),
        _ => text(node, path)?,
    };
    let (policy, most) = written.split_once(':').unwrap_or((&written, ""));
    match policy {
        "no" => {}
        "on-failure" => {
            let most = if most.is_empty() { "3" } else { most };
            if most.parse::<u32>().is_err() {
                return Err(wrong(node, path, "on-failure:N"));
            }
            job.flag("retry", most);
            notes.approximated(node.line, path, format!("at most {most} retries"));
        }
        "always" | "unless-stopped" => {
            job.switch("requeue");
            let how = "the job starts again after the loss of its node only";
            notes.approximated(node.line, path, how);
        }
        _ => return Err(wrong(node, path, "no, on-failure, always or unless-stopped")),
    }
    Ok(())
}
