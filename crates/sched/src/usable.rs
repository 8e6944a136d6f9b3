//! Whether a device may be given to new work at all, free or not.

use gpool_model::{DeviceHealth, DeviceProcess, Drain};
use gpool_world::NodeRow;

/// What keeps a device from new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable<'a> {
    /// It is faulty, lost or does not answer.
    Unhealthy(&'a DeviceHealth),
    /// A process that gpool did not start uses it.
    Unmanaged(&'a DeviceProcess),
    /// An admin keeps it from new work.
    NotAllowed,
    /// An admin empties it, or its node.
    Drained(&'a Drain),
    /// It is divided into MIG instances, so there is no whole device to give.
    Divided,
}

/// What keeps a device of a node from new work; `None` if nothing does.
#[must_use]
pub fn unusable(row: &NodeRow, device_ix: usize) -> Option<Unusable<'_>> {
    let device = &row.node.devices[device_ix];
    if device.health != DeviceHealth::Healthy {
        return Some(Unusable::Unhealthy(&device.health));
    }
    if let Some(process) = device.unmanaged.first() {
        return Some(Unusable::Unmanaged(process));
    }
    if !row.node.allows(&device.uuid) {
        return Some(Unusable::NotAllowed);
    }
    if let Some(drain) = row.node.drain_of(&device.uuid) {
        return Some(Unusable::Drained(drain));
    }
    if device.is_divided() {
        return Some(Unusable::Divided);
    }
    None
}
