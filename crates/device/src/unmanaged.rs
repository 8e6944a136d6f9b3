//! Which processes on a device are nobody's job, and when a device is clean again. Pure: lists go
//! in and come out, the caller has the clock.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::device::DeviceProcess;
use gpool_model::id::DeviceUuid;
use gpool_model::unit::{Millis, Timestamp};

/// Whose a process on a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belongs {
    /// To an allocation that has this device.
    Here,
    /// To an allocation of ours that does not have this device.
    Elsewhere,
    /// To nothing that gpool started.
    Nobody,
}

/// Processes that a site does not count as use of a device: a display server, a monitor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignore {
    /// By the program's name, whole.
    pub names: BTreeSet<String>,
    /// By process id.
    pub pids: BTreeSet<u32>,
}

impl Ignore {
    fn covers(&self, process: &DeviceProcess) -> bool {
        self.pids.contains(&process.pid)
            || process.name.as_ref().is_some_and(|name| self.names.contains(name))
    }
}

/// The processes of one device that are not where they should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Not started by gpool, and not ignored.
    pub unmanaged: Vec<DeviceProcess>,
    /// Started by gpool, on a device that it was not given.
    pub strays: Vec<DeviceProcess>,
}

/// Tells the processes of one device apart. Order is kept.
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

/// Keeps a device in unmanaged use until it was clean for a while, so that a program that starts
/// one process after the other does not meet a job in between.
#[derive(Debug, Clone)]
pub struct UnmanagedGrace {
    grace: Millis,
    devices: BTreeMap<DeviceUuid, Last>,
}

#[derive(Debug, Clone)]
struct Last {
    processes: Vec<DeviceProcess>,
    /// The first of the looks that found nothing, if the last one did.
    clean_since: Option<Timestamp>,
}

impl UnmanagedGrace {
    /// How long a device must be clean by default.
    pub const DEFAULT: Millis = Millis::from_secs(5);

    /// Nothing is in unmanaged use until somebody says so.
    #[must_use]
    pub fn new(grace: Millis) -> Self {
        Self { grace, devices: BTreeMap::new() }
    }

    /// Takes a look's result and says which processes the device is to be shown with: those found;
    /// if none, those found last, until the device was clean for the whole grace.
    pub fn observe(
        &mut self,
        device: &DeviceUuid,
        found: Vec<DeviceProcess>,
        now: Timestamp,
    ) -> &[DeviceProcess] {
        if !found.is_empty() {
            let last = Last { processes: found, clean_since: None };
            self.devices.insert(device.clone(), last);
        } else if let Some(last) = self.devices.get_mut(device) {
            // A clock that was set back must not keep a clean device until it has caught up.
            let since = last.clean_since.filter(|since| *since <= now).unwrap_or(now);
            last.clean_since = Some(since);
            if now.since(since) >= self.grace {
                self.devices.remove(device);
            }
        }
        self.unmanaged(device)
    }

    /// The processes that a device was last shown with; none if it is clean.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, name: &str) -> DeviceProcess {
        let name = Some(name.to_string());
        DeviceProcess { pid, user: None, name, memory: None, seen_since: Timestamp::ZERO }
    }

    fn at(second: u32) -> Timestamp {
        Timestamp::ZERO.after(Millis::from_secs(second))
    }

    #[test]
    fn processes_are_ours_strays_or_unmanaged() {
        let all = [process(1, "ours"), process(2, "ours"), process(3, "python")];
        let belongs = |pid| match pid {
            1 => Belongs::Here,
            2 => Belongs::Elsewhere,
            _ => Belongs::Nobody,
        };
        let sorted = sort_processes(&all, &belongs, &Ignore::default());
        assert_eq!(sorted.strays, [all[1].clone()]);
        assert_eq!(sorted.unmanaged, [all[2].clone()]);
    }

    #[test]
    fn ignoring_takes_whole_names_and_pids_and_never_hides_a_stray() {
        let all =
            [process(1, "Xorg"), process(2, "Xorg2"), process(3, "python"), process(4, "Xorg")];
        let belongs = |pid| if pid == 4 { Belongs::Elsewhere } else { Belongs::Nobody };
        let ignore =
            Ignore { names: BTreeSet::from(["Xorg".to_string()]), pids: BTreeSet::from([3]) };
        let sorted = sort_processes(&all, &belongs, &ignore);
        assert_eq!(sorted.unmanaged, [all[1].clone()]);
        assert_eq!(sorted.strays, [all[3].clone()]);
    }

    #[test]
    fn a_device_returns_after_it_was_clean_for_the_grace() {
        let mut grace = UnmanagedGrace::default();
        let gpu = DeviceUuid::new("GPU-a");
        assert!(grace.observe(&gpu, vec![], at(0)).is_empty(), "clean from the start is clean");
        assert_eq!(grace.observe(&gpu, vec![process(3, "python")], at(1)).len(), 1);
        assert_eq!(grace.observe(&gpu, vec![], at(10)).len(), 1, "the first clean look");
        assert_eq!(grace.observe(&gpu, vec![], at(14)).len(), 1);
        assert_eq!(grace.observe(&gpu, vec![process(4, "sh")], at(14))[0].pid, 4);
        assert_eq!(grace.observe(&gpu, vec![], at(15)).len(), 1, "the grace starts anew");
        assert_eq!(grace.observe(&gpu, vec![], at(19)).len(), 1);
        assert!(grace.observe(&gpu, vec![], at(20)).is_empty());
    }

    #[test]
    fn a_clock_set_back_keeps_a_clean_device_for_one_grace_more() {
        let mut grace = UnmanagedGrace::default();
        let gpu = DeviceUuid::new("GPU-a");
        grace.observe(&gpu, vec![process(3, "python")], at(4000));
        assert_eq!(grace.observe(&gpu, vec![], at(4001)).len(), 1);
        assert_eq!(grace.observe(&gpu, vec![], at(402)).len(), 1, "the clock was set back");
        assert!(grace.observe(&gpu, vec![], at(407)).is_empty());
    }
}
