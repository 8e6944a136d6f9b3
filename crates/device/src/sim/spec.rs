//! The simulated devices: parsed from text (`sim:4xA100-40G,4xH100-80G`) or from a TOML file, which
//! may describe several nodes.

use std::path::Path;

use gpool_model::device::Link;
use gpool_model::id::{NodeName, PoolName, is_plain_name};
use gpool_model::mig::Profile;
use gpool_model::unit::{Bytes, MilliCpu};
use gpool_model::{LabelChange, Labels, parse};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::choice_error::ChoiceError;
use crate::text::{place, toml_problem};

/// The most devices of one node.
const MAX_DEVICES: u32 = 64;
/// The most nodes of one machine: each has an agent with its own threads.
const MAX_NODES: usize = 64;
/// The most CPU cores of a node.
const MAX_CPUS: u32 = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimDevice {
    /// The model, as a driver would report it.
    pub model: String,
    pub memory: Bytes,
    /// The NUMA node that it belongs to.
    pub numa: Option<u32>,
    /// Devices in the same group have `links` between them.
    pub group: u32,
    /// The link between devices of its group; `None` if there is no better link than to others.
    pub links: Option<Link>,
    /// The MIG instances that it is divided into; `None` if it is not.
    pub mig: Option<Vec<Profile>>,
}

/// Parses the text after `sim:`.
pub(crate) fn from_words(argument: &str, words: &str) -> Result<Vec<SimDevice>, ChoiceError> {
    let mut devices = Vec::new();
    for (group, word) in (0u32..).zip(words.split(',')) {
        let refuse =
            |why: String| ChoiceError::Words { value: start(argument), word: start(word), why };
        let (count, model) = word
            .split_once(['x', 'X'])
            .filter(|(count, _)| count.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()))
            .ok_or_else(|| refuse("it must begin with a number and an x".into()))?;
        let n_devices = check_count(count).map_err(&refuse)?;
        let (name, memory) = model
            .rsplit_once('-')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| refuse("write a dash and the memory after the model".into()))?;
        let memory = check_memory(memory).map_err(&refuse)?;
        if let Some(strange) = name.chars().find(|c| c.is_control()) {
            return Err(refuse(format!("a model name can't contain {strange:?}")));
        }
        let device = SimDevice {
            model: format!("NVIDIA {model}"),
            memory,
            numa: None,
            group,
            links: None,
            mig: None,
        };
        devices.extend(std::iter::repeat_n(device, n_devices));
        check_total(devices.len()).map_err(refuse)?;
    }
    Ok(devices)
}

/// The part of an invalid value that a message repeats.
fn start(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The contents of a file: devices of one node, or nodes.
pub(crate) enum SimFile {
    /// The devices of a single node; the file does not name it.
    Devices(Vec<SimDevice>),
    Nodes(Vec<SimNode>),
}

pub(crate) struct SimNode {
    pub name: NodeName,
    pub pool: Option<PoolName>,
    pub labels: Labels,
    pub cpus: Option<MilliCpu>,
    pub memory: Option<Bytes>,
    pub devices: Vec<SimDevice>,
}

/// Parses a file of `[[device]]` or of `[[node]]` tables.
pub(crate) fn from_file(file: &Path) -> Result<SimFile, ChoiceError> {
    let bad = |why: String| ChoiceError::File { why };
    let bytes = std::fs::read(file)
        .map_err(|error| bad(format!("can't read {}: {error}", file.display())))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| bad(format!("{} is not UTF-8 text", file.display())))?;
    let tables: File =
        toml::from_str(&text).map_err(|error| bad(toml_problem(file, &text, &error)))?;
    match (tables.device.is_empty(), tables.node.as_slice()) {
        (true, []) => {
            Err(bad(format!("{}: it has no [[device]] or [[node]] table", file.display())))
        }
        (false, []) => {
            let devices = devices(tables.device);
            devices.map(SimFile::Devices).map_err(|why| bad(format!("{}: {why}", file.display())))
        }
        (false, [node, ..]) => {
            let why = "with nodes, each device must belong to a node: write [[node.device]] \
                       instead of [[device]]";
            Err(bad(format!("{}: {why}", place(file, &text, node.span().start))))
        }
        (true, _) => nodes(tables.node)
            .map(SimFile::Nodes)
            .map_err(|(at, why)| bad(format!("{}: {why}", place(file, &text, at)))),
    }
}

/// The nodes of a file, or the fault and its position.
fn nodes(tables: Vec<Spanned<NodeTable>>) -> Result<Vec<SimNode>, (usize, String)> {
    let mut nodes: Vec<SimNode> = Vec::new();
    for table in tables {
        let at = table.span().start;
        let table = table.into_inner();
        let name_at = table.name.span().start;
        let name = NodeName::new(table.name.into_inner());
        if nodes.iter().any(|node| node.name == name) {
            return Err((name_at, format!("node {:?} is given twice", name.as_str())));
        }
        let devices = devices(table.device).map_err(|why| (at, format!("node {name}: {why}")))?;
        let NodeTable { pool, labels, cpus, memory, .. } = table;
        nodes.push(SimNode { name, pool, labels, cpus, memory, devices });
        check_n_nodes(nodes.len()).map_err(|why| (at, why))?;
    }
    Ok(nodes)
}

