//! Which devices an agent has: `--devices` as users write it, and the source it stands for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpool_model::id::NodeName;
use thiserror::Error;

use crate::nvml::NvmlSource;
use crate::sim::{self, SimDevice, SimSource};
use crate::source::DeviceSource;

/// What `--devices` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DevicesArg {
    /// Those of the NVIDIA driver.
    Nvml,
    /// None: a node for work without GPUs.
    None,
    /// Simulated ones, from words.
    Simulated(Vec<SimDevice>),
    /// Simulated ones, from a TOML file.
    File(PathBuf),
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

/// Why `--devices` makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChoiceError {
    /// It is none of the words, and no path.
    #[error(
        "{value:?} names no devices; write nvml, none, sim:8xH100-80G or the path of a .toml file"
    )]
    Unknown {
        /// What was written.
        value: String,
    },
    /// A group of simulated devices can't be read.
    #[error("{value:?}: {why}, at {word:?}; write, for example, sim:4xA100-40G,4xH100-80G")]
    Words {
        /// What was written.
        value: String,
        /// The part that is wrong.
        word: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file can't be read, or something in it; with its position.
    #[error("{why}")]
    File {
        /// What is wrong, and where.
        why: String,
    },
}

impl DevicesArg {
    /// How long the driver may take to come up, devices without persistence mode included.
    const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

    /// Reads `nvml`, `none`, `sim:…` or a path; a path has a `/` or ends in `.toml`. In the file:
    ///
    /// ```toml
    /// [[device]]
    /// model = "NVIDIA H100 80GB HBM3"
    /// memory = "80G"
    /// count = 8               # 1 if absent
    /// numa = 0                # none if absent
    /// links = "nvlink:18"     # or "pcie", "host-bridge", "numa", "system" (if absent)
    /// ```
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<Self, ChoiceError> {
        let is_path = text.contains('/') || text.ends_with(".toml");
        match text {
            "nvml" => Ok(Self::Nvml),
            "none" => Ok(Self::None),
            _ => match text.strip_prefix("sim:") {
                Some(words) => sim::from_words(text, words).map(Self::Simulated),
                None if is_path => Ok(Self::File(text.into())),
                None => Err(ChoiceError::Unknown { value: text.chars().take(80).collect() }),
            },
        }
    }

    /// The source that the words stand for. Simulated devices of a node do what `control` says.
    ///
    /// # Errors
    /// If a file of devices can't be read. A missing driver is no error.
    pub fn open(&self, node: &NodeName, control: &Path) -> Result<Opened, ChoiceError> {
        let devices = match self {
            Self::None => {
                let why = "the agent was started with --devices none".to_string();
                return Ok(Opened::Nothing { why });
            }
            Self::Nvml => {
                let library = NvmlSource::library();
                return Ok(match NvmlSource::open(&library, Self::OPEN_TIMEOUT) {
                    Ok(source) => Opened::Source(Arc::new(source)),
                    Err(nothing) => Opened::Nothing { why: nothing.to_string() },
                });
            }
            Self::Simulated(devices) => devices.clone(),
            Self::File(file) => sim::from_file(file)?,
        };
        Ok(Opened::Source(Arc::new(SimSource::new(node, devices, control))))
    }
}
