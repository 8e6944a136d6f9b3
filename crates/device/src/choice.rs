//! The nodes and their devices: parses the value of `--devices` and opens the sources that it
//! names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpool_model::Labels;
use gpool_model::id::{NodeName, PoolName};
use gpool_model::unit::{Bytes, MilliCpu};

use crate::choice_error::ChoiceError;
use crate::nvml::NvmlSource;
use crate::sim::{self, Follows, SimDevice, SimFile, SimSource};
use crate::source::DeviceSource;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DevicesArg {
    /// The devices of one node, this machine.
    Of(NodeDevices),
    /// The same simulated devices on each of several nodes.
    Alike {
        /// The number of nodes, from 1.
        n_nodes: usize,
        /// The devices of each node.
        devices: Vec<SimDevice>,
    },
    /// The path of a TOML file.
    File(PathBuf),
}

/// The source of a node's devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeDevices {
    Nvml,
    /// None: a node for work without GPUs.
    None,
    Simulated(Vec<SimDevice>),
}

/// A node that needs an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeArg {
    pub name: NodeName,
    /// Its new pool; `None` leaves it in its present pool.
    pub pool: Option<PoolName>,
    /// Labels to add to its present ones.
    pub labels: Labels,
    /// CPU cores that can be booked; `None` means the cores of the machine.
    pub cpus: Option<MilliCpu>,
    /// Host memory that can be booked; `None` means the memory of the machine.
    pub memory: Option<Bytes>,
    pub devices: NodeDevices,
}

/// The nodes that `--devices` describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesArg {
    /// At least one, in the order written; all names differ.
    pub nodes: Vec<NodeArg>,
    /// Whether their names come from a file.
    pub are_named: bool,
}

/// A source of devices, or why there is none.
pub enum Opened {
    Source(Arc<dyn DeviceSource>),
    /// The node works, but has no GPUs that can be used.
    Nothing {
        /// The reason, for `gpool doctor` and for jobs that ask for GPUs.
        why: String,
    },
}

impl DevicesArg {
    /// Parses `nvml`, `none`, `sim:…`, `2x(sim:…)` for two nodes with the same devices, or a path,
    /// which contains a `/` or ends in `.toml`. In the file:
    ///
    /// ```toml
    /// [[device]]
    /// model = "NVIDIA H100 80GB HBM3"
    /// memory = "80G"
    /// count = 8               # 1 if absent
    /// numa = 0                # none if absent
    /// links = "nvlink:18"     # or "pcie", "host-bridge", "numa", "system" (if absent)
    /// mig = ["3g.40gb", "1g.10gb"]  # its MIG instances; not divided if absent
    /// ```
    ///
    /// Or, for several nodes, any number of:
    ///
    /// ```toml
    /// [[node]]
    /// name = "n1"
    /// pool = "batch"          # its present pool if absent; "default" for a new node
    /// cpus = 64               # the machine's if absent
    /// memory = "512G"         # the machine's if absent
    /// [[node.device]]         # as above; none for a node without GPUs
    /// model = "NVIDIA H100 80GB HBM3"
    /// memory = "80G"
    /// ```
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

    /// Whether a file names the nodes that `text` describes.
    #[must_use]
    pub fn names_nodes(text: &str) -> bool {
        let choice = Self::parse(text).ok();
        // Only nodes without their own names get this one.
        let nodes = choice.and_then(|choice| choice.nodes(&NodeName::new("node")).ok());
        nodes.is_some_and(|nodes| nodes.are_named)
    }

    /// Returns the nodes. A single node is called `own`; several with the same devices are called
    /// `own-1`, `own-2` and so on.
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
                SimFile::Devices(devices) => {
                    unnamed(vec![plain(own.clone(), NodeDevices::Simulated(devices))])
                }
                SimFile::Nodes(nodes) => {
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

/// Nodes with the same devices, from a count and the text in parentheses.
fn alike(text: &str, count: &str, words: &str) -> Result<DevicesArg, ChoiceError> {
    let Some(words) = words.strip_prefix("sim:") else {
        return Err(ChoiceError::Unknown { value: text.chars().take(80).collect() });
    };
    let devices = sim::from_words(text, words)?;
    let checked = match count.parse() {
        Ok(n_nodes) => sim::check_n_nodes(n_nodes).map(|()| n_nodes),
        Err(_) => Err("before the parenthesis, write a number of nodes and an x".to_owned()),
    };
    let n_nodes = checked.map_err(|why| ChoiceError::Words {
        value: text.chars().take(80).collect(),
        word: count.chars().take(80).collect(),
        why,
    })?;
    Ok(DevicesArg::Alike { n_nodes, devices })
}

impl NodeDevices {
    /// How long the driver may take to start, including devices without persistence mode.
    const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

    /// Opens the source. Simulated devices follow the `control` file.
    #[must_use]
    pub fn open(&self, node: &NodeName, control: &Path) -> Opened {
        self.open_following(node, control, Follows::Nothing)
    }

    /// Opens the source. Simulated devices follow the `control` file, and their tasks as given.
    #[must_use]
    pub fn open_following(&self, node: &NodeName, control: &Path, follows: Follows) -> Opened {
        match self {
            Self::None => Opened::Nothing { why: "no devices are configured".to_owned() },
            Self::Nvml => {
                let library = NvmlSource::library();
                match NvmlSource::open(&library, Self::OPEN_TIMEOUT) {
                    Ok(source) => Opened::Source(Arc::new(source)),
                    Err(nothing) => Opened::Nothing { why: nothing.to_string() },
                }
            }
            Self::Simulated(devices) => {
                let source = SimSource::new(node, devices.clone(), control);
                Opened::Source(Arc::new(source.following(follows)))
            }
        }
    }
}
