//! Which shares a node can move to other devices, as the server sees its books and its guests.

use gpool_model::node::Remap;
use gpool_model::unit::Bytes;
use gpool_model::{Device, DeviceUuid, ShareWith, Slot, SlotPart, TaskId};
use gpool_world::{JobRow, NodeRow, World};

/// The shares of a node, by the device where they are.
pub(super) struct Shares<'a> {
    row: &'a NodeRow,
    of_pool: ShareWith,
    all: Vec<Share<'a>>,
}

/// The share of a device that a task has.
struct Share<'a> {
    task: TaskId,
    job: &'a JobRow,
    slot: &'a Slot,
    /// The device where it is: the booked one, if the node did not move it.
    at: &'a DeviceUuid,
}

impl Share<'_> {
    fn memory(&self) -> Bytes {
        match self.slot.part {
            SlotPart::Share { memory, .. } => memory,
            SlotPart::Whole | SlotPart::Instance { .. } => Bytes::ZERO,
        }
    }
}

impl<'a> Shares<'a> {
    pub(super) fn of(world: &'a World, row: &'a NodeRow) -> Self {
        let of_pool = world.policy().of_pool(Some(&row.node.pool)).share_with;
        let holders = row.devices.iter().zip(&row.node.devices);
        let holders = holders.flat_map(|(ledger, device)| {
            let tasks = ledger.holders.iter();
            tasks.filter_map(|task| share_of(world, row, *task, device))
        });
        Self { row, of_pool, all: holders.collect() }
    }

    /// Why the node can't move a task's share of a device to another device now, if it can't.
    pub(super) fn why_not(&self, task: TaskId, booked: &DeviceUuid) -> Option<&'a str> {
        let is_it = |it: &&Share<'_>| it.task == task && it.slot.device == *booked;
        let Some(share) = self.all.iter().find(is_it) else {
            return Some("the job has the whole device");
        };
        if let Remap::No { why } = &self.row.node.facts.moves {
            return Some(why);
        }
        if share.job.spec.yields().is_some() {
            return Some("the job frees its GPUs itself");
        }
        let devices = &self.row.node.devices;
        let here = devices.iter().find(|device| device.uuid == *share.at)?;
        if here.guests.iter().any(|guest| guest.task == task && guest.is_stuck) {
            return Some("it could not leave when it had to");
        }
        let has_room = devices.iter().enumerate().any(|(ix, to)| self.takes(ix, to, share, here));
        (!has_room).then_some("no other GPU of its model on the node has room")
    }

    /// Whether a share can come to a device from the one where it is.
    fn takes(&self, ix: usize, to: &Device, share: &Share<'_>, here: &Device) -> bool {
        let is_equal = (&to.model, to.memory) == (&here.model, here.memory);
        let is_given_whole = !self.row.is_whole(ix) && !self.row.is_shared(ix);
        if !is_equal || is_given_whole || !self.row.node.may_give(to) {
            return false;
        }
        let there = || self.all.iter().filter(|it| *it.at == to.uuid);
        let used = there().map(Share::memory).fold(share.memory(), Bytes::saturating_add);
        used <= to.memory && there().all(|it| it.task != share.task && self.agree(it, share))
    }

    /// Whether two jobs may share a device.
    fn agree(&self, one: &Share<'_>, other: &Share<'_>) -> bool {
        let sharer = |it: &Share<'_>| it.job.spec.sharer(it.job.spec.owner.uid);
        let both = sharer(one).zip(sharer(other));
        both.is_none_or(|(one, other)| one.apart(&other, self.of_pool).is_none())
    }
}

fn share_of<'a>(
    world: &'a World,
    row: &'a NodeRow,
    task: TaskId,
    device: &'a Device,
) -> Option<Share<'a>> {
    let job = world.job(task.job)?;
    let mut allocations = job.job.phase.allocations().iter();
    let allocation = allocations.find(|allocation| allocation.task == task)?;
    let slot = allocation.slots.iter().find(|slot| slot.device == device.uuid)?;
    let SlotPart::Share { .. } = slot.part else { return None };
    let place = row.node.guest_place(task, &device.uuid);
    Some(Share { task, job, slot, at: &place.unwrap_or(device).uuid })
}
