//! Moves to other devices of the node: the task leaves its devices, and later comes to others.

use std::collections::BTreeMap;

use gpool_checkpoint::ResidentProcess;
use gpool_model::id::DeviceUuid;

use super::super::Shepherd;
use crate::message::FromShepherd;

impl Shepherd {
    /// Leaves the devices, to go to others. Simulated devices hold nothing of a task, so only the
    /// claim shows it.
    pub(in crate::shepherd) fn leave_devices(&mut self) {
        if self.launch.pausing.is_none() {
            self.note_detached();
            return self.link.say(&FromShepherd::Detached { is_done: true, why: None });
        }
        if !self.can_vacate() {
            let why = Some("it is not running on a GPU that it could leave".to_owned());
            return self.link.say(&FromShepherd::Detached { is_done: false, why });
        }
        self.halt.leaves = true;
        self.follow_order();
    }

    /// Reports that the task has left its devices.
    pub(super) fn say_detached(&mut self) {
        if !self.halt.is_detached {
            self.note_detached();
        }
        self.link.say(&FromShepherd::Detached { is_done: true, why: None });
    }

    fn note_detached(&mut self) {
        let _ = self.claim.detached();
        self.halt.is_detached = true;
        fail::fail_point!("shepherd-detached");
    }

    pub(in crate::shepherd) fn take_devices(&mut self, devices: &[DeviceUuid]) {
        self.move_to(devices, &[]);
        fail::fail_point!("shepherd-attached");
        if self.launch.pausing.is_none() {
            return self.say_attached();
        }
        (self.halt.leaves, self.halt.by_node, self.halt.comes) = (false, false, true);
        self.follow_order();
    }

    /// Reports that the task came to devices, if it was sent to them.
    pub(super) fn end_move(&mut self) {
        if std::mem::take(&mut self.halt.comes) {
            self.say_attached();
        }
    }

    fn say_attached(&mut self) {
        let devices = self.devices();
        self.link.say(&FromShepherd::Attached { devices });
    }

    /// Notes the devices of the task, and those that are booked for it if that changed.
    pub(super) fn move_to(&mut self, devices: &[DeviceUuid], booked: &[DeviceUuid]) {
        let slots = &mut self.launch.order.allocation.slots;
        for (slot, device) in slots.iter_mut().zip(devices) {
            slot.device = device.clone();
        }
        if !booked.is_empty() {
            self.launch.booked = booked.to_vec();
        }
        self.halt.is_detached = false;
        // If the disk is full, a later agent repeats the order.
        let _ = self.claim.attached(devices, booked);
        self.show_shares();
    }

    /// Stays paused on its own devices, after a resume on others that was undone.
    pub(super) fn not_moved(&mut self, why: String, held: Vec<ResidentProcess>) {
        self.halt.held = held;
        self.halt.is_free = true;
        let devices = self.halt.home.clone();
        if std::mem::take(&mut self.halt.comes) {
            self.move_to(&devices, &[]);
            self.halt.leaves = true;
            self.note_detached();
            let why = Some(why);
            self.link.say(&FromShepherd::NotAttached { left: devices, why });
            if self.halt.is_wanted {
                self.say_paused();
            }
            return;
        }
        self.move_to(&devices, &devices);
        // An order that came meanwhile is followed after this.
        if !std::mem::replace(&mut self.halt.is_wanted, true) {
            self.note_halt(true);
            self.say_not_moved(why);
        } else {
            self.say_paused();
        }
    }

    pub(super) fn say_not_moved(&mut self, why: String) {
        self.halt.not_moved = Some(why.clone());
        let (generation, devices) = (self.halt.generation, self.devices());
        self.link.say(&FromShepherd::NotMoved { generation, why, devices });
    }

    /// The task's devices, by slot.
    pub(super) fn devices(&self) -> Vec<DeviceUuid> {
        let slots = &self.launch.order.allocation.slots;
        slots.iter().map(|slot| slot.device.clone()).collect()
    }

    /// The new device for the memory of each device, after a resume.
    pub(super) fn moves(&self) -> BTreeMap<String, String> {
        let pairs = self.halt.home.iter().zip(&self.launch.order.allocation.slots);
        let moved = pairs.filter(|(from, to)| **from != to.device);
        moved.map(|(from, to)| (from.to_string(), to.device.to_string())).collect()
    }
}
