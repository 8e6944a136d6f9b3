//! Starts one job: the stages place, consolidate, reclaim and preempt, in this order, each over the
//! flavors of GPUs that quotas allow.

use gpool_model::{DeviceStrategy, Reason, Shape};
use gpool_world::{FitIx, Head};

use super::{Cycle, Failed};
use crate::capacity::{Demand, Departure, Placed, View, placements, seed};
use crate::fairshare::Row;
use crate::fragmentation::Look;
use crate::pipeline::find_placement::{self, find_placement, waits_for_capacity};
use crate::pipeline::queue_order::QueueOrder;
use crate::quota_state::Amounts;
use crate::resource_flavors::Way;

/// A job that is to start, and the resource flavors that quotas allow it.
pub(super) struct Request<'x, 'w> {
    pub head: &'x Head,
    /// Flavors that it may use.
    pub open: &'x [Way<'w>],
    /// Flavors that a quota refuses unless other jobs leave, with the reason.
    pub shut: &'x [(Way<'w>, Reason)],
    /// Whether it may have GPUs of several flavors at once.
    pub is_mixed: bool,
    /// The project or user that is charged, if quotas count.
    pub charged: Option<Row>,
    /// Whether only what projects are entitled to is given out.
    pub by_right: bool,
}

impl<'a> Cycle<'a, '_> {
    /// Chance for the next start of a job, where devices are chosen by it.
    pub(super) fn seed(&self, head: &Head) -> u64 {
        match self.domain.policy.device_strategy {
            DeviceStrategy::Random => {
                let (job, attempt) = self.cursor.next(self.row(head));
                seed(job, attempt)
            }
            DeviceStrategy::Sequential | DeviceStrategy::Pack | DeviceStrategy::Spread => 0,
        }
    }

    /// Where a job can start at once, or why it waits.
    pub(super) fn find(&mut self, head: &Head, way: &Way<'_>) -> Result<Vec<Placed>, Reason> {
        let FitIx(fit_ix) = self.snapshot.world.shape(head.shape_ix).fit_ix;
        let shape = &*way.shape;
        let (length, access) = (shape.takes, self.holds.access(shape));
        let is_usual = access.is_empty() && way.class.is_none();
        let key = (fit_ix, way.class, access);
        let failed = match is_usual {
            true => self.workspace.failed[fit_ix].as_ref(),
            false => self.workspace.failed_inside.get(&key),
        };
        if let Some(failed) = failed.filter(|failed| failed.covers(length)) {
            return Err(failed.reason.clone());
        }
        let demand = Demand::new(shape, self.domain.policy, self.seed(head));
        if let Some(found) = self.place(demand) {
            return Ok(found);
        }
        let departures = |node_pos| self.timeline.on_node(&self.capacity, node_pos);
        let reason = find_placement::reason(self.view(&departures), demand);
        let failed = Failed { length, reason: reason.clone() };
        match is_usual {
            true => self.workspace.failed[fit_ix] = Some(failed),
            false => drop(self.workspace.failed_inside.insert(key, failed)),
        }
        Err(reason)
    }

    /// The present capacity and holds.
    fn view<'b>(&'b self, departures: &'b dyn Fn(usize) -> Vec<Departure>) -> View<'a, 'b> {
        let now = self.snapshot.now;
        View { now, capacity: &self.capacity, holds: &self.holds, departures }
    }

    fn place(&mut self, demand: Demand<'_>) -> Option<Vec<Placed>> {
        let mut fragmentation = std::mem::take(&mut self.workspace.fragmentation);
        let mut look = fragmentation.look(&self.snapshot, &self.capacity, demand.shape);
        let departures = |node_pos| self.timeline.on_node(&self.capacity, node_pos);
        let found = find_placement(self.view(&departures), demand, look.as_mut());
        look.into_iter().for_each(Look::end);
        self.workspace.fragmentation = fragmentation;
        found
    }

    /// Takes a job through the stages place, consolidate, reclaim and preempt. Returns its charge
    /// if it starts, else why it waits, if it may start in some flavor.
    pub(super) fn start_job(
        &mut self,
        it: &Request<'_, '_>,
        order: &mut QueueOrder<'_>,
    ) -> Result<Amounts, Option<Reason>> {
        let waits = match self.place_first(it) {
            Ok(charge) => return Ok(charge),
            Err(waits) => waits,
        };
        if let Some(leaf) = it.charged.filter(|_| it.is_mixed)
            && let Some(charge) = self.start_mixed(it.head, leaf, it.by_right)
        {
            return Ok(charge);
        }
        let is_patient =
            it.open.len() > 1 && waits.iter().any(|(way, _)| self.leaves_room(it.head, way));
        if !is_patient && let Some(charge) = self.make_room(it, &waits, order) {
            return Ok(charge);
        }
        Err(self.reason_of(it, &waits))
    }

    /// Stage place: starts the job in the first flavor that is free; else returns why each is not.
    fn place_first<'x, 'w>(
        &mut self,
        it: &Request<'x, 'w>,
    ) -> Result<Amounts, Vec<(&'x Way<'w>, Reason)>> {
        let mut waits = Vec::new();
        for way in it.open {
            match self.find(it.head, way) {
                Ok(found) if !way.is_mixed => {
                    self.start(self.row(it.head), &way.shape, &found, Vec::new());
                    return Ok(way.charge.clone());
                }
                Ok(_) => {}
                Err(reason) => waits.push((way, reason)),
            }
        }
        Err(waits)
    }

    /// Stages consolidate, reclaim and preempt: the first flavor that other jobs can make room for.
    fn make_room(
        &mut self,
        it: &Request<'_, '_>,
        waits: &[(&Way<'_>, Reason)],
        order: &mut QueueOrder<'_>,
    ) -> Option<Amounts> {
        let head = it.head;
        for (way, _) in waits.iter().filter(|(_, reason)| waits_for_capacity(reason)) {
            if self.consolidate(head, way, order) {
                return Some(way.charge.clone());
            }
        }
        let leaf = it.charged?;
        for (way, _) in waits.iter().filter(|(_, reason)| waits_for_capacity(reason)) {
            if (it.by_right && self.reclaim(head, way, leaf, order))
                || self.preempt(head, way, leaf, order)
            {
                return Some(way.charge.clone());
            }
        }
        for (way, _) in it.shut.iter().filter(|(_, reason)| waits_for_capacity(reason)) {
            if (it.by_right && self.reclaim_at_limit(head, way, leaf, order))
                || self.preempt(head, way, leaf, order)
            {
                return Some(way.charge.clone());
            }
        }
        None
    }

    /// Why a job waits: the reason of its one flavor, or of all together.
    fn reason_of(&mut self, it: &Request<'_, '_>, waits: &[(&Way<'_>, Reason)]) -> Option<Reason> {
        match waits {
            [] => it.shut.first().map(|(_, reason)| reason.clone()),
            [(way, reason)] if way.class.is_none() => Some(reason.clone()),
            _ => {
                let world = self.snapshot.world;
                let shape = &world.shape(it.head.shape_ix).shape;
                let shut = it.shut.last().map(|(_, reason)| reason);
                let refused = shut.or(waits.last().map(|(_, reason)| reason)).cloned();
                // There may be capacity, but not where the quota allows it.
                self.find(it.head, &Way::as_asked(world, shape)).err().or(refused)
            }
        }
    }

    /// Starts a job with GPUs of several classes, if it may have those that are free; says what it
    /// is charged for. What it may not have where it is placed first it may have in one pool, or
    /// without some of the models.
    fn start_mixed(&mut self, head: &Head, leaf: Row, by_right: bool) -> Option<Amounts> {
        let world = self.snapshot.world;
        let shape = &world.shape(head.shape_ix).shape;
        let found = self.find(head, &Way::as_asked(world, shape)).ok()?;
        if let Some(charge) = self.start_at(head, shape, &found, (leaf, by_right)) {
            return Some(charge);
        }
        let narrower = self.projects.as_ref()?.narrower(world, shape, leaf);
        narrower.into_iter().find_map(|narrower| {
            let seed = self.seed(head);
            let demand = Demand::new(&narrower, self.domain.policy, seed);
            let found = self.place(demand)?;
            self.start_at(head, &narrower, &found, (leaf, by_right))
        })
    }

    /// Starts a job there if its project may have what it is charged for that.
    fn start_at(
        &mut self,
        head: &Head,
        shape: &Shape,
        found: &[Placed],
        (leaf, by_right): (Row, bool),
    ) -> Option<Amounts> {
        let (world, projects) = (self.snapshot.world, self.projects.as_ref()?);
        let placements = placements(found, &shape.fit, world);
        let charge = projects.charge_at(world, shape, &placements);
        let may = projects.refuses(leaf, &charge, shape.preemptible).is_none()
            && (!by_right || projects.is_entitled(leaf, &charge));
        may.then(|| {
            self.start(self.row(head), shape, found, Vec::new());
            charge
        })
    }

    /// Whether a job has room in a way once those have left who leave already: it waits for that,
    /// and nobody goes for it in another way.
    fn leaves_room(&mut self, head: &Head, way: &Way<'_>) -> bool {
        let found = self.among_evictions(head, way, |evictions, ground, demand| {
            let found = evictions.leaves_room(ground, demand);
            // Nobody after it may have that.
            found.inspect(|found| evictions.claim(found))
        });
        found.flatten().is_some()
    }
}
