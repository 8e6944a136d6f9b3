//! Departures: the devices and host resources that jobs give back on a node, and when.

use gpool_model::{Bytes, Device, GpuRequest, Millis, Timestamp};
use gpool_world::ExpectedEnd;

use super::host_resources::HostResources;

/// A stretch of time; without an end it lasts forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub from: Timestamp,
    pub until: Option<Timestamp>,
}

impl Span {
    pub fn new(from: Timestamp, length: Option<Millis>) -> Self {
        Self { from, until: length.map(|length| from.after(length)) }
    }

    /// Whether the two have a moment in common.
    pub fn meets(self, other: Self) -> bool {
        let before = |one: Self, other: Self| one.until.is_some_and(|until| until <= other.from);
        !before(self, other) && !before(other, self)
    }
}

/// The part of one device that a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceUse {
    pub device_ix: usize,
    /// Bytes of its memory; all of it if the device is used as a whole.
    pub memory: Bytes,
    pub is_whole: bool,
}

impl DeviceUse {
    /// Returns the part that a task with that request has of the device at a position.
    pub fn of(gpus: &GpuRequest, device_ix: usize, device: &Device) -> Self {
        let memory = device.memory;
        match gpus.share() {
            None => Self { device_ix, memory, is_whole: true },
            Some(share) => Self { device_ix, memory: share.memory_of(memory), is_whole: false },
        }
    }
}

/// What a job gives back on a node, and when.
#[derive(Debug, Clone)]
pub(crate) struct Departure {
    pub end: ExpectedEnd,
    pub node_pos: usize,
    pub uses: Vec<DeviceUse>,
    pub host: HostResources,
}

/// Host resources and parts of devices that jobs give back on a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Freed {
    pub host: HostResources,
    /// Positions of devices, with the number of holders that leave and their bytes of its memory.
    /// Nodes have few devices: a search in a list is faster than a map.
    devices: Vec<(usize, (usize, i128))>,
    n_uses: usize,
}

impl Freed {
    /// One holder leaves a device, with that much of its memory.
    pub fn add_device(&mut self, device_ix: usize, memory: Bytes) {
        let memory = i128::from(memory.get());
        match self.devices.iter_mut().find(|(ix, _)| *ix == device_ix) {
            Some((_, (n, sum))) => (*n, *sum) = (*n + 1, *sum + memory),
            None => self.devices.push((device_ix, (1, memory))),
        }
        self.n_uses += 1;
    }

    /// Adds what a departure gives back.
    pub fn add(&mut self, departure: &Departure) {
        departure.uses.iter().for_each(|it| self.add_device(it.device_ix, it.memory));
        self.host = self.host.more(departure.host);
    }

    /// Whether a holder leaves that device.
    pub fn has_device(&self, device_ix: usize) -> bool {
        self.devices.iter().any(|(ix, _)| *ix == device_ix)
    }

    /// Number of device parts that are given back.
    pub fn n_uses(&self) -> usize {
        self.n_uses
    }

    /// Number of holders that leave a device, and their bytes of its memory.
    pub fn of(&self, device_ix: usize) -> (usize, i128) {
        let found = self.devices.iter().find(|(ix, _)| *ix == device_ix);
        found.map(|(_, freed)| *freed).unwrap_or_default()
    }
}
