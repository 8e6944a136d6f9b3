//! Which devices are simulated: from words (`sim:4xA100-40G,4xH100-80G`) or from a TOML file.

use std::path::Path;

use gpool_model::device::Link;
use gpool_model::parse;
use gpool_model::unit::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::choice::ChoiceError;
use crate::text::toml_problem;

/// The most devices that one node is given.
const MAX_DEVICES: u32 = 64;

/// One simulated device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimDevice {
    /// As a driver would write it.
    pub model: String,
    /// Its memory.
    pub memory: Bytes,
    /// The NUMA node it is near to.
    pub numa: Option<u32>,
    /// Devices of the same group have `links` between them.
    pub group: u32,
    /// How near devices of its group are; `None` if no nearer than others.
    pub links: Option<Link>,
}

/// Reads what stands after `sim:`.
pub(crate) fn from_words(argument: &str, words: &str) -> Result<Vec<SimDevice>, ChoiceError> {
    let mut devices = Vec::new();
    for (group, word) in (0u32..).zip(words.split(',')) {
        let refuse =
            |why: String| ChoiceError::Words { value: start(argument), word: start(word), why };
        let (count, model) = word
            .split_once(['x', 'X'])
            .filter(|(count, _)| count.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()))
            .ok_or_else(|| refuse("it must begin with a count and an x".into()))?;
        let n_devices = check_count(count).map_err(&refuse)?;
        let (name, memory) = model
            .rsplit_once('-')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| refuse("after the model comes a dash and its memory".into()))?;
        let memory = check_memory(memory).map_err(&refuse)?;
        if let Some(strange) = name.chars().find(|c| c.is_control()) {
            return Err(refuse(format!("a model can't have a {strange:?}")));
        }
        let device =
            SimDevice { model: format!("NVIDIA {model}"), memory, numa: None, group, links: None };
        devices.extend(std::iter::repeat_n(device, n_devices));
        check_total(devices.len()).map_err(refuse)?;
    }
    Ok(devices)
}

/// As much of a bad value as a message repeats.
fn start(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Reads a file of `[[device]]` tables.
pub(crate) fn from_file(file: &Path) -> Result<Vec<SimDevice>, ChoiceError> {
    let bad = |why: String| ChoiceError::File { why };
    let bytes = std::fs::read(file)
        .map_err(|error| bad(format!("can't read {}: {error}", file.display())))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| bad(format!("{} is not UTF-8 text", file.display())))?;
    let tables: File =
        toml::from_str(&text).map_err(|error| bad(toml_problem(file, &text, &error)))?;
    let mut devices = Vec::new();
    for (group, table) in (0u32..).zip(tables.device) {
        let device = SimDevice {
            model: table.model,
            memory: table.memory,
            numa: table.numa,
            group,
            links: table.links,
        };
        devices.extend(std::iter::repeat_n(device, table.count));
    }
    check_total(devices.len()).map_err(|why| bad(format!("{}: {why}", file.display())))?;
    if devices.is_empty() {
        return Err(bad(format!("{}: it has no [[device]] table", file.display())));
    }
    Ok(devices)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    device: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(deserialize_with = "model")]
    model: String,
    #[serde(deserialize_with = "memory")]
    memory: Bytes,
    #[serde(default = "one", deserialize_with = "count")]
    count: usize,
    numa: Option<u32>,
    #[serde(default, deserialize_with = "links")]
    links: Option<Link>,
}

fn one() -> usize {
    1
}

fn model<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let model = String::deserialize(from)?;
    match model.trim().is_empty() || model.contains(char::is_control) {
        true => Err(D::Error::custom("a model is text like \"NVIDIA H100 80GB HBM3\"")),
        false => Ok(model),
    }
}

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    check_memory(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    check_count(&i64::deserialize(from)?.to_string()).map_err(D::Error::custom)
}

fn links<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Link>, D::Error> {
    let text = String::deserialize(from)?;
    let link = match text.split_once(':') {
        Some(("nvlink", number)) => number.parse().ok().filter(|n| *n > 0).map(Link::NvLink),
        Some(_) => None,
        None => match text.as_str() {
            "pcie" => Some(Link::Switch),
            "host-bridge" => Some(Link::HostBridge),
            "numa" => Some(Link::Numa),
            "system" => return Ok(None),
            _ => None,
        },
    };
    let choices = "nvlink:18 (or another number), pcie, host-bridge, numa or system";
    link.map(Some).ok_or_else(|| D::Error::custom(format!("{text:?} is no link; write {choices}")))
}

fn check_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=MAX_DEVICES) => Ok(count as usize),
        _ => Err(format!("the count is {text:?} and must be from 1 to {MAX_DEVICES}")),
    }
}

fn check_total(n_devices: usize) -> Result<(), String> {
    match n_devices <= MAX_DEVICES as usize {
        true => Ok(()),
        false => Err(format!("that makes {n_devices} devices; a node has at most {MAX_DEVICES}")),
    }
}

fn check_memory(text: &str) -> Result<Bytes, String> {
    match parse::bytes(text) {
        Ok(memory) if memory.is_zero() => Err("a device without memory is no use".into()),
        Ok(memory) => Ok(memory),
        Err(error) => Err(error.to_string()),
    }
}
