//! Other devices for paused jobs. A paused job resumes on the devices that it booked. If some of
//! them are taken and its node can restore memory on others, ones of the same model that have room
//! are booked in their place, before the scheduler looks at the job.

use std::collections::BTreeSet;

use gpool_model::node::Remap;
use gpool_model::{
    Allocation, AllocationState, Bytes, DeviceKind, DeviceUuid, Job, JobId, NodeName, PauseCause,
    Phase, Slot, SlotPart,
};
use gpool_world::{JobRow, NodeRow};

use crate::control::Control;

impl Control {
    /// Books devices for paused jobs: their own if these are free, else others that are.
    pub(crate) fn reseat(&mut self) {
        let can = |row: &NodeRow| row.node.facts.remap == Remap::Yes;
        if !self.world.nodes().iter().any(can) {
            return;
        }
        let paused = self.world.holding().filter(|row| may_move(row));
        let paused: Vec<JobId> = paused.map(|row| row.job.id).collect();
        let mut booked_devices: BTreeSet<DeviceUuid> = BTreeSet::new();
        for id in paused {
            let job = self.job(id);
            let Phase::Paused { allocations, .. } = &job.phase else { continue };
            let mut booked = allocations.clone();
            for ix in 0..booked.len() {
                let others = booked.iter().enumerate().filter(|(other, _)| *other != ix);
                let siblings = others.flat_map(|(_, it)| booked_and_own(it)).collect();
                let allocation = &mut booked[ix];
                self.reseat_one(allocation, &siblings, &booked_devices);
                booked_devices.extend(allocation.slots.iter().map(|slot| slot.device.clone()));
            }
            if booked != *allocations {
                self.put_allocations(job, booked);
            }
        }
    }

    fn put_allocations(&mut self, mut job: Job, booked: Vec<Allocation>) {
        if let Phase::Paused { allocations, .. } = &mut job.phase {
            *allocations = booked;
        }
        self.put_job(job);
    }

    /// Books devices for a paused task; the other tasks of its job keep theirs. Devices that no
    /// other paused job wants are preferred; for a share, then those with room for all that it may
    /// use, then those that are shared already, the fullest first; then those where guests lose
    /// least.
    fn reseat_one(
        &self,
        allocation: &mut Allocation,
        siblings: &BTreeSet<DeviceUuid>,
        booked_devices: &BTreeSet<DeviceUuid>,
    ) {
        let Some(row) = self.world.node(&allocation.node) else { return };
        let own = own_devices(allocation);
        let target = Target { row, closed: self.closed_on(&allocation.node) };
        let find = |uuid: &DeviceUuid| row.node.devices.iter().position(|it| it.uuid == *uuid);
        // The kind of a device that is gone is known from the pause.
        let kinds = kinds_of(allocation);
        let kind_of = |ix: usize| {
            let listed = find(&own[ix]).map(|at| DeviceKind::of(&row.node.devices[at]));
            listed.or(kinds.get(ix).cloned())
        };
        let takes = |at: usize, slot: &Slot| {
            target.has_room(at, slot.part) && self.accepts(allocation.task.job, row, at)
        };
        let mut chosen: Vec<usize> = Vec::new();
        for (ix, slot) in allocation.slots.iter().enumerate() {
            let (home, Some(kind)) = (find(&own[ix]), kind_of(ix)) else { return };
            let is_other = |at: &usize| {
                let device = &row.node.devices[*at];
                let is_alike = device.instance.is_none() && DeviceKind::of(device) == kind;
                let is_own = own.contains(&device.uuid) || chosen.contains(at);
                is_alike && !is_own && !siblings.contains(&device.uuid)
            };
            let others = (0..row.devices.len()).filter(is_other).filter(|at| takes(*at, slot));
            let others = others.filter(|at| self.is_enforced(allocation.task.job, row, *at));
            let home_is_free = home.is_some_and(|at| takes(at, slot));
            let preference = |at: &usize| {
                (
                    target.preference(*at, slot.part, booked_devices),
                    self.world.lost_by_guests(row, *at),
                )
            };
            let other = others.min_by_key(|at| (preference(at), row.node.devices[*at].index));
            let Some(device) = other.filter(|_| !home_is_free).or(home) else { return };
            chosen.push(device);
        }
        chosen.sort_by_key(|at| row.node.devices[*at].index);
        let fits = |(ix, slot): (usize, &Slot)| {
            let device = &row.node.devices[chosen[ix]];
            kind_of(ix).is_some_and(|kind| kind == DeviceKind::of(device))
                && takes(chosen[ix], slot)
        };
        // Half of the devices would not let it resume.
        let goes =
            row.node.facts.remap == Remap::Yes && allocation.slots.iter().enumerate().all(fits);
        let devices: Vec<DeviceUuid> = match goes {
            true => chosen.iter().map(|at| row.node.devices[*at].uuid.clone()).collect(),
            false => own.clone(),
        };
        self.book_slots(allocation, &devices);
        if let AllocationState::Paused { home, .. } = &mut allocation.state {
            *home = if devices == own { Vec::new() } else { own };
        }
    }

