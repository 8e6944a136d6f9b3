//! How a device can be divided into MIG instances, how it is, and changes of that.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::{DeviceUuid, TaskId};
use crate::unit::Bytes;

/// A change of the instances of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigChange {
    /// Create an instance where the driver places it.
    Create {
        /// The device, which has MIG mode on.
        device: DeviceUuid,
        /// The name of the profile.
        profile: String,
    },
    /// Destroy an instance that no job and no process uses.
    Destroy {
        /// The instance.
        instance: DeviceUuid,
    },
}

/// The devices of a node that have MIG mode on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigReport {
    /// By index.
    pub devices: Vec<MigDevice>,
    /// The instance that was created.
    pub created: Option<DeviceUuid>,
}

/// A device that has MIG mode on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigDevice {
    /// The device.
    pub uuid: DeviceUuid,
    /// Its index.
    pub index: u32,
    /// The sizes of instances that it can have.
    pub sizes: Vec<MigSize>,
}

/// A size of instances of one device, and the instances of that size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigSize {
    /// The driver's profile: `1g.10gb`, `1g.10gb+me`.
    pub profile: String,
    /// Memory of an instance.
    pub memory: Bytes,
    /// Compute slices of an instance.
    pub compute_slices: u32,
    /// Streaming multiprocessors of an instance.
    pub multiprocessors: u32,
    /// The number of instances that an empty device can have.
    pub n_max: u32,
    /// The number of further instances that the device can have now.
    pub n_free: u32,
    /// Where an instance can be, in memory slices.
    pub placements: Vec<MigPlacement>,
    /// The instances of this size, by place.
    pub instances: Vec<MigInstance>,
}

/// A part of a device: memory slices from a first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MigPlacement {
    /// The first slice.
    pub start: u32,
    /// The number of slices.
    pub size: u32,
}

/// An instance of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigInstance {
    /// Where it is.
    pub placement: MigPlacement,
    /// Its UUID and index; `None` if it has no compute instance, so that no program can use it.
    pub device: Option<(DeviceUuid, u32)>,
}

/// Why the instances of a node could not be read or changed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigError {
    /// A task has the instance, or is being started on it.
    #[error("job {} has it", .task.job)]
    HasTask {
        /// The task.
        task: TaskId,
    },
    /// A process that gpool did not start uses the instance.
    #[error("process {pid} ({name}) uses it")]
    HasProcess {
        /// Its process ID.
        pid: u32,
        /// Its program and user, as far as known.
        name: String,
    },
    /// The device has no such profile.
    #[error("there is no MIG profile {profile:?}; there are {}", .known.join(", "))]
    NoSuchProfile {
        /// The profile.
        profile: String,
        /// The device's profiles.
        known: Vec<String>,
    },
    /// The device has no room for the instance.
    #[error("there is no room for {profile}; there is room for {}", room(.free))]
    NoRoom {
        /// The profile.
        profile: String,
        /// The profiles that fit.
        free: Vec<String>,
    },
    /// The device is gone.
    #[error("there is no such device")]
    NoSuchDevice,
    /// The device does not have MIG mode on.
    #[error("MIG mode is off")]
    IsOff,
    /// The driver failed, or refused.
    #[error("{why}")]
    Driver {
        /// Its message.
        why: String,
    },
}

fn room(free: &[String]) -> String {
    if free.is_empty() { "no other".to_owned() } else { free.join(", ") }
}
