//! Resources of dstack: `A100:80GB:1..8`, `24GB..`, `8..`.

use gpool_yaml::{Node, Value, YamlError};

use crate::amounts::{self, GIB_EACH};
use crate::gpus::{GpuSpec, least};
use crate::job::ImportedJob;
use crate::keys::{child_path, each, text, texts, wrong};
use crate::note::Notes;

const REASONS: &[(&str, &str)] = &[
    ("disk", "gpool does not count disks"),
    ("shm_size", "the container engine sets the size of /dev/shm"),
];

/// Adds the flags of `resources`.
pub(crate) fn take(node: &Node, job: &mut ImportedJob, notes: &mut Notes) -> Result<(), YamlError> {
    each(node, "resources", REASONS, notes, |key, value, notes| {
        match key {
            "gpu" => gpu(value, job, notes)?,
            "cpu" => cpu(value, job, notes)?,
            "memory" => {
                let written = lower_bound(value, "resources.memory", notes)?;
                let node = Node { line: value.line, value: Value::Text(written) };
                job.flag("mem", amounts::memory(&node, "resources.memory", GIB_EACH, false)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// The least of a range such as `16GB..32GB`, `4..` or `{min, max}`, with a note.
fn lower_bound(node: &Node, path: &str, notes: &mut Notes) -> Result<String, YamlError> {
    if let Value::Map(_) = node.value {
        let Some(least) = node.get("min") else { return Err(wrong(node, path, "a minimum")) };
        notes.approximated(node.line, path, "the least of the range");
        return text(least, path);
    }
    let written = text(node, path)?;
    match written.split_once("..") {
        None => Ok(written),
        Some(("", _)) => Err(wrong(node, path, "a minimum")),
        Some((least, _)) => {
            notes.approximated(node.line, path, format!("{least}, the least of {written}"));
            Ok(least.to_owned())
        }
    }
}

/// `8`, `8..`, `x86:8..`, or a mapping of `arch` and `count`.
fn cpu(node: &Node, job: &mut ImportedJob, notes: &mut Notes) -> Result<(), YamlError> {
    const PATH: &str = "resources.cpu";
    const ARCH: &str = "all nodes of a cluster have one architecture";
    let count = if let Value::Map(_) = node.value
        && node.get("min").is_none()
    {
        let mut found = None;
        each(node, PATH, &[("arch", ARCH)], notes, |key, value, _| {
            found = (key == "count").then_some(value).or(found);
            Ok(key == "count")
        })?;
        match found {
            Some(count) => lower_bound(count, PATH, notes)?,
            None => return Ok(()),
        }
    } else {
        lower_bound(node, PATH, notes)?
    };
    let count = match count.rsplit_once(':') {
        Some((_, "")) => return Ok(()),
        Some((_, count)) => {
            notes.not_taken(node.line, &child_path(PATH, "arch"), ARCH);
            count.to_owned()
        }
        None => count,
    };
    let node = Node { line: node.line, value: Value::Text(count) };
    job.flag("cpus", amounts::cores(&node, PATH)?);
    Ok(())
}

fn gpu(node: &Node, job: &mut ImportedJob, notes: &mut Notes) -> Result<(), YamlError> {
    const PATH: &str = "resources.gpu";
    let mut spec = GpuSpec { count: "1".to_owned(), ..GpuSpec::default() };
    match &node.value {
        Value::Map(_) => map(node, &mut spec, notes)?,
        _ => {
            let written = text(node, PATH)?;
            for part in written.split(':') {
                let is_known = take_part(part.trim(), &mut spec, node.line, notes)?;
                if !is_known {
                    return Err(wrong(node, PATH, "GPUs such as A100:80GB:2"));
                }
            }
        }
    }
    let (value, remark) = spec.flag(node.line)?;
    if let Some(remark) = remark {
        notes.approximated(node.line, PATH, remark);
    }
    job.flag("gpus", value);
    Ok(())
}

fn map(node: &Node, spec: &mut GpuSpec, notes: &mut Notes) -> Result<(), YamlError> {
    const REASONS: &[(&str, &str)] = &[
        ("total_memory", "gpool compares the memory of each GPU"),
        ("compute_capability", "name the models instead"),
    ];
    each(node, "resources.gpu", REASONS, notes, |key, value, notes| {
        let path = child_path("resources.gpu", key);
        match key {
            "name" => {
                let names = texts(value, &path)?;
                let names = names.iter().flat_map(|name| name.split(','));
                spec.models = names.map(|name| name.trim().to_owned()).collect();
            }
            "vendor" => vendor(&text(value, &path)?, value.line)?,
            "memory" => {
                let written = match &value.value {
                    Value::Map(_) => format!("{}..", lower_bound(value, &path, notes)?),
                    _ => text(value, &path)?,
                };
                if !take_memory(&written, spec, value.line, notes) {
                    return Err(wrong(value, &path, "an amount such as 24GB.."));
                }
            }
            "count" => {
                let written = match &value.value {
                    Value::Map(_) => lower_bound(value, &path, notes)?,
                    _ => text(value, &path)?,
                };
                if !count(&written, spec, value.line, notes) {
                    return Err(wrong(value, &path, "a number or a range"));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// Takes one part between colons: a vendor, models, a memory or a number.
fn take_part(
    part: &str,
    spec: &mut GpuSpec,
    line: usize,
    notes: &mut Notes,
) -> Result<bool, YamlError> {
    let lower = part.to_ascii_lowercase();
    if ["nvidia", "amd", "google", "intel", "tenstorrent"].contains(&lower.as_str()) {
        vendor(&lower, line)?;
        return Ok(true);
    }
    if count(part, spec, line, notes) {
        return Ok(true);
    }
    if lower.contains('b') && lower.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(take_memory(part, spec, line, notes));
    }
    if part.is_empty() || !spec.models.is_empty() {
        return Ok(false);
    }
    spec.models = part.split(',').map(|name| name.trim().to_owned()).collect();
    Ok(true)
}

/// Takes `24GB`, `24GB..` or `24GB..80GB`; returns false if it is none.
fn take_memory(text: &str, spec: &mut GpuSpec, line: usize, notes: &mut Notes) -> bool {
    let (least, most) = text.split_once("..").unwrap_or((text, ""));
    spec.is_least = text.contains("..");
    spec.memory = amounts::bytes(least, GIB_EACH, false).filter(|bytes| *bytes > 0);
    if !most.is_empty() {
        notes.approximated(line, "resources.gpu", format!("at least {least}, of {text}"));
    }
    spec.memory.is_some()
}

/// Takes a number or range of GPUs; returns false if it is none.
fn count(text: &str, spec: &mut GpuSpec, line: usize, notes: &mut Notes) -> bool {
    let Some((count, is_range)) = least(text) else { return false };
    if is_range {
        notes.approximated(line, "resources.gpu", format!("{count}, the least of {text} GPUs"));
    }
    spec.count = count.to_string();
    true
}

fn vendor(name: &str, line: usize) -> Result<(), YamlError> {
    if name.eq_ignore_ascii_case("nvidia") {
        return Ok(());
    }
    let what = format!("gpool schedules no GPUs of {name:?}");
    Err(YamlError::new(line, what).advice("it schedules those of NVIDIA"))
}
