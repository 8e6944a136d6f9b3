//! The free capacity of one node while a plan is made.

use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{Bytes, Device, JobId, MilliGpu, NodeName, Share, ShareWith, Sharer};
use gpool_world::{NodeIx, NodeRow, World, unusable};

use super::demand::Demand;
use super::departures::{DeviceUse, Freed, NodeHoldings};
use super::host_resources::HostResources;
use super::placed::Placed;

/// The free capacity of one node.
#[derive(Clone)]
pub(crate) struct NodeCapacity<'a> {
    pub ix: NodeIx,
    pub row: &'a NodeRow,
    /// Free CPU cores, memory and task slots.
    pub free: HostResources,
    /// Number of devices that are free as a whole.
    pub n_free: usize,
    /// By device position: its kind in the capacity, if it is free as a whole. Empty if none was
    /// at first.
    free_kinds: Vec<Option<usize>>,
    /// Booked by this plan, by device position.
    booked: BTreeMap<usize, Booked>,
    world: &'a World,
    /// The jobs that jobs without a rule of their own accept on its devices.
    share_with: ShareWith,
    /// Whether some jobs do not accept all others.
    has_share_rule: bool,
    /// Number of devices with shares on them.
    pub n_shared: usize,
    /// Whether this plan booked anything here.
    pub is_booked: bool,
}

/// The part of a device that a plan booked.
#[derive(Debug, Clone, Default)]
struct Booked {
    n_jobs: usize,
    memory: Bytes,
    sharers: Vec<(JobId, Sharer)>,
}

/// The rank of each kind of device in a request: the position of the model that it matches.
pub(crate) struct ModelRanks {
    /// In the order of the capacity's kinds.
    pub rank_by_kind: Vec<Option<usize>>,
    pub n_ranks: usize,
}

impl<'a> NodeCapacity<'a> {
    pub fn new(world: &'a World, ix: NodeIx, row: &'a NodeRow) -> Self {
        Self {
            ix,
            row,
            free: HostResources::of(row),
            n_free: 0,
            free_kinds: Vec::new(),
            booked: BTreeMap::new(),
            world,
            share_with: world.policy().of_pool(Some(&row.node.pool)).share_with,
            has_share_rule: world.has_share_rules(),
            n_shared: row.n_shared,
            is_booked: false,
        }
    }

    /// Counts the devices that are free as a whole, of these kinds.
    pub fn open(&mut self, mut kind_of: impl FnMut(&'a Device) -> usize) {
        let row = self.row;
        let is_free = |at| row.is_whole(at) && unusable(row, at).is_none();
        let kinds = row.node.devices.iter().enumerate();
        let kinds = kinds.map(|(at, device)| is_free(at).then(|| kind_of(device)));
        self.free_kinds = kinds.collect();
        self.n_free = self.free_kinds.iter().flatten().count();
    }

    pub fn name(&self) -> &NodeName {
        &self.row.node.name
    }

    /// The jobs there. The tasks of one job stand one after the other.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        let mut jobs: Vec<JobId> = self.row.here.iter().map(|task| task.job).collect();
        jobs.dedup();
        jobs.into_iter()
    }

    /// Whether the node takes work and passes the filters of a fit, whatever is free.
    pub fn takes(&self, fit: &Fit) -> bool {
        self.row.node.takes_work() && fit.may_be_on(&self.row.node)
    }

    /// Whether a demand may fit now: computed from counters, before holds and devices are read.
    pub fn may_fit_now(&self, demand: &Demand<'_>, ranks: &ModelRanks) -> bool {
        let has_devices = match demand.share() {
            None => self.n_free_of(ranks, demand.model, &[]) >= demand.n_devices(),
            Some(_) => self.n_free + self.n_shared > 0,
        };
        has_devices && demand.host().first_short(self.free).is_none()
    }

    /// Whether a demand may fit once that was freed: computed from counters, before devices are
    /// read.
    pub fn may_fit(&self, demand: &Demand<'_>, freed: &Freed) -> bool {
        (demand.share().is_some() || self.n_free + freed.n_uses() >= demand.n_devices())
            && demand.host().first_short(self.free.more(freed.host)).is_none()
            && !self.free.lacks_memory(freed.needed)
    }

