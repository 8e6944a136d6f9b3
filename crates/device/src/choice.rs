//! Which nodes there are and which devices each has: `--devices` as users write it, and the sources
//! it stands for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpool_model::Labels;
use gpool_model::id::{NodeName, PoolName};
use gpool_model::unit::{Bytes, MilliCpu};

use crate::choice_error::ChoiceError;
use crate::nvml::NvmlSource;
use crate::sim::{self, Said, SimDevice, SimSource};
use crate::source::DeviceSource;

/// What `--devices` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DevicesArg {
    /// Those of the one node that this machine is.
    Of(NodeDevices),
    /// Simulated ones, as many for each of several nodes.
    Alike {
        /// How many nodes, from 1.
        n_nodes: usize,
        /// What each has.
        devices: Vec<SimDevice>,
    },
    /// What a TOML file says.
    File(PathBuf),
}

/// Where the devices of one node come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeDevices {
    /// The NVIDIA driver.
    Nvml,
    /// Nowhere: a node for work without GPUs.
    None,
    /// They are simulated.
    Simulated(Vec<SimDevice>),
}

/// A node that an agent is to be started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeArg {
    /// What it is called.
    pub name: NodeName,
    /// The pool it is in from now on; `None` leaves it in the one that it is in.
    pub pool: Option<PoolName>,
    /// Labels that it has from now on, beside those that it has.
    pub labels: Labels,
    /// CPU cores that can be booked; `None` means those of the machine.
    pub cpus: Option<MilliCpu>,
    /// Host memory that can be booked; `None` means that of the machine.
    pub memory: Option<Bytes>,
    /// Its devices.
    pub devices: NodeDevices,
}

/// The nodes that `--devices` stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesArg {
    /// At least one, in the order written; no two of a name.
    pub nodes: Vec<NodeArg>,
    /// Whether a file has given them their names.
    pub are_named: bool,
}

/// A source of devices, or why there is none.
pub enum Opened {
    /// It can be asked.
    Source(Arc<dyn DeviceSource>),
    /// Nothing is wrong with the node, it just has no GPUs that can be used.
    Nothing {
        /// For `gpool doctor`, and for jobs that ask for GPUs all the same.
        why: String,
    },
}

impl DevicesArg {
    /// Reads `nvml`, `none`, `sim:…`, `2x(sim:…)` for two nodes with the same, or a path, which has
    /// a `/` or ends in `.toml`. In the file:
    ///
    /// ```toml
    /// [[device]]
    /// model = "NVIDIA H100 80GB HBM3"
    /// memory = "80G"
    /// count = 8               # 1 if absent
    /// numa = 0                # none if absent
    /// links = "nvlink:18"     # or "pcie", "host-bridge", "numa", "system" (if absent)
    /// mig = ["3g.40gb", "1g.10gb"]  # the MIG instances that each is divided into; whole if absent
    /// ```
    ///
    /// or, for several nodes, any number of
    ///
    /// ```toml
    /// [[node]]
    /// name = "n1"
    /// pool = "batch"          # the one it is in already if absent, at first "default"
    /// cpus = 64               # the machine's if absent
    /// memory = "512G"         # the machine's if absent
    /// [[node.device]]         # as above; none for a node without GPUs
    /// model = "NVIDIA H100 80GB HBM3"
    /// memory = "80G"
    /// ```
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<Self, ChoiceError> {
        let is_path = text.contains('/') || text.ends_with(".toml");
        let several = text.strip_suffix(')').and_then(|text| text.split_once("x("));
        match (text, several) {
            ("nvml", _) => Ok(Self::Of(NodeDevices::Nvml)),
            ("none", _) => Ok(Self::Of(NodeDevices::None)),
            (_, Some((count, words))) if !count.is_empty() && !is_path => alike(text, count, words),
            _ => match text.strip_prefix("sim:") {
                Some(words) => {
                    sim::from_words(text, words).map(|it| Self::Of(NodeDevices::Simulated(it)))
                }
                None if is_path => Ok(Self::File(text.into())),
                None => Err(ChoiceError::Unknown { value: text.chars().take(80).collect() }),
            },
        }
    }

