//! The tasks that a claim waits for. A job that claims a whole device waits for all tasks there. A
//! share waits for as many of the leaving tasks as it takes until it has room beside the others.

use std::collections::BTreeSet;

use gpool_model::{Allocation, AllocationState, Bytes, JobId, Placement, Slot, TaskId};
use gpool_world::NodeRow;

use crate::control::Control;

impl Control {
    /// Returns the tasks that a job waits for on each of its placements if these jobs leave for it.
    /// The first placement also waits for those that leave other nodes, for its quota.
    pub(crate) fn claims_after(
        &self,
        job: JobId,
        placements: &[Placement],
        leaving: &[JobId],
    ) -> Vec<Vec<TaskId>> {
        if leaving.is_empty() {
            return vec![Vec::new(); placements.len()];
        }
        let rows = leaving.iter().filter_map(|id| self.world.job(*id));
        let held = rows.flat_map(|row| row.job.phase.allocations());
        let victims: Vec<&Allocation> = held.filter(|it| !it.is_paused()).collect();
        let after = |(ix, placement): (usize, &Placement)| {
            let victims = victims.iter().filter(|it| ix == 0 || it.node == placement.node);
            self.in_the_way(job, placement, victims.map(|it| it.task).collect())
        };
        placements.iter().enumerate().map(after).collect()
    }

    /// Returns these tasks, and those on the devices of a placement that have to leave as well
    /// before the job can have them.
    pub(crate) fn in_the_way(
        &self,
        job: JobId,
        placement: &Placement,
        mut after: BTreeSet<TaskId>,
    ) -> Vec<TaskId> {
        let row = self.world.node(&placement.node);
        for (row, slot) in
            row.into_iter().flat_map(|row| placement.slots.iter().map(move |it| (row, it)))
        {
            if let Some(device) = self.claimed_device(job, row, slot) {
                device.make_room(&mut after);
            }
        }
        after.into_iter().collect()
    }

    /// The tasks and the other claims on a device that a job claims; `None` if the device is gone.
    fn claimed_device(&self, job: JobId, row: &NodeRow, slot: &Slot) -> Option<ClaimedDevice> {
        let ix = row.node.devices.iter().position(|device| device.uuid == slot.device)?;
        let memory = row.node.devices[ix].memory;
        let of_pool = self.world.policy().of_pool(Some(&row.node.pool)).share_with;
        let sharer = |job: JobId| self.sharer(self.world.job(job)?, &row.node.pool);
        let own = sharer(job);
        let mut device = ClaimedDevice {
            memory,
            requested_bytes: slot.part.memory_of(memory),
            is_alone: slot.part.is_alone(),
            present: Vec::new(),
            claimed: Bytes::ZERO,
            awaited: BTreeSet::new(),
        };
        let others = row.devices[ix].holders.iter().filter(|task| task.job != job);
        for task in others.copied() {
            let Some(held) = self.allocation_of(task, row) else { continue };
            let parts = held.slots.iter().filter(|it| it.device == slot.device);
            let memory = parts.map(|it| it.part.memory_of(memory)).fold(Bytes::ZERO, plus);
            if let AllocationState::Claimed { after } = &held.state {
                device.claimed = plus(device.claimed, memory);
                device.awaited.extend(after);
                continue;
            }
            let both = own.as_ref().zip(sharer(task.job));
            let is_apart = both.is_some_and(|(own, it)| own.apart(&it, of_pool).is_some());
            let is_leaving = held.is_leaving();
            device.present.push(Present { task, memory, is_leaving, is_apart });
        }
        Some(device)
    }

    fn allocation_of(&self, task: TaskId, row: &NodeRow) -> Option<&Allocation> {
        let mut held = self.world.job(task.job)?.job.phase.allocations().iter();
        held.find(|it| it.task == task && it.node == row.node.name)
    }
}

/// A device on which a job claims a part.
struct ClaimedDevice {
    memory: Bytes,
    /// The memory of the claimed part.
    requested_bytes: Bytes,
    /// Whether that is all of the device.
    is_alone: bool,
    present: Vec<Present>,
    /// The memory that other jobs claim.
    claimed: Bytes,
    /// The tasks that those claims wait for.
    awaited: BTreeSet<TaskId>,
}

/// A task on a claimed device.
struct Present {
    task: TaskId,
    memory: Bytes,
    is_leaving: bool,
    /// Whether it and the claiming job may not share a device.
    is_apart: bool,
}

impl ClaimedDevice {
    /// Adds the tasks that have to leave as well before the claim can be used.
    fn make_room(&self, after: &mut BTreeSet<TaskId>) {
        let is_in_the_way = |it: &&Present| self.is_alone || it.is_leaving && it.is_apart;
        after.extend(self.present.iter().filter(is_in_the_way).map(|it| it.task));
        let mut leaving: Vec<TaskId> =
            self.present.iter().filter(|it| it.is_leaving).map(|it| it.task).collect();
        // Other claims need the room of the tasks that they wait for.
        leaving.sort_by_key(|task| (self.awaited.contains(task), *task));
        for task in leaving {
            if self.has_room(after) {
                break;
            }
            after.insert(task);
        }
    }

    /// Whether the claim fits once these tasks have left: at once, beside all tasks that are still
    /// there, and in the end, beside all claims and the tasks that no claim waits for.
    fn has_room(&self, after: &BTreeSet<TaskId>) -> bool {
        let stays = |is_gone: &dyn Fn(&TaskId) -> bool| {
            let stays = self.present.iter().filter(|it| !is_gone(&it.task));
            stays.map(|it| it.memory).fold(self.requested_bytes, plus)
        };
        let at_once = stays(&|task| after.contains(task));
        let in_the_end = stays(&|task| after.contains(task) || self.awaited.contains(task));
        at_once.max(plus(in_the_end, self.claimed)) <= self.memory
    }
}

fn plus(one: Bytes, other: Bytes) -> Bytes {
    one.saturating_add(other)
}
