//! The interface to a source of devices. Calls may block forever: only [`crate::Monitor`] makes
//! them, on separate threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpool_model::device::{Device, DeviceDetail, DeviceHealth, DeviceSample, Link};
use gpool_model::id::DeviceUuid;
use gpool_model::mig_layout::{MigError, MigSize};
use gpool_model::unit::Bytes;
use thiserror::Error;

use crate::sim_load::SimLoad;

/// Why the instances of simulated devices can't be changed.
const SIMULATED: &str =
    "simulated GPUs are divided by the file of --devices, when the server starts";

/// A source of devices: the driver, or a simulation.
///
/// Unsupported values are `None`, never zero and never an error. Devices are polled one by one, so
/// that a hung device does not affect the others.
pub trait DeviceSource: Send + Sync {
    /// The number of devices, and the driver.
    ///
    /// # Errors
    /// If the source as a whole does not answer correctly.
    fn outline(&self) -> Result<Outline, SourceError>;

    /// The device at an index with its health and MIG instances; without links and processes.
    ///
    /// # Errors
    /// If the device is gone, or gpool may not use it.
    fn describe(&self, index: u32) -> Result<Described, SourceError>;

    /// The links from a described device to others; [`Link::System`] for those that are missing.
    ///
    /// # Errors
    /// If the device is gone.
    fn links(
        &self,
        uuid: &DeviceUuid,
        others: &[DeviceUuid],
    ) -> Result<BTreeMap<DeviceUuid, Link>, SourceError>;

    /// Memory and utilisation, without details.
    ///
    /// # Errors
    /// If the device is gone.
    fn usage(&self, uuid: &DeviceUuid) -> Result<DeviceSample, SourceError>;

    /// Temperature, power, clocks, and activity of the units. The activity is that since the last
    /// call.
    ///
    /// # Errors
    /// If the device is gone.
    fn detail(&self, uuid: &DeviceUuid) -> Result<DeviceDetail, SourceError>;

    /// Its compute processes, by process ID; `None` if the driver can't list them. Processes on a
    /// MIG instance belong to the instance only, not to the divided device.
    ///
    /// # Errors
    /// If the device is gone or the list is not available this time.
    fn processes(&self, uuid: &DeviceUuid) -> Result<Option<Vec<RawProcess>>, SourceError>;

    /// The device's health.
    ///
    /// # Errors
    /// If the health is not available this time.
    fn health(&self, uuid: &DeviceUuid) -> Result<DeviceHealth, SourceError>;

    /// The sizes of MIG instances that a device with MIG mode can have, and its instances. They
    /// have no index.
    ///
    /// # Errors
    /// If the mode is off, or the driver can't list them.
    fn mig_sizes(&self, uuid: &DeviceUuid) -> Result<Vec<MigSize>, MigError> {
        let _ = uuid;
        Err(MigError::Driver { why: SIMULATED.to_owned() })
    }

    /// Creates a MIG instance, and returns its UUID.
    ///
    /// # Errors
    /// If the device has no such profile or no room, or the driver refuses.
    fn create_instance(&self, uuid: &DeviceUuid, profile: &str) -> Result<DeviceUuid, MigError> {
        let _ = (uuid, profile);
        Err(MigError::Driver { why: SIMULATED.to_owned() })
    }

    /// Destroys a MIG instance.
    ///
    /// # Errors
    /// If it is in use, or the driver refuses.
    fn destroy_instance(&self, instance: &DeviceUuid) -> Result<(), MigError> {
        let _ = instance;
        Err(MigError::Driver { why: SIMULATED.to_owned() })
    }

    /// The driver's libraries that programs load; `None` if programs use the devices without any.
    fn libraries(&self) -> Option<Libraries> {
        None
    }

    /// Limits the memory that the processes of a control group may use on a device, or removes the
    /// limit. Only memory that they allocate afterwards counts.
    ///
    /// # Errors
    /// If the driver can't do this, or refuses it.
    fn limit_memory(
        &self,
        uuid: &DeviceUuid,
        group: &Path,
        limit: Option<Bytes>,
    ) -> Result<(), SourceError> {
        let _ = (uuid, group, limit);
        let why = "there is no driver that could".to_owned();
        Err(SourceError::Call { call: "limiting memory", why })
    }