    /// Whether the nodes that `text` stands for have names of their own, from a file.
    #[must_use]
    pub fn names_nodes(text: &str) -> bool {
        let choice = Self::parse(text).ok();
        // Only nodes without names get the one given here.
        let nodes = choice.and_then(|choice| choice.nodes(&NodeName::new("node")).ok());
        nodes.is_some_and(|nodes| nodes.are_named)
    }

    /// The nodes that it stands for. `own` is what the only one is called; several alike are called
    /// so too, each with its number.
    ///
    /// # Errors
    /// If a file can't be read or makes no sense.
    pub fn nodes(&self, own: &NodeName) -> Result<NodesArg, ChoiceError> {
        let (cpus, memory) = (None, None);
        let plain = |name, devices| NodeArg {
            name,
            pool: None,
            labels: Labels::new(),
            cpus,
            memory,
            devices,
        };
        let unnamed = |nodes| NodesArg { nodes, are_named: false };
        Ok(match self {
            Self::Of(devices) => unnamed(vec![plain(own.clone(), devices.clone())]),
            Self::Alike { n_nodes: 1, devices } => {
                unnamed(vec![plain(own.clone(), NodeDevices::Simulated(devices.clone()))])
            }
            Self::Alike { n_nodes, devices } => {
                let name = |n: usize| NodeName::new(format!("{own}-{n}"));
                let node = |n| plain(name(n), NodeDevices::Simulated(devices.clone()));
                unnamed((1..=*n_nodes).map(node).collect())
            }
            Self::File(file) => match sim::from_file(file)? {
                Said::Devices(devices) => {
                    unnamed(vec![plain(own.clone(), NodeDevices::Simulated(devices))])
                }
                Said::Nodes(nodes) => {
                    let node = |it: sim::SimNode| NodeArg {
                        name: it.name,
                        pool: it.pool,
                        labels: it.labels,
                        cpus: it.cpus,
                        memory: it.memory,
                        devices: match it.devices.is_empty() {
                            true => NodeDevices::None,
                            false => NodeDevices::Simulated(it.devices),
                        },
                    };
                    NodesArg { nodes: nodes.into_iter().map(node).collect(), are_named: true }
                }
            },
        })
    }
}

/// Nodes with the same devices, from a count and what stands in parentheses.
fn alike(text: &str, count: &str, words: &str) -> Result<DevicesArg, ChoiceError> {
    let Some(words) = words.strip_prefix("sim:") else {
        return Err(ChoiceError::Unknown { value: text.chars().take(80).collect() });
    };
    let devices = sim::from_words(text, words)?;
    let checked = match count.parse() {
        Ok(n_nodes) => sim::check_n_nodes(n_nodes).map(|()| n_nodes),
        Err(_) => Err("before the parenthesis comes a count of nodes and an x".to_owned()),
    };
    let n_nodes = checked.map_err(|why| ChoiceError::Words {
        value: text.chars().take(80).collect(),
        word: count.chars().take(80).collect(),
        why,
    })?;
    Ok(DevicesArg::Alike { n_nodes, devices })
}

impl NodeDevices {
    /// How long the driver may take to come up, devices without persistence mode included.
    const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

    /// The source that they come from. Simulated devices of a node do what `control` says.
    #[must_use]
    pub fn open(&self, node: &NodeName, control: &Path) -> Opened {
        match self {
            Self::None => Opened::Nothing { why: "its agent was given none".to_owned() },
            Self::Nvml => {
                let library = NvmlSource::library();
                match NvmlSource::open(&library, Self::OPEN_TIMEOUT) {
                    Ok(source) => Opened::Source(Arc::new(source)),
                    Err(nothing) => Opened::Nothing { why: nothing.to_string() },
                }
            }
            Self::Simulated(devices) => {
                Opened::Source(Arc::new(SimSource::new(node, devices.clone(), control)))
            }
        }
    }
}
