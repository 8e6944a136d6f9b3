//! What can be asked of whoever has the devices. Calls block, possibly for ever: only
//! [`crate::Monitor`] makes them, on threads of its own.

use std::collections::BTreeMap;

use gpool_model::device::{Device, DeviceHealth, DeviceSample, Link};
use gpool_model::id::DeviceUuid;
use gpool_model::unit::Bytes;
use thiserror::Error;

/// Something that has devices: the driver, or a simulation.
///
/// What it does not support is `None`, never zero and never an error. Devices are asked for one by
/// one, so that one that hangs hides no other.
pub trait DeviceSource: Send + Sync {
    /// How many devices there are, and who says so.
    ///
    /// # Errors
    /// If the source as a whole does not answer properly.
    fn outline(&self) -> Result<Outline, SourceError>;

    /// What the device at an index is and how it is, with its MIG instances; without links and
    /// processes.
    ///
    /// # Errors
    /// If it can't be had: it is gone, or not ours to see.
    fn describe(&self, index: u32) -> Result<Described, SourceError>;

    /// How near a described device is to other described ones; what is not said is
    /// [`Link::System`].
    ///
    /// # Errors
    /// If the device is gone.
    fn links(
        &self,
        uuid: &DeviceUuid,
        others: &[DeviceUuid],
    ) -> Result<BTreeMap<DeviceUuid, Link>, SourceError>;

    /// Memory and utilisation, without temperature and power.
    ///
    /// # Errors
    /// If the device is gone.
    fn usage(&self, uuid: &DeviceUuid) -> Result<DeviceSample, SourceError>;

    /// Temperature and power, without memory and utilisation.
    ///
    /// # Errors
    /// If the device is gone.
    fn thermal(&self, uuid: &DeviceUuid) -> Result<DeviceSample, SourceError>;

    /// Its compute processes, by pid; `None` where the driver can't list them. Those on MIG
    /// instances are theirs alone, and none of the device that is divided into them.
    ///
    /// # Errors
    /// If the device is gone or the list can't be had this time.
    fn processes(&self, uuid: &DeviceUuid) -> Result<Option<Vec<RawProcess>>, SourceError>;

    /// Whether it reports a fault.
    ///
    /// # Errors
    /// If that can't be had this time.
    fn health(&self, uuid: &DeviceUuid) -> Result<DeviceHealth, SourceError>;

    /// Whether a device is free once the processes that have it are stopped where they are: only
    /// where it holds nothing of theirs.
    fn is_free_of_the_stopped(&self) -> bool {
        false
    }
}

/// A device, and what it is divided into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The device.
    pub device: Device,
    /// Its MIG instances, by index.
    pub instances: Vec<Device>,
}

/// A source as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Who answers, for people: `NVIDIA 580.95.05`, `simulated`.
    pub driver: String,
    /// Devices have the indexes below this.
    pub n_devices: u32,
}

/// All devices of a node, as far as they answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// Who answers, for people.
    pub driver: String,
    /// In the driver's order, MIG instances behind all others; one that answered before and does
    /// not now is here as it was, with its health saying so. Nobody's processes are not filled in.
    pub devices: Vec<Device>,
    /// Those that never answered.
    pub silent: Vec<Silent>,
}

/// A device of which nothing is known but its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent {
    /// The driver's index.
    pub index: u32,
    /// What became of the question, for people.
    pub why: String,
}

/// A compute process as the source lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawProcess {
    /// Its process id on the node.
    pub pid: u32,
    /// Memory it uses on the device, where the source can tell.
    pub memory: Option<Bytes>,
    /// Its owner, where the source knows better than `/proc`.
    pub user: Option<String>,
    /// Its program, where the source knows better than `/proc`.
    pub name: Option<String>,
}

/// Why a source did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The device fell off the bus.
    #[error("the driver says that the device is gone from the bus")]
    Lost,
    /// The driver refuses all work on the device until it is reset.
    #[error("the driver says that the device must be reset before it can be used again")]
    NeedsReset,
    /// Nobody described a device of that name.
    #[error("there is no device {0}")]
    NoDevice(DeviceUuid),
    /// A call failed in a way that says nothing of the device's state.
    #[error("{call} failed: {why}")]
    Call {
        /// What was called.
        call: &'static str,
        /// What came back.
        why: String,
    },
    /// The control file of simulated devices can't be used.
    #[error("{0}")]
    Control(String),
    /// There was no answer in time.
    #[error("the driver did not answer a question about {asked}")]
    Hung {
        /// What was asked.
        asked: &'static str,
    },
    /// The thread that asks could not be started.
    #[error("can't start a thread to ask the driver: {0}")]
    Thread(String),
}

impl SourceError {
    /// What the error says about the device's health.
    #[must_use]
    pub fn health(&self) -> DeviceHealth {
        match self {
            Self::Lost => DeviceHealth::Lost,
            Self::NeedsReset => DeviceHealth::Unhealthy { why: self.to_string() },
            Self::NoDevice(_)
            | Self::Call { .. }
            | Self::Control(_)
            | Self::Hung { .. }
            | Self::Thread(_) => DeviceHealth::Unknown { why: self.to_string() },
        }
    }
}