    /// Whether a job may share a device with the jobs there, as far as it is to share it.
    fn accepts(&self, id: JobId, row: &NodeRow, at: usize) -> bool {
        let sharer = |id: JobId| self.sharer(self.world.job(id)?, &row.node.pool);
        let Some(own) = sharer(id) else { return true };
        let of_pool = self.world.policy().of_pool(Some(&row.node.pool)).share_with;
        let others = row.devices[at].holders.iter().filter_map(|task| sharer(task.job));
        others.into_iter().all(|other| own.apart(&other, of_pool).is_none())
    }

    /// Whether a device has the enforcement that a job needs.
    fn is_enforced(&self, id: JobId, row: &NodeRow, at: usize) -> bool {
        let job = self.world.job(id);
        job.is_some_and(|job| job.spec.gpus.is_enforced_on(&row.node.devices[at]))
    }

    /// Puts the slots of an allocation on these devices of its node.
    pub(crate) fn book_slots(&self, allocation: &mut Allocation, devices: &[DeviceUuid]) {
        let node: &NodeName = &allocation.node;
        let Some(row) = self.world.node(node) else { return };
        for (slot, uuid) in allocation.slots.iter_mut().zip(devices) {
            let device = row.node.devices.iter().find(|it| it.uuid == *uuid);
            slot.index = device.map_or(slot.index, |device| device.index);
            slot.device = uuid.clone();
        }
    }
}

/// The devices of a node, for a paused task.
struct Target<'a> {
    row: &'a NodeRow,
    closed: BTreeSet<DeviceUuid>,
}

impl Target<'_> {
    /// Whether the task may have this part of a device now.
    fn has_room(&self, at: usize, part: SlotPart) -> bool {
        let device = &self.row.node.devices[at];
        let has_room = match part {
            SlotPart::Share { memory, .. } => memory <= self.row.free_memory(at),
            SlotPart::Whole | SlotPart::Instance { .. } => self.row.is_whole(at),
        };
        has_room && self.row.node.may_give(device) && !self.closed.contains(&device.uuid)
    }

    /// The order in which devices with room are tried.
    fn preference(
        &self,
        at: usize,
        part: SlotPart,
        booked_devices: &BTreeSet<DeviceUuid>,
    ) -> (bool, bool, bool, Bytes) {
        let is_wanted = booked_devices.contains(&self.row.node.devices[at].uuid);
        match part {
            SlotPart::Share { limit, .. } => {
                let room = self.row.free_memory(at);
                (is_wanted, room < limit, self.row.is_whole(at), room)
            }
            SlotPart::Whole | SlotPart::Instance { .. } => (is_wanted, false, false, Bytes::ZERO),
        }
    }
}

/// Whether a paused job waits, and may resume on other devices than those it was paused on.
fn may_move(row: &JobRow) -> bool {
    let Phase::Paused { allocations, why, held: None, .. } = &row.job.phase else { return false };
    let slots = || allocations.iter().flat_map(|it| &it.slots);
    row.job.phase.is_parked()
        && !matches!(why, PauseCause::NotMoved { .. })
        && row.spec.yields().is_none()
        && slots().next().is_some()
        && !slots().any(|slot| matches!(slot.part, SlotPart::Instance { .. }))
}

/// The devices on which a paused task was.
fn own_devices(allocation: &Allocation) -> Vec<DeviceUuid> {
    match &allocation.state {
        AllocationState::Paused { home, .. } if !home.is_empty() => home.clone(),
        _ => allocation.slots.iter().map(|slot| slot.device.clone()).collect(),
    }
}

/// The devices that a paused task has booked, and those on which it was.
fn booked_and_own(allocation: &Allocation) -> Vec<DeviceUuid> {
    let booked = allocation.slots.iter().map(|slot| slot.device.clone());
    booked.chain(own_devices(allocation)).collect()
}

/// The kinds of the devices on which a paused task was.
fn kinds_of(allocation: &Allocation) -> Vec<DeviceKind> {
    match &allocation.state {
        AllocationState::Paused { kinds, .. } => kinds.clone(),
        _ => Vec::new(),
    }
}