    /// The NVLink domain of the devices: GPUs of several machines with one domain reach each other
    /// by NVLink. `None` if there is none, or the devices have not joined it yet.
    fn nvlink_domain(&self) -> Option<String> {
        None
    }

    /// Whether the devices are simulated and follow their tasks.
    fn is_simulated(&self) -> bool {
        false
    }

    /// Tells simulated devices which tasks use them now. Real ones see that themselves.
    fn simulate(&self, loads: BTreeMap<DeviceUuid, Vec<SimLoad>>) {
        drop(loads);
    }

    /// What a task needs to be paused beside stopping its processes.
    fn pausing(&self) -> Pausing {
        Pausing::Impossible
    }
}

/// The driver's libraries, by absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libraries {
    /// `libcuda.so.1`, if it is beside the other one.
    pub cuda: Option<PathBuf>,
    /// `libnvidia-ml.so.1`.
    pub nvml: PathBuf,
}

/// How the devices of a paused task become free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pausing {
    /// Stopped processes leave nothing on a device.
    Stop,
    /// NVIDIA's driver moves their memory to the host's, if its version can.
    Checkpoint,
    /// They do not become free.
    Impossible,
}

/// A device with its MIG instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    pub device: Device,
    /// Its MIG instances, by index.
    pub instances: Vec<Device>,
}

/// A source as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The driver, for display: `NVIDIA 580.95.05`, `simulated`.
    pub driver: String,
    /// The number of devices; their indexes are below it.
    pub n_devices: u32,
}

/// All devices of a node that have answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// The driver, for display.
    pub driver: String,
    /// See [`DeviceSource::nvlink_domain`].
    pub nvlink: Option<String>,
    /// In the driver's order, MIG instances last. A device that answered before and does not now is
    /// listed with its old description and its present health. Unmanaged processes are not filled
    /// in.
    pub devices: Vec<Device>,
    /// Devices that have never answered.
    pub silent: Vec<Silent>,
}

/// A device that has never answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent {
    /// The driver's index.
    pub index: u32,
    /// Why there was no answer, for display.
    pub why: String,
}

/// A compute process as the source lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawProcess {
    /// Its process ID on the node.
    pub pid: u32,
    /// Its memory on the device, if the source can tell.
    pub memory: Option<Bytes>,
    /// Its owner, if the source knows better than `/proc`.
    pub user: Option<String>,
    /// Its program, if the source knows better than `/proc`.
    pub name: Option<String>,
    /// Whether it uses the device through MPS.
    pub is_mps: bool,
    /// How much it used the device since the list was last read; `None` if that is unknown.
    pub activity: Option<ProcessActivity>,
}

/// How much a process uses a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessActivity {
    /// Percentage of the time in which its kernels ran.
    pub compute_percent: u32,
    /// Percentage of the time in which it moved memory.
    pub traffic_percent: u32,
}

impl ProcessActivity {
    /// Whether it used the device at all.
    #[must_use]
    pub fn is_busy(self) -> bool {
        self.compute_percent > 0 || self.traffic_percent > 0
    }
}

/// Why a source did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The device fell off the bus.
    #[error("the driver reports that the device has fallen off the bus")]
    Lost,
    /// The driver refuses all work on the device until it is reset.
    #[error("the driver reports that the device needs a reset")]
    NeedsReset,
    /// No device with this UUID was described.
    #[error("there is no device {0}")]
    NoDevice(DeviceUuid),
    /// A call failed in a way that says nothing about the device's state.
    #[error("{call} failed: {why}")]
    Call { call: &'static str, why: String },
    /// The control file of simulated devices can't be used.
    #[error("{0}")]
    Control(String),
    /// There was no answer in time.
    #[error("the driver did not answer in time: {question}")]
    Hung { question: &'static str },
    /// The polling thread could not be started.
    #[error("can't start a thread for driver calls: {0}")]
    Thread(String),
}

impl SourceError {
    /// The device's health that follows from the error.
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