    /// The devices, by position, that a paused job does not have: it resumes on its own.
    pub fn others(&self, fit: &Fit) -> Vec<usize> {
        let node = &self.row.node;
        let others = |ix: &usize| !fit.may_have(node, &node.devices[*ix].uuid);
        match fit.at.is_empty() {
            true => Vec::new(),
            false => (0..node.devices.len()).filter(others).collect(),
        }
    }

    /// Whether a device is free as a whole.
    pub fn is_free(&self, device_ix: usize) -> bool {
        self.free_kinds.get(device_ix).is_some_and(Option::is_some)
    }

    /// Whether a job has a device or a part of it.
    pub fn is_busy(&self, device_ix: usize) -> bool {
        !self.row.devices[device_ix].holders.is_empty() || self.booked.contains_key(&device_ix)
    }

    /// Whether jobs are on devices of the node that they did not book.
    pub fn has_guests(&self) -> bool {
        self.row.node.devices.iter().any(|device| !device.guests.is_empty())
    }

    /// The work that the guests of a device lose when a job gets it.
    pub fn lost_by_guests(&self, device_ix: usize) -> u64 {
        self.world.lost_by_guests(self.row, device_ix)
    }

    /// Bytes of a device's memory that a share may have now.
    pub fn free_for_share(&self, device_ix: usize) -> Bytes {
        if unusable(self.row, device_ix).is_some() {
            return Bytes::ZERO;
        }
        let booked = self.booked.get(&device_ix).map_or(Bytes::ZERO, |booked| booked.memory);
        self.row.free_memory(device_ix).saturating_sub(booked)
    }

    /// Thousandths of a device that a share may have now.
    pub fn thousandths(&self, device_ix: usize) -> u32 {
        let memory = u128::from(self.row.node.devices[device_ix].memory.get().max(1));
        let part = u128::from(self.free_for_share(device_ix).get())
            * u128::from(MilliGpu::DEVICE.get())
            / memory;
        u32::try_from(part).unwrap_or(u32::MAX)
    }

    /// Returns the number of holders that stay on a device once some jobs have left, and the bytes
    /// of its memory that no job has then.
    pub fn left_after(&self, device_ix: usize, freed: &Freed) -> (usize, i128) {
        let ledger = &self.row.devices[device_ix];
        let booked = self.booked.get(&device_ix);
        let (n_booked, booked) = booked.map_or((0, Bytes::ZERO), |it| (it.n_jobs, it.memory));
        let (n_freed, memory) = freed.of(device_ix);
        let n_holders = (ledger.holders.len() + n_booked).saturating_sub(n_freed);
        // More may be booked than it has.
        let left = i128::from(ledger.memory.now.min(ledger.memory.later));
        (n_holders, left - i128::from(booked.get()) + memory)
    }

    /// Whether a device has room for a use beside held ones, once `freed` was given back.
    pub fn has_room_beside(&self, wanted: DeviceUse, freed: &Freed, held: &[DeviceUse]) -> bool {
        let mut held = held.iter().filter(|it| it.device_ix == wanted.device_ix);
        let (n_holders, memory) = self.left_after(wanted.device_ix, freed);
        if wanted.is_whole {
            return held.next().is_none() && n_holders == 0;
        }
        let of_shares = held.try_fold(0_i128, |sum, it| {
            (!it.is_whole).then_some(sum + i128::from(it.memory.get()))
        });
        of_shares.is_some_and(|sum| i128::from(wanted.memory.get()) <= memory - sum)
    }

    /// Whether a device is free as a whole, or has room for a share beside jobs that may share it.
    pub fn device_fits(&self, device_ix: usize, fit: &Fit) -> bool {
        self.has_room(device_ix, fit.gpus.share()) && self.stranger(device_ix, fit, None).is_none()
    }

