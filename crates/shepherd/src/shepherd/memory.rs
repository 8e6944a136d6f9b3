//! Tells a task how much device memory it may use, and pauses it when it keeps memory that was
//! called back.

use gpool_model::agent::Terms;
use gpool_model::exit::Exit;
use gpool_model::{Slot, SlotPart};
use gpool_output::file_name;
use rustix::process::Signal;

use super::Shepherd;
use super::files::{read_file, write_memory};
use crate::layout::GPU_MEMORY;
use crate::message::{DeviceMemory, FromShepherd};

/// A job names the signal that it wants in this file of the task's folder.
const SIGNAL: &str = "gpu-memory-signal";
/// More bytes are no name of a signal.
const NAME_MAX: u64 = 16;

impl Shepherd {
    /// Writes the memory into a file in the task's folder, and sends the signal that the job asked
    /// for.
    pub(super) fn show_memory(&self, devices: &[DeviceMemory]) {
        let folder = self.layout.attempt(self.task());
        // The file is only information: without it the limit still applies.
        // Tasks of one node share the folder, and have devices of their own.
        let path = folder.join(file_name(GPU_MEMORY, self.task()));
        let _ = write_memory(&path, self.owner, devices);
        let signal = read_file(&folder.join(SIGNAL), NAME_MAX).and_then(|name| signal_of(&name));
        if let (Some(signal), Some(tree)) = (signal, &self.tree) {
            tree.signal_those_that_handle(signal);
        }
    }

    /// Takes over the size of its shares, and tells the task. Where a ledger limits it, the agent
    /// does that, who knows what of it was called back.
    pub(super) fn resize(&mut self, terms: &Terms) {
        let slots = &mut self.launch.order.allocation.slots;
        let before = slots.clone();
        terms.resize(slots);
        if *slots != before && self.launch.cap.is_none() {
            self.show_shares();
        }
    }

    /// Tells the task the devices and sizes of its shares, if it has any.
    pub(super) fn show_shares(&self) {
        let of_share = |slot: &Slot| match slot.part {
            SlotPart::Share { memory: request, limit, .. } => {
                Some(DeviceMemory { device: slot.device.clone(), request, limit })
            }
            SlotPart::Whole | SlotPart::Instance { .. } => None,
        };
        let slots = self.launch.order.allocation.slots.iter();
        let devices: Vec<DeviceMemory> = slots.filter_map(of_share).collect();
        if !devices.is_empty() {
            self.show_memory(&devices);
        }
    }

    /// Pauses the task until [`Self::come_back`], if its user allows pauses.
    pub(super) fn vacate(&mut self) {
        let refused = match () {
            () if !self.launch.order.spec.life.exits.contains(&Exit::Pause) => {
                Some("its exits do not allow pauses")
            }
            () if !self.can_vacate() => Some("it is not running on a GPU that it could leave"),
            () => None,
        };
        match refused {
            Some(why) => self.link.say(&FromShepherd::NotVacated { why: why.to_owned() }),
            None => self.leave_for_node(true),
        }
    }

    /// Resumes a task that was paused by [`Self::vacate`].
    pub(super) fn come_back(&mut self) {
        self.leave_for_node(false);
    }
}

/// A signal by its number or its name, with or without `SIG`. Signals that programs use for other
/// purposes have no name here.
fn signal_of(text: &str) -> Option<Signal> {
    let name = text.trim();
    match name.strip_prefix("SIG").unwrap_or(name) {
        "USR1" => Some(Signal::USR1),
        "USR2" => Some(Signal::USR2),
        "HUP" => Some(Signal::HUP),
        "URG" => Some(Signal::URG),
        "WINCH" => Some(Signal::WINCH),
        number => number.parse().ok().and_then(Signal::from_named_raw),
    }
}
