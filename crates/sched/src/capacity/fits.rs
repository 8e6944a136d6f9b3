//! Whether a demand fits on a node, and on which devices.

use gpool_model::{Bytes, Timestamp};
use gpool_node::seating::{Seat, fits, seat};
use gpool_world::unusable;

use super::cluster::Capacity;
use super::demand::Demand;
use super::departures::{Departure, Freed};
use super::holds::Holds;
use super::node::{ModelRanks, NodeCapacity};
use super::placed::Placed;

/// Which jobs have left a node when the demand starts there.
#[derive(Clone, Copy)]
pub(crate) enum Departures<'d> {
    /// These, which leave now or are made to leave for the demand.
    Leaving(&'d Freed),
    /// These, which are expected to end by a time in the future. How full devices will be then is
    /// unknown, so all devices that have room count alike.
    Expected(&'d Freed),
}

impl Departures<'_> {
    fn freed(&self) -> &Freed {
        match self {
            Self::Leaving(freed) | Self::Expected(freed) => freed,
        }
    }
}

/// Disadvantages of devices that a job would get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Drawbacks {
    /// The charge of MIG instances: a smaller one would do.
    pub size: u64,
    /// The work that guests lose that have to leave, in thousandths of a device times milliseconds.
    pub lost: u64,
}

impl Drawbacks {
    pub fn of(node: &NodeCapacity<'_>, placed: &Placed) -> Self {
        let devices = &node.row.node.devices;
        let size = |ix: &usize| {
            devices[*ix].instance.as_ref().map_or(0, |_| devices[*ix].counts_as().get())
        };
        let lost = placed.devices.iter().map(|ix| node.lost_by_guests(*ix));
        Self {
            size: placed.devices.iter().map(size).sum(),
            lost: lost.fold(0, u64::saturating_add),
        }
    }
}

impl std::iter::Sum for Drawbacks {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, it| Self {
            size: sum.size + it.size,
            lost: sum.lost.saturating_add(it.lost),
        })
    }
}

/// One node for one demand at one time, without the holds there.
pub(crate) struct Candidate<'a, 'b> {
    /// Position of the node in the capacity.
    pub node_pos: usize,
    node: &'b NodeCapacity<'a>,
    pub demand: Demand<'b>,
    /// Devices that the demand may not have, by position, ascending.
    closed: Vec<usize>,
}

