//! Resources of SkyPilot: `H100:8`, `{A100: 1, H100: 1}`, `4+`, `any_of`.

use gpool_yaml::{Node, Value, YamlError, scalar};

use crate::amounts::{self, GIB_EACH};
use crate::gpus::GpuSpec;
use crate::job::ImportedJob;
use crate::keys::{child_path, count, each, map, text, wrong};
use crate::note::Notes;

const CLOUD: &str = "it is about machines of a cloud";

const REASONS: &[(&str, &str)] = &[
    ("infra", CLOUD),
    ("cloud", CLOUD),
    ("region", CLOUD),
    ("zone", CLOUD),
    ("use_spot", CLOUD),
    ("instance_type", CLOUD),
    ("disk_size", "gpool does not count disks"),
    ("disk_tier", "gpool does not count disks"),
    ("local_disk", "gpool does not count disks"),
    ("network_tier", CLOUD),
    ("labels", CLOUD),
    ("autostop", CLOUD),
    ("accelerator_args", "they are about TPUs"),
    ("ports", "gpool forward JOB PORT opens a port"),
];

/// An accelerator with its number.
type Accelerator = (String, String);

/// Adds the flags of `resources`.
pub(crate) fn take(node: &Node, job: &mut ImportedJob, notes: &mut Notes) -> Result<(), YamlError> {
    let mut accelerators = Vec::new();
    let mut gpus_line = node.line;
    let mut memory = None;
    each(node, "resources", REASONS, notes, |key, value, notes| {
        let path = child_path("resources", key);
        match key {
            "accelerators" => {
                gpus_line = value.line;
                accelerators = list(value, &path)?;
            }
            "cpus" => {
                let at_least = at_least(value, &path, notes)?;
                job.flag("cpus", amounts::cores(&at_least, &path)?);
            }
            "memory" => memory = Some((at_least(value, &path, notes)?, path)),
            "image_id" => image(value, &path, job, notes)?,
            "job_recovery" => recovery(value, &path, job, notes)?,
            "any_of" | "ordered" => {
                gpus_line = value.line;
                alternatives(value, &path, &mut accelerators, notes)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if let Some((node, path)) = memory {
        add_memory(&node, &path, job, notes)?;
    }
    add_gpus(&accelerators, gpus_line, job, notes)
}

/// `32+` or `32`; a multiple of the cores (`4x`) needs a number of cores.
fn add_memory(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    let written = text(node, path)?;
    if let Some(times) = written.strip_suffix('x') {
        let cpus = job.flags.iter().find(|flag| flag.name == "cpus");
        let cpus = cpus.and_then(|flag| flag.value.as_deref()?.parse::<f64>().ok());
        let times = times.parse::<f64>().map_err(|_| wrong(node, path, "such as 32 or 4x"))?;
        let Some(cpus) = cpus else {
            notes.not_taken(node.line, path, "the number of cores is not known");
            return Ok(());
        };
        let value = Value::Text(format!("{}", (times * cpus).ceil()));
        let node = Node { line: node.line, value };
        job.flag("mem", amounts::memory(&node, path, GIB_EACH, false)?);
        return Ok(());
    }
    job.flag("mem", amounts::memory(node, path, GIB_EACH, false)?);
    Ok(())
}

/// The number of `4+`, with a note: gpool reserves exactly this.
fn at_least(node: &Node, path: &str, notes: &mut Notes) -> Result<Node, YamlError> {
    let written = text(node, path)?;
    let number = match written.strip_suffix('+') {
        Some(number) => {
            notes.approximated(node.line, path, format!("{number}, the least of {written}"));
            number.to_owned()
        }
        None => written,
    };
    Ok(Node { line: node.line, value: Value::Text(number) })
}

/// The accelerators of a text, list or mapping, in order of preference.
fn list(node: &Node, path: &str) -> Result<Vec<Accelerator>, YamlError> {
    match &node.value {
        Value::Map(_) => map(node, path)?
            .iter()
            .map(|(key, value)| match value.value {
                Value::Null => Ok((key.text.clone(), "1".to_owned())),
                _ => Ok((key.text.clone(), text(value, path)?)),
            })
            .collect(),
        _ => node
            .one_or_more()
            .iter()
            .map(|item| {
                let written = text(item, path)?;
                let (name, count) = written.split_once(':').unwrap_or((&written, "1"));
                Ok((name.trim().to_owned(), count.trim().to_owned()))
            })
            .collect(),
    }
}

/// Accelerators of alternatives; other differences between them are left out.
fn alternatives(
    node: &Node,
    path: &str,
    accelerators: &mut Vec<Accelerator>,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    let Value::List(items) = &node.value else { return Err(wrong(node, path, "a list")) };
    for item in items {
        each(item, path, REASONS, notes, |key, value, _| {
            if key == "accelerators" {
                accelerators.extend(list(value, &child_path(path, key))?);
            }
            Ok(key == "accelerators")
        })?;
    }
    Ok(())
}

/// Adds `--gpus`: models with the number of the first one.
fn add_gpus(
    accelerators: &[Accelerator],
    line: usize,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    const PATH: &str = "resources.accelerators";
    let Some((_, first)) = accelerators.first() else { return Ok(()) };
    let number = first.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    let number = number.ok_or_else(|| {
        let node = Node { line, value: Value::Text(first.clone()) };
        wrong(&node, PATH, "a number of GPUs such as H100:8")
    })?;
    let mut spec = GpuSpec { count: scalar::float(number), ..GpuSpec::default() };
    if number.fract() == 0.0 {
        spec.count = format!("{number}");
    }
    for (name, count) in accelerators {
        if count == first {
            if !spec.models.contains(name) {
                spec.models.push(name.clone());
            }
        } else {
            let why = format!("{name}:{count}: alternatives have one number of GPUs");
            notes.not_taken(line, PATH, why);
        }
    }
    let (value, _) = spec.flag(line)?;
    job.flag("gpus", value);
    Ok(())
}

/// `docker:IMAGE`; other images are those of machines.
fn image(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    match &node.value {
        Value::Text(text) if text.starts_with("docker:") => {
            job.flag("image", text.trim_start_matches("docker:"));
        }
        _ => notes.not_taken(node.line, path, "it is an image of a machine, not of a container"),
    }
    Ok(())
}

/// Restarts after the loss of a machine, and after errors.
fn recovery(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    job.switch("requeue");
    if !matches!(node.value, Value::Map(_)) {
        return Ok(());
    }
    each(node, path, &[("strategy", CLOUD)], notes, |key, value, _| {
        match key {
            "max_restarts_on_errors" => {
                job.flag("retry", count(value, &child_path(path, key))?.to_string());
            }
            "recover_on_exit_codes" => {
                let codes = crate::keys::texts(value, &child_path(path, key))?;
                job.flag("retry-exit", codes.join(","));
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if job.has("retry-exit") && !job.has("retry") {
        job.flag("retry", "3");
        notes.approximated(node.line, path, "at most 3 retries");
    }
    Ok(())
}
