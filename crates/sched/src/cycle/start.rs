//! The start of one job, in one of the ways in which it can start.

use gpool_model::{DeviceStrategy, Reason, Shape};
use gpool_world::{FitIx, Head};

use super::{Cycle, Failed};
use crate::capacity::{Demand, Departure, Placed, View, placements, seed};
use crate::find_placement::{self, find_placement, waits_for_capacity};
use crate::foresight::Look;
use crate::projects::Amounts;
use crate::shares::Row;
use crate::turns::{Leaf, Turns};
use crate::ways::Way;

impl<'a> Cycle<'a, '_> {
    /// Chance for the next start of a job, where devices are chosen by it.
    pub(super) fn seed(&self, head: &Head) -> u64 {
        match self.domain.policy.device_strategy {
            DeviceStrategy::Random => {
                let (job, attempt) = self.elements.next(self.row(head));
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
        let mut foresight = std::mem::take(&mut self.workspace.foresight);
        let mut look = foresight.look(&self.snapshot, &self.capacity, demand.shape);
        let departures = |node_pos| self.timeline.on_node(&self.capacity, node_pos);
        let found = find_placement(self.view(&departures), demand, look.as_mut());
        look.into_iter().for_each(Look::end);
        self.workspace.foresight = foresight;
        found
    }

    /// Starts a job in the first way in which there is room, or else in which others make it; says
    /// what it is charged for, or why it waits, if it may start in some way. `shut` are ways in
    /// which it may not start unless others of its project give way; with `is_mixed` it may have
    /// GPUs of several classes.
    pub(super) fn start_in(
        &mut self,
        head: &Head,
        (open, shut, is_mixed): (&[Way<'_>], &[(Way<'_>, Reason)], bool),
        (leaf, charged): (Leaf, Option<Row>),
        turns: &mut Turns<'_>,
    ) -> Result<Amounts, Option<Reason>> {
        let mut waits = Vec::new();
        for way in open {
            match self.find(head, way) {
                Ok(found) if !way.is_mixed => {
                    self.start(self.row(head), &way.shape, &found, Vec::new());
                    return Ok(way.charge.clone());
                }
                Ok(_) => {}
                Err(reason) => waits.push((way, reason)),
            }
        }
        let by_right = leaf.is_some() && !turns.is_lending;
        if let Some(row) = charged.filter(|_| is_mixed)
            && let Some(charge) = self.start_mixed(head, row, by_right)
        {
            return Ok(charge);
        }
        let is_patient = open.len() > 1 && waits.iter().any(|(way, _)| self.leaves_room(head, way));
        let may_move =
            |(_, reason): &&(&Way<'_>, Reason)| !is_patient && waits_for_capacity(reason);
        if let Some((way, _)) =
            waits.iter().filter(may_move).find(|(way, _)| self.consolidate(head, way, turns))
        {
            return Ok(way.charge.clone());
        }
        let shut = shut.iter().map(|(way, reason)| (way, reason, (false, by_right)));
        let open = waits.iter().map(|(way, reason)| (*way, reason, (by_right, false)));
        let all = open.chain(shut);
        for (way, reason, (by_right, may_lift)) in all.clone() {
            let may_take = !is_patient && waits_for_capacity(reason);
            let Some(row) = charged.filter(|_| may_take) else { continue };
            if (by_right && self.take_back(head, way, row, turns))
                || (may_lift && self.lift(head, way, row, turns))
                || self.preempt(head, way, row, turns)
            {
                return Ok(way.charge.clone());
            }
        }
        let mut reasons = all.map(|(_, reason, _)| reason.clone());
        Err(match &waits[..] {
            [] => reasons.next(),
            [(way, reason)] if way.class.is_none() => Some(reason.clone()),
            _ => {
                let world = self.snapshot.world;
                let shape = &world.shape(head.shape_ix).shape;
                let refused = reasons.next_back();
                // There may be room, but not where it may be had.
                self.find(head, &Way::as_asked(world, shape)).err().or(refused)
            }
        })
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
