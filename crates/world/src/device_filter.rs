//! The filter of devices that new work must not have, free or not.

use crate::ledger::NodeRow;
use gpool_model::device::Guest;
use gpool_model::{DeviceHealth, DeviceProcess, Drain};

/// Why a device is not available for new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable<'a> {
    /// It is faulty, lost or does not answer.
    Unhealthy(&'a DeviceHealth),
    /// A process that gpool did not start uses it.
    Unmanaged(&'a DeviceProcess),
    /// An admin excludes it from new work.
    NotAllowed,
    /// An admin drains it or its node.
    Drained(&'a Drain),
    /// It is divided into MIG instances, so there is no whole device to give.
    Divided,
    /// A job that booked another device is on it, and can't move.
    Guest(&'a Guest),
}

impl Unusable<'_> {
    /// Returns why the device can't be used, for people; nothing if it could be.
    #[must_use]
    pub fn fault(&self) -> String {
        match self {
            Self::Unhealthy(health) => health.fault().unwrap_or_default(),
            Self::Divided => "it is divided into MIG instances".to_owned(),
            Self::Guest(guest) => {
                format!("job {}, which booked another one, is on it and can't move", guest.task.job)
            }
            Self::Unmanaged(_) | Self::NotAllowed | Self::Drained(_) => String::new(),
        }
    }
}

/// Returns why a device of a node is not available for new work; `None` if it is.
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
    device.guests.iter().find(|guest| guest.is_stuck).map(Unusable::Guest)
}
