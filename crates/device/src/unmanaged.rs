//! Finds processes on a device that belong to no job, and decides when the device is clean again.
//! Pure: the caller provides lists and time.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::device::DeviceProcess;
use gpool_model::id::DeviceUuid;
use gpool_model::unit::{Millis, Timestamp};

/// The owner of a process on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belongs {
    /// A task that has this device.
    Here,
    /// A task that does not have this device.
    Elsewhere,
    /// None: gpool did not start it.
    Nobody,
}

/// Processes that a site does not count as use of a device: a display server, a monitoring tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignore {
    /// By program name; the whole name must match.
    pub names: BTreeSet<String>,
    pub pids: BTreeSet<u32>,
}

impl Ignore {
    fn covers(&self, process: &DeviceProcess) -> bool {
        self.pids.contains(&process.pid)
            || process.name.as_ref().is_some_and(|name| self.names.contains(name))
    }
}

/// The unexpected processes of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Not started by gpool, and not ignored.
    pub unmanaged: Vec<DeviceProcess>,
    /// Started by gpool, on a device that their task was not given.
    pub strays: Vec<DeviceProcess>,
}

/// Sorts the processes of one device by owner. Keeps the order.
#[must_use]
pub fn sort_processes(
    processes: &[DeviceProcess],
    belongs: &dyn Fn(u32) -> Belongs,
    ignore: &Ignore,
) -> Sorted {
    let mut sorted = Sorted::default();
    for process in processes {
        match belongs(process.pid) {
            Belongs::Here => {}
            Belongs::Elsewhere => sorted.strays.push(process.clone()),
            Belongs::Nobody if ignore.covers(process) => {}
            Belongs::Nobody => sorted.unmanaged.push(process.clone()),
        }
    }
    sorted
}

/// Keeps a device in unmanaged use until it was clean for a while. Otherwise a job could start
/// between two processes of a program that starts one after the other.
#[derive(Debug, Clone)]
pub struct UnmanagedGrace {
    grace: Millis,
    devices: BTreeMap<DeviceUuid, LastPoll>,
}

#[derive(Debug, Clone)]
struct LastPoll {
    processes: Vec<DeviceProcess>,
    /// The first poll that found the device clean, if the last one did.
    clean_since: Option<Timestamp>,
}

impl UnmanagedGrace {
    /// The default time that a device must be clean.
    pub const DEFAULT: Millis = Millis::from_secs(5);

    /// Every device is clean at first.
    #[must_use]
    pub fn new(grace: Millis) -> Self {
        Self { grace, devices: BTreeMap::new() }
    }

    /// Takes the result of a poll and returns the processes to report: those found; if none, the
    /// last ones found, until the device was clean for the grace period.
    pub fn observe(
        &mut self,
        device: &DeviceUuid,
        found: Vec<DeviceProcess>,
        now: Timestamp,
    ) -> &[DeviceProcess] {
        if !found.is_empty() {
            let last = LastPoll { processes: found, clean_since: None };
            self.devices.insert(device.clone(), last);
        } else if let Some(last) = self.devices.get_mut(device) {
            // If the clock was set back, a clean device must not wait until it has caught up.
            let since = last.clean_since.filter(|since| *since <= now).unwrap_or(now);
            last.clean_since = Some(since);
            if now.since(since) >= self.grace {
                self.devices.remove(device);
            }
        }
        self.unmanaged(device)
    }

    /// The processes that were last reported; none if the device is clean.
    #[must_use]
    pub fn unmanaged(&self, device: &DeviceUuid) -> &[DeviceProcess] {
        self.devices.get(device).map_or(&[], |last| &last.processes)
    }
}

impl Default for UnmanagedGrace {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}
