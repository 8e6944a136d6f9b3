//! Resources and replicas of a service of docker-compose.

use gpool_yaml::{Node, Value, YamlError};

use crate::amounts::{cores, memory};
use crate::job::ImportedJob;
use crate::keys::{child_path, count, each, list, text, texts, wrong};
use crate::note::Notes;

const SWARM: &str = "it is about a swarm of Docker";

const DEPLOY: &[(&str, &str)] = &[
    ("mode", SWARM),
    ("endpoint_mode", SWARM),
    ("labels", SWARM),
    ("update_config", SWARM),
    ("rollback_config", SWARM),
    ("placement", "--where and --node choose nodes"),
];

/// Adds the flags of `deploy`.
pub(crate) fn deploy(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    each(node, path, DEPLOY, notes, |key, value, notes| {
        let path = child_path(path, key);
        match key {
            "replicas" => replicas(value, &path, job)?,
            "resources" => resources(value, &path, job, notes)?,
            "restart_policy" => restarts(value, &path, job, notes)?,
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// Several replicas are the elements of an array.
pub(crate) fn replicas(node: &Node, path: &str, job: &mut ImportedJob) -> Result<(), YamlError> {
    match count(node, path)? {
        0 => return Err(wrong(node, path, "at least 1")),
        1 => {}
        n => {
            job.flags.retain(|flag| flag.name != "array");
            job.flag("array", format!("0-{}", n - 1));
        }
    }
    Ok(())
}

fn restarts(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    const REASONS: &[(&str, &str)] = &[("window", SWARM), ("delay", "--backoff is a pause")];
    let mut most = None;
    let mut condition = "any".to_owned();
    each(node, path, REASONS, notes, |key, value, _| {
        match key {
            "condition" => condition = text(value, path)?,
            "max_attempts" => most = Some(count(value, path)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if condition != "none" && !job.has("retry") {
        let most = most.unwrap_or(3);
        job.flag("retry", most.to_string());
        notes.approximated(node.line, path, format!("at most {most} retries after a failure"));
    }
    Ok(())
}

/// Reservations count; without one, a limit is the reservation.
fn resources(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    const REASONS: &[(&str, &str)] = &[
        ("pids", "gpool does not count processes"),
        ("generic_resources", "gpool has GPUs, cores and memory"),
    ];
    let mut parts: Vec<(&Node, String)> = Vec::new();
    each(node, path, &[], notes, |key, value, _| {
        match key {
            "reservations" => parts.insert(0, (value, child_path(path, key))),
            "limits" => parts.push((value, child_path(path, key))),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    for (part, path) in parts {
        each(part, &path, REASONS, notes, |key, value, notes| {
            let path = child_path(&path, key);
            match key {
                "cpus" if !job.has("cpus") => job.flag("cpus", cores(value, &path)?),
                "memory" if !job.has("mem") => job.flag("mem", memory(value, &path, 1, false)?),
                "cpus" | "memory" => {
                    notes.not_taken(value.line, &path, "the reservation counts");
                }
                "devices" => gpus(value, &path, job, notes)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
    }
    Ok(())
}

/// Adds `--gpus` of a list of devices, or of `all`.
pub(crate) fn gpus(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    let mut n_gpus: u32 = 0;
    if let Value::Text(word) = &node.value
        && word == "all"
    {
        n_gpus = 1;
        all(node.line, path, notes);
    } else {
        for item in list(node, path)? {
            n_gpus = n_gpus.saturating_add(device(item, path, notes)?);
        }
    }
    if n_gpus > 0 && !job.has("gpus") {
        job.flag("gpus", n_gpus.to_string());
    }
    Ok(())
}

fn all(line: usize, path: &str, notes: &mut Notes) {
    notes.approximated(line, path, "all: 1 GPU, since gpool shares nodes among jobs");
}

/// The number of GPUs of a device entry.
fn device(node: &Node, path: &str, notes: &mut Notes) -> Result<u32, YamlError> {
    const REASONS: &[(&str, &str)] = &[("options", "gpool has no options of drivers")];
    let mut n_gpus = None;
    let mut is_gpu = false;
    each(node, path, REASONS, notes, |key, value, notes| {
        let path = child_path(path, key);
        match key {
            "driver" => {
                let driver = text(value, &path)?;
                if driver != "nvidia" {
                    let what = format!("gpool schedules no devices of {driver:?}");
                    return Err(YamlError::new(value.line, what)
                        .advice("it schedules GPUs of NVIDIA: driver: nvidia"));
                }
                is_gpu = true;
            }
            "count" => match &value.value {
                Value::Text(word) if word == "all" => {
                    all(value.line, &path, notes);
                    n_gpus = Some(1);
                }
                _ => n_gpus = Some(count(value, &path)?),
            },
            "device_ids" => {
                let ids = texts(value, &path)?;
                n_gpus = Some(u32::try_from(ids.len()).unwrap_or(u32::MAX));
                notes.approximated(value.line, &path, "their number; gpool chooses the GPUs");
            }
            "capabilities" => {
                let capabilities = texts_of_lists(value, &path)?;
                is_gpu |= capabilities.iter().any(|it| it == "gpu" || it == "nvidia");
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !is_gpu {
        let why = "a device needs driver: nvidia or capabilities: [gpu]";
        notes.not_taken(node.line, path, why);
        return Ok(0);
    }
    if n_gpus.is_none() {
        all(node.line, path, notes);
    }
    Ok(n_gpus.unwrap_or(1))
}

/// `[gpu]`, or in older files `[[gpu]]`.
fn texts_of_lists(node: &Node, path: &str) -> Result<Vec<String>, YamlError> {
    let mut all = Vec::new();
    for item in list(node, path)? {
        all.extend(texts(item, path)?);
    }
    Ok(all)
}
