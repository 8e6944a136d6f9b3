//! Pausing and resuming all processes of a task.

use gpool_model::id::{DeviceUuid, Generation};

use super::Shepherd;
use crate::message::FromShepherd;

/// Whether the processes of a task are paused, and the generation of that order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Halt {
    /// The generation of the last order.
    generation: Generation,
    is_paused: bool,
}

impl Shepherd {
    /// Pauses all processes and reports it once it is noted in the claim, or reports that pausing
    /// failed. A repeated order gets the same report again.
    pub(super) fn pause(&mut self, generation: Generation) {
        if generation < self.halt.generation || self.ending.is_some() || self.exit.is_some() {
            return;
        }
        self.halt.generation = generation;
        if !self.halt.is_paused {
            let tree = self.tree.as_ref().filter(|_| self.started.is_some());
            if !tree.is_some_and(super::tree::Tree::freeze) {
                self.tree.iter().for_each(super::tree::Tree::thaw);
                return self.link.say(&FromShepherd::NotPaused { generation });
            }
            self.halt.is_paused = true;
            self.allowed.pause();
            self.set_timer();
        }
        // If the disk is full, a later agent repeats the order and gets the report then.
        let _ = self.claim.halted(generation, true);
        self.link.say(&FromShepherd::Paused { generation });
    }

    /// Resumes all processes, on these devices.
    pub(super) fn resume(&mut self, generation: Generation, devices: &[DeviceUuid]) {
        if generation < self.halt.generation {
            return;
        }
        self.halt.generation = generation;
        self.move_to(devices);
        if self.halt.is_paused {
            // Noted first: the claim must not show a running task as paused.
            let _ = self.claim.halted(generation, false);
            self.thaw();
        }
        self.link.say(&FromShepherd::Resumed { generation });
    }

    /// Leaves the devices, to go to others. Simulated devices hold nothing of a task, so only the
    /// claim shows it.
    pub(super) fn leave_devices(&mut self) {
        let _ = self.claim.detached();
        self.link.say(&FromShepherd::Detached { is_done: true });
    }

    /// Comes to these devices.
    pub(super) fn take_devices(&mut self, devices: &[DeviceUuid]) {
        self.move_to(devices);
        self.link.say(&FromShepherd::Attached { devices: devices.to_vec() });
    }

    fn move_to(&mut self, devices: &[DeviceUuid]) {
        let slots = &mut self.launch.order.allocation.slots;
        for (slot, device) in slots.iter_mut().zip(devices) {
            slot.device = device.clone();
        }
        if !devices.is_empty() {
            // If the disk is full, a later agent repeats the order.
            let _ = self.claim.attached(devices);
        }
    }

    /// Lets all processes go on, without a report.
    pub(super) fn thaw(&mut self) {
        if std::mem::take(&mut self.halt.is_paused) {
            self.tree.iter().for_each(super::tree::Tree::thaw);
            self.allowed.resume();
            self.set_timer();
        }
    }

    /// Reports to a new agent whether the task is paused.
    pub(super) fn say_halt(&mut self) {
        if self.halt.is_paused {
            self.link.say(&FromShepherd::Paused { generation: self.halt.generation });
        }
    }
}