/// Checks the number of nodes of one machine.
pub(crate) fn check_n_nodes(n_nodes: usize) -> Result<(), String> {
    match n_nodes {
        1..=MAX_NODES => Ok(()),
        n => Err(format!("these are {n} nodes; one machine can have 1 to {MAX_NODES}")),
    }
}

fn devices(tables: Vec<DeviceTable>) -> Result<Vec<SimDevice>, String> {
    let mut devices = Vec::new();
    for (group, table) in (0u32..).zip(tables) {
        let layout = |profiles: &Vec<String>| {
            Profile::layout(profiles.iter().map(String::as_str), table.memory)
        };
        let mig = table.mig.as_ref().map(layout).transpose();
        let device = SimDevice {
            mig: mig.map_err(|error| format!("mig of {:?}: {error}", table.model))?,
            model: table.model,
            memory: table.memory,
            numa: table.numa,
            group,
            links: table.links,
        };
        devices.extend(std::iter::repeat_n(device, table.count));
    }
    check_total(devices.len())?;
    Ok(devices)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    device: Vec<DeviceTable>,
    #[serde(default)]
    node: Vec<Spanned<NodeTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    #[serde(deserialize_with = "node_name")]
    name: Spanned<String>,
    #[serde(default, deserialize_with = "pool")]
    pool: Option<PoolName>,
    #[serde(default, deserialize_with = "labels")]
    labels: Labels,
    #[serde(default, deserialize_with = "cpus")]
    cpus: Option<MilliCpu>,
    #[serde(default, deserialize_with = "node_memory")]
    memory: Option<Bytes>,
    #[serde(default)]
    device: Vec<DeviceTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTable {
    #[serde(deserialize_with = "model")]
    model: String,
    #[serde(deserialize_with = "memory")]
    memory: Bytes,
    #[serde(default = "one", deserialize_with = "count")]
    count: usize,
    numa: Option<u32>,
    #[serde(default, deserialize_with = "links")]
    links: Option<Link>,
    mig: Option<Vec<String>>,
}

fn node_name<'de, D: Deserializer<'de>>(from: D) -> Result<Spanned<String>, D::Error> {
    let name = Spanned::<String>::deserialize(from)?;
    match NodeName::new(name.get_ref()).is_file_name() {
        true => Ok(name),
        false => Err(D::Error::custom(format!(
            "{:?} is not a node name: write at most 63 letters, digits, dots, dashes or \
             underscores, beginning with a letter, for example n1",
            start(name.get_ref())
        ))),
    }
}

fn pool<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PoolName>, D::Error> {
    let name = String::deserialize(from)?;
    match is_plain_name(&name) {
        true => Ok(Some(PoolName::new(name))),
        false => Err(D::Error::custom(format!(
            "{:?} is not a pool name: write at most 63 letters, digits, dots, dashes or \
             underscores, beginning with a letter, for example batch",
            start(&name)
        ))),
    }
}

fn labels<'de, D: Deserializer<'de>>(from: D) -> Result<Labels, D::Error> {
    let words = Vec::<String>::deserialize(from)?;
    let change = LabelChange::parse(words.iter().map(String::as_str)).map_err(D::Error::custom)?;
    Ok(change.set)
}

fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<MilliCpu>, D::Error> {
    let cores = i64::deserialize(from)?;
    match u32::try_from(cores) {
        Ok(cores @ 1..=MAX_CPUS) => Ok(Some(MilliCpu::from_cores(cores))),
        _ => Err(D::Error::custom(format!("a node has 1 to {MAX_CPUS} CPU cores, not {cores}"))),
    }
}

fn node_memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bytes>, D::Error> {
    match parse::bytes(&String::deserialize(from)?) {
        Ok(memory) if memory.is_zero() => Err(D::Error::custom("a node needs memory")),
        Ok(memory) => Ok(Some(memory)),
        Err(error) => Err(D::Error::custom(error.to_string())),
    }
}

fn one() -> usize {
    1
}

fn model<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let model = String::deserialize(from)?;
    match model.trim().is_empty() || model.contains(char::is_control) {
        true => Err(D::Error::custom("a model is text, for example \"NVIDIA H100 80GB HBM3\"")),
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
    link.map(Some)
        .ok_or_else(|| D::Error::custom(format!("{text:?} is not a link; write {choices}")))
}

fn check_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=MAX_DEVICES) => Ok(count as usize),
        _ => Err(format!(
            "the number of devices is {text:?}; write a number from 1 to {MAX_DEVICES}"
        )),
    }
}

fn check_total(n_devices: usize) -> Result<(), String> {
    match n_devices <= MAX_DEVICES as usize {
        true => Ok(()),
        false => Err(format!("these are {n_devices} devices; a node has at most {MAX_DEVICES}")),
    }
}

fn check_memory(text: &str) -> Result<Bytes, String> {
    match parse::bytes(text) {
        Ok(memory) if memory.is_zero() => Err("a device needs memory".into()),
        Ok(memory) => Ok(memory),
        Err(error) => Err(error.to_string()),
    }
}
