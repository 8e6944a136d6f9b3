//! How firmly a node holds jobs to the devices and the memory that they were given.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A level of enforcement. Each level includes the ones before it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The devices or their memory are reserved, and nothing checks the job.
    #[default]
    Booked,
    /// The agent reads the driver's figures and reports a job that uses more.
    Monitored,
    /// Allocations above the share fail, in programs that load the driver as usual.
    Capped,
    /// The job can't reach the rest of the device, or other devices.
    Isolated,
}

impl Enforcement {
    /// All levels, weakest first.
    pub const ALL: [Self; 4] = [Self::Booked, Self::Monitored, Self::Capped, Self::Isolated];

    /// The level in the API and in `--enforce`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Booked => "booked",
            Self::Monitored => "monitored",
            Self::Capped => "capped",
            Self::Isolated => "isolated",
        }
    }

    /// Whether it is the lowest level, which holds everywhere.
    #[must_use]
    pub fn is_booked(&self) -> bool {
        *self == Self::Booked
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text is not a level of enforcement.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{value:?} is not a level; use booked, monitored, capped or isolated")]
pub struct NoSuchEnforcement {
    /// The text.
    pub value: String,
}

impl FromStr for Enforcement {
    type Err = NoSuchEnforcement;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| NoSuchEnforcement { value: text.chars().take(40).collect() })
    }
}

/// The levels that a node holds on a device, as its agent probed them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Enforced {
    /// For a job with a fraction of the device.
    pub share: Enforcement,
    /// For a job with the whole device.
    pub whole: Enforcement,
    /// The mechanisms that were probed, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
}

impl Enforced {
    /// Whether nothing was probed, as in the inventory of an older agent.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The result of probing one mechanism on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Why it does not work here, for people; `None` if it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// A mechanism that the level of a device, or the handling of its jobs, depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// The filter of devices in a job's control group: whole devices are isolated.
    DeviceFilter,
    /// Memory limits of the driver for control groups: shares are capped.
    DriverLimits,
    /// The library in front of the driver: shares are capped.
    Shim,
    /// The driver's list of processes with their memory: shares are monitored.
    ProcessMemory,
    /// Persistence mode: devices stay awake between programs.
    Persistence,
}

impl Mechanism {
    /// All mechanisms, in the order of reports.
    pub const ALL: [Self; 5] = [
        Self::DeviceFilter,
        Self::DriverLimits,
        Self::Shim,
        Self::ProcessMemory,
        Self::Persistence,
    ];

    /// The mechanism for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeviceFilter => "device filter",
            Self::DriverLimits => "driver limits",
            Self::Shim => "shim",
            Self::ProcessMemory => "process memory",
            Self::Persistence => "persistence mode",
        }
    }
}