impl<'a, 'b> Candidate<'a, 'b> {
    /// Returns the candidate unless the node's state, the demand's filters or holds exclude the
    /// node. `departures` are all that are expected on it.
    pub fn new(
        (capacity, holds): (&'b Capacity<'a>, &Holds<'a>),
        node_pos: usize,
        demand: Demand<'b>,
        at: Timestamp,
        departures: &dyn Fn() -> Vec<Departure>,
    ) -> Option<Self> {
        let mut candidate = Self::without_holds(&capacity.nodes[node_pos], node_pos, demand)?;
        if holds.has(node_pos) {
            let closed = holds.closed(node_pos, candidate.node, &demand, at, departures)?;
            candidate.close(closed.into_iter());
        }
        Some(candidate)
    }

    /// The same where no hold counts.
    pub fn without_holds(
        node: &'b NodeCapacity<'a>,
        node_pos: usize,
        demand: Demand<'b>,
    ) -> Option<Self> {
        let closed = || node.others(demand.fit());
        node.takes(demand.fit()).then(|| Self { node_pos, node, demand, closed: closed() })
    }

    /// Excludes more devices, such as those that other jobs claim.
    pub fn close(&mut self, devices: impl Iterator<Item = usize>) {
        self.closed.extend(devices);
        self.closed.sort_unstable();
        self.closed.dedup();
    }

    /// Whether the demand fits once these jobs have left.
    pub fn fits(&self, departures: Departures<'_>) -> bool {
        self.node.may_fit(&self.demand, departures.freed())
            && fits(&self.seats(departures), &self.demand.gpus())
    }

    /// Returns the part of the node that the demand gets once these jobs have left; `None` if it
    /// does not fit.
    pub fn place(&self, departures: Departures<'_>) -> Option<Placed> {
        self.place_where(departures, &|_| true)
    }

    /// The same on devices, by position, that pass a test.
    pub fn place_where(
        &self,
        departures: Departures<'_>,
        test: &dyn Fn(usize) -> bool,
    ) -> Option<Placed> {
        if !self.node.may_fit(&self.demand, departures.freed()) {
            return None;
        }
        let mut seats = self.seats(departures);
        seats.iter_mut().enumerate().filter(|(ix, _)| !test(*ix)).for_each(|(_, it)| close(it));
        let Demand { policy, seed, times, .. } = self.demand;
        let devices = seat(&seats, &self.demand.gpus(), policy.device_strategy, seed)?;
        let (node_pos, share) = (self.node_pos, self.demand.share());
        Some(Placed { node_pos, devices, share, times })
    }

    /// Returns the number of free devices that a demand for shares opens on free capacity; `None`
    /// if the demand does not fit there. Computed from counters.
    pub fn n_opened(&self, ranks: &ModelRanks) -> Option<usize> {
        let model = self.demand.model?;
        let n_devices = self.demand.n_devices();
        let gpus = &self.demand.fit().gpus;
        let n_fitting = self.node.n_fitting(ranks, self.demand.fit(), model, &self.closed);
        let n_opened = || match gpus.share() {
            None => 0,
            Some(_) => {
                let n_free = self.node.n_free_of(ranks, Some(model), &self.closed);
                n_devices.saturating_sub(n_fitting - n_free)
            }
        };
        (n_fitting >= n_devices).then(n_opened)
    }

    /// The disadvantages of the devices that the demand would get once these jobs have left.
    pub fn drawbacks(&self, departures: Departures<'_>) -> Drawbacks {
        let of_instances = self.demand.gpus().is_of_instances();
        if !of_instances && !self.node.has_guests() {
            return Drawbacks::default();
        }
        let placed = self.place(departures);
        placed.map_or_else(Drawbacks::default, |placed| Drawbacks::of(self.node, &placed))
    }

    /// The node's devices once these jobs have left.
    fn seats(&self, departures: Departures<'_>) -> Vec<Seat<'a>> {
        let Demand { model, .. } = self.demand;
        let gpus = &self.demand.fit().gpus;
        let of_model =
            |device| model.is_none() || gpus.models.len() < 2 || gpus.rank_of(device) == model;
        let devices = self.node.row.node.devices.iter().enumerate();
        let seats = devices.map(|(ix, device)| {
            let mut seat = self.device(ix, departures);
            if !of_model(device) {
                close(&mut seat);
            }
            seat
        });
        seats.collect()
    }

    fn device(&self, ix: usize, departures: Departures<'_>) -> Seat<'a> {
        let (node, row) = (self.node, self.node.row);
        let device = &row.node.devices[ix];
        let is_open = self.closed.binary_search(&ix).is_err() && unusable(row, ix).is_none();
        let (n_holders, memory) = node.left_after(ix, departures.freed());
        let is_free = is_open && n_holders == 0;
        let freed = Some(departures.freed());
        let is_open = is_open && node.stranger(ix, self.demand.fit(), freed).is_none();
        let room = Bytes::new(u64::try_from(memory.max(0)).unwrap_or(0));
        let lost = node.lost_by_guests(ix);
        match departures {
            Departures::Leaving(_) => {
                // A device that a job has as a whole is shared only once that job has left.
                let takes_shares = row.is_whole(ix) || row.is_shared(ix) || is_free;
                let room = if is_open && takes_shares { room } else { Bytes::ZERO };
                Seat { device, is_free, is_busy: !is_free && node.is_busy(ix), room, lost }
            }
            Departures::Expected(_) => {
                let has_room = match self.demand.share() {
                    None => is_free,
                    Some(share) => is_open && share.memory_of(device.memory) <= room,
                };
                let room = if has_room { device.memory } else { Bytes::ZERO };
                Seat { device, is_free: has_room, is_busy: false, room, lost }
            }
        }
    }
}

/// Excludes a device.
fn close(seat: &mut Seat<'_>) {
    seat.is_free = false;
    seat.room = Bytes::ZERO;
}
