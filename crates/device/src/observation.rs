//! The state of a device at its last poll.

use std::collections::BTreeMap;

use gpool_model::device::{DeviceHealth, DeviceProcess, DeviceSample};

use crate::source::ProcessActivity;

/// The present state of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Whether jobs can use it, from all its answers so far.
    pub health: DeviceHealth,
    /// The last values; all are absent while the device does not answer.
    pub sample: DeviceSample,
    /// Its compute processes, by process ID. `None` if they were not requested, if there was no
    /// answer (then `health` says so), or if the driver can't list them.
    pub processes: Option<Vec<DeviceProcess>>,
    /// How much each process used it since the list was last read, by process ID; `None` if that is
    /// unknown for one.
    pub activity: Option<BTreeMap<u32, ProcessActivity>>,
}