    /// Whether a device is free as a whole, or has room for a share.
    pub fn has_room(&self, device_ix: usize, share: Option<Share>) -> bool {
        let memory = self.row.node.devices[device_ix].memory;
        match share {
            None => self.is_free(device_ix),
            Some(share) => share.memory_of(memory) <= self.free_for_share(device_ix),
        }
    }

    /// Whether a job accepts one with a planned start on a device of the node, and the reverse.
    pub fn accepts(&self, fit: &Fit, planned: &NodeHoldings) -> bool {
        let both = fit.sharer.as_deref().zip(planned.sharer.as_deref());
        both.is_none_or(|(one, other)| one.apart(other, self.share_with).is_none())
    }

    /// Returns a job that stays on a device once some jobs have left, and that may not share it
    /// with a job of that fit, and the rule that keeps them apart.
    pub fn stranger(
        &self,
        device_ix: usize,
        fit: &Fit,
        freed: Option<&Freed>,
    ) -> Option<(JobId, ShareWith)> {
        let sharer = fit.sharer.as_deref()?;
        if !self.has_share_rule && !sharer.has_share_rule() {
            return None;
        }
        let held = self.row.devices[device_ix].holders.iter().filter_map(|task| {
            let spec = &self.world.job(task.job)?.spec;
            Some((task.job, spec.sharer(spec.owner.uid)?))
        });
        let booked = self.booked.get(&device_ix).into_iter().flat_map(|it| &it.sharers);
        let all = held.chain(booked.cloned());
        let mut all = all.filter(|(job, _)| freed.is_none_or(|freed| !freed.has(*job)));
        all.find_map(|(job, other)| Some((job, sharer.apart(&other, self.share_with)?)))
    }

    /// Number of devices of one model of the request that fit it now, without the closed ones.
    pub fn n_fitting(&self, ranks: &ModelRanks, fit: &Fit, rank: usize, closed: &[usize]) -> usize {
        let gpus = &fit.gpus;
        if gpus.share().is_none() {
            return self.n_free_of(ranks, Some(rank), closed);
        }
        let devices = self.row.node.devices.iter().enumerate();
        let fits = |(device_ix, device): &(usize, &Device)| {
            gpus.rank_of(device) == Some(rank)
                && self.device_fits(*device_ix, fit)
                && closed.binary_search(device_ix).is_err()
        };
        devices.filter(fits).count()
    }

    /// The same of the model with the most.
    pub fn most_fitting(&self, ranks: &ModelRanks, fit: &Fit) -> usize {
        let counts = (0..ranks.n_ranks).map(|rank| self.n_fitting(ranks, fit, rank, &[]));
        counts.max().unwrap_or(0)
    }

    pub fn book(&mut self, job: JobId, placed: &Placed, fit: &Fit) {
        let share = fit.gpus.share();
        for device_ix in placed.devices.iter().copied() {
            let memory = self.row.node.devices[device_ix].memory;
            let booked = self.booked.entry(device_ix).or_default();
            let part = share.map_or(memory, |it| it.memory_of(memory));
            booked.n_jobs += 1;
            booked.memory = booked.memory.saturating_add(part);
            booked.sharers.extend(fit.sharer.as_deref().map(|it| (job, it.clone())));
            if self.is_free(device_ix) {
                self.free_kinds[device_ix] = None;
                self.n_free -= 1;
                self.n_shared += usize::from(share.is_some());
            }
        }
        self.free = self.free.less(placed.host(fit));
        self.is_booked = true;
    }

    /// Number of free devices of one model of the request, or of any, without the closed ones.
    pub fn n_free_of(&self, ranks: &ModelRanks, rank: Option<usize>, closed: &[usize]) -> usize {
        let is_of = |kind: &Option<usize>| {
            let own = kind.and_then(|kind| ranks.rank_by_kind[kind]);
            own.is_some_and(|own| rank.is_none_or(|rank| rank == own))
        };
        let closed = closed.iter().filter_map(|ix| self.free_kinds.get(*ix));
        let n_closed = closed.filter(|kind| is_of(kind)).count();
        self.free_kinds.iter().filter(|kind| is_of(kind)).count() - n_closed
    }
}
