//! The cost of guests that have to leave a device for a new job.

use gpool_model::device::Guest;
use gpool_model::{NodeName, Slot};

use crate::ledger::NodeRow;
use crate::world::World;

/// The time that a move takes for each GiB of a job's memory.
///
/// Source: measured on an H200, where a move by the driver's checkpoints of 20 GiB takes 17 s.
const MS_PER_GIB: u64 = 850;

impl World {
    /// Returns the work that the guests of a device lose when they leave it for a new job, in
    /// thousandths of a device times milliseconds: they stand still while their memory is copied.
    #[must_use]
    pub fn lost_by_guests(&self, row: &NodeRow, device_ix: usize) -> u64 {
        let device = &row.node.devices[device_ix];
        let lost = |guest: &Guest| {
            let Some(slot) = self.booked_by(guest, &row.node.name) else { return 0 };
            let mib = slot.part.memory_of(device.memory).get() >> 20;
            let moves_ms = mib.saturating_mul(MS_PER_GIB).div_ceil(1024);
            moves_ms.saturating_mul(slot.part.charge().get())
        };
        device.guests.iter().map(lost).fold(0, u64::saturating_add)
    }

    /// The part of a device that a guest booked.
    fn booked_by(&self, guest: &Guest, node: &NodeName) -> Option<&Slot> {
        let allocations = self.job(guest.task.job)?.job.phase.allocations();
        let mut here = allocations.iter().filter(|it| it.task == guest.task && it.node == *node);
        here.find_map(|it| it.held_slots().iter().find(|slot| slot.device == guest.booked))
    }
}
