//! Other devices for paused jobs. A paused job resumes on the devices that it booked. If some of
//! them are taken and its node can restore memory on others, free ones of the same model are booked
//! in their place, before the scheduler looks at the job.

use std::collections::BTreeSet;

use gpool_model::node::Remap;
use gpool_model::{
    Allocation, AllocationState, Device, DeviceKind, DeviceUuid, Job, JobId, NodeName, PauseCause,
    Phase, SlotPart,
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
        let mut wanted: BTreeSet<DeviceUuid> = BTreeSet::new();
        for id in paused {
            let job = self.job(id);
            let Phase::Paused { allocations, .. } = &job.phase else { continue };
            let mut booked = allocations.clone();
            for allocation in &mut booked {
                self.reseat_one(allocation, &wanted);
                wanted.extend(allocation.slots.iter().map(|slot| slot.device.clone()));
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

    /// Books devices for a paused task. Those that no other paused job wants are preferred.
    fn reseat_one(&self, allocation: &mut Allocation, wanted: &BTreeSet<DeviceUuid>) {
        let Some(row) = self.world.node(&allocation.node) else { return };
        let own = own_devices(allocation);
        let closed = self.closed_on(&allocation.node);
        let is_free = |device: &Device| {
            let at = row.node.devices.iter().position(|it| it.uuid == device.uuid);
            at.is_some_and(|at| row.is_whole(at))
                && row.node.may_give(device)
                && !closed.contains(&device.uuid)
        };
        let find = |uuid: &DeviceUuid| row.node.devices.iter().find(|it| it.uuid == *uuid);
        // The kind of a device that is gone is known from the pause.
        let kinds = kinds_of(allocation);
        let kind_of = |ix: usize| find(&own[ix]).map(DeviceKind::of).or(kinds.get(ix).cloned());
        let mut chosen: Vec<&Device> = Vec::new();
        for (ix, uuid) in own.iter().enumerate() {
            let (home, Some(kind)) = (find(uuid), kind_of(ix)) else { return };
            let mut others: Vec<&Device> = row.node.devices.iter().collect();
            others.retain(|it| {
                let is_alike = it.instance.is_none() && DeviceKind::of(it) == kind;
                is_alike && is_free(it) && !own.contains(&it.uuid)
            });
            others.retain(|it| !chosen.iter().any(|chosen| chosen.uuid == it.uuid));
            others.sort_by_key(|it| (wanted.contains(&it.uuid), it.index));
            let home_is_free = home.is_some_and(&is_free);
            let other = if home_is_free { None } else { others.first().copied() };
            let Some(device) = other.or(home) else { return };
            chosen.push(device);
        }
        chosen.sort_by_key(|it| it.index);
        let is_alike = |(ix, it): (usize, &&Device)| {
            kind_of(ix).is_some_and(|kind| kind == DeviceKind::of(it))
        };
        // Half of the devices would not let it resume.
        let goes = row.node.facts.remap == Remap::Yes
            && chosen.iter().all(|it| is_free(it))
            && chosen.iter().enumerate().all(is_alike);
        let devices: Vec<DeviceUuid> = match goes {
            true => chosen.iter().map(|it| it.uuid.clone()).collect(),
            false => own.clone(),
        };
        self.book_slots(allocation, &devices);
        if let AllocationState::Paused { home, .. } = &mut allocation.state {
            *home = if devices == own { Vec::new() } else { own };
        }
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

/// Whether a paused job waits, and may resume on other devices than those it was paused on.
fn may_move(row: &JobRow) -> bool {
    let Phase::Paused { allocations, why, held: None, .. } = &row.job.phase else { return false };
    let slots = || allocations.iter().flat_map(|it| &it.slots);
    row.job.phase.is_parked()
        && !matches!(why, PauseCause::NotMoved { .. })
        && row.spec.yields().is_none()
        && slots().next().is_some()
        && slots().all(|slot| slot.part == SlotPart::Whole)
}

/// The devices on which a paused task was.
fn own_devices(allocation: &Allocation) -> Vec<DeviceUuid> {
    match &allocation.state {
        AllocationState::Paused { home, .. } if !home.is_empty() => home.clone(),
        _ => allocation.slots.iter().map(|slot| slot.device.clone()).collect(),
    }
}

/// The kinds of the devices on which a paused task was.
fn kinds_of(allocation: &Allocation) -> Vec<DeviceKind> {
    match &allocation.state {
        AllocationState::Paused { kinds, .. } => kinds.clone(),
        _ => Vec::new(),
    }
}
