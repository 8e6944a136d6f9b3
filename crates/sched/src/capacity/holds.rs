//! Capacity that is held from some time on: planned starts, reservations, maintenance windows. One
//! mechanism for all three: a job that a hold does not admit may use held capacity only before the
//! hold begins or after it ends.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::reservation::Window;
use gpool_model::{JobId, NodeName, Policy, Reason, Reservation, Shape, Timestamp};
use gpool_world::Snapshot;

use super::cluster::Capacity;
use super::demand::Demand;
use super::departures::{Departure, DeviceUse, Freed, NodeHoldings};
use super::host_resources::HostResources;
use super::node::NodeCapacity;

/// Capacity that is held on one node.
#[derive(Debug, Clone)]
pub(crate) enum Hold<'a> {
    /// For the planned start of a job.
    Start { job: JobId, held: NodeHoldings, run: Window },
    /// For jobs that a reservation admits: devices, or the whole node with all its devices.
    Reserved { by: &'a Reservation, devices: Vec<usize>, is_whole: bool },
}

impl Hold<'_> {
    /// The time that it holds capacity from a job that runs in `run`, if the two meet. No start is
    /// planned on a reservation for others, even after its end: that would assume its jobs to be
    /// gone by then, and jobs without a time limit could never use it.
    fn conflict(&self, run: Window, now: Timestamp) -> Option<Window> {
        let kept = match self {
            Self::Start { run, .. } => *run,
            Self::Reserved { by, .. } if run.from > now && !by.is_maintenance() => {
                Window { from: by.occurrence(now)?.from, until: None }
            }
            Self::Reserved { by, .. } => by.occurrence(run.from)?,
        };
        kept.meets(run).then_some(kept)
    }

    fn admits(&self, shape: &Shape) -> bool {
        match self {
            Self::Start { .. } => false,
            Self::Reserved { by, .. } => by.beneficiary.admits(shape),
        }
    }

    /// When it ends, at or after a time.
    fn until(&self, at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Start { run, .. } => run.until,
            Self::Reserved { by, .. } => by.occurrence(at)?.until,
        }
    }

    /// The reason of a job that it keeps out.
    fn reason(&self, node: &NodeCapacity<'_>, shape: &Shape, now: Timestamp) -> Reason {
        match self {
            Self::Start { job, run, .. } => Reason::WouldDelay { job: *job, planned_at: run.from },
            Self::Reserved { by, devices, .. } => {
                let gpus = &shape.fit.gpus;
                let asked = |ix: &usize| gpus.rank_of(&node.row.node.devices[*ix]).is_some();
                let n_devices = match gpus.n_devices() {
                    0 => 0,
                    _ => devices.iter().filter(|ix| asked(ix)).count(),
                };
                let n_devices = u32::try_from(n_devices).unwrap_or(u32::MAX);
                let window = by.occurrence(now).unwrap_or(by.window);
                reserved_for_others(by, window, node.name(), n_devices)
            }
        }
    }
}

/// Returns the reason of a job that a reservation for others keeps from devices of a node.
pub(crate) fn reserved_for_others(
    by: &Reservation,
    Window { from, until }: Window,
    node: &NodeName,
    n_devices: u32,
) -> Reason {
    let (reservation, node) = (by.name.clone(), node.clone());
    match by.is_maintenance() {
        true => Reason::MaintenanceSoon { reservation, node, from, until },
        false => {
            let whom = by.beneficiary.text();
            Reason::ReservedForOther { reservation, whom, node, n_devices, from, until }
        }
    }
}

/// All holds, by position of the node in the capacity.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holds<'a> {
    by_node: BTreeMap<usize, Vec<Hold<'a>>>,
    /// The reservations that are not over.
    reservations: Vec<&'a Reservation>,
    /// Whether only reserved devices are given out.
    reserved_only: bool,
    now: Timestamp,
}

impl<'a> Holds<'a> {
    /// Holds the reservations that are not over.
    pub fn of(snapshot: &Snapshot<'a>, policy: &Policy, capacity: &Capacity<'a>) -> Self {
        let reserved_only = policy.reserved_only;
        let mut holds = Self { now: snapshot.now, reserved_only, ..Self::default() };
        for by in snapshot.world.reservations().values() {
            if by.is_over(snapshot.now) {
                continue;
            }
            holds.reservations.push(by);
            for node in by.what.nodes.iter().chain(by.what.devices.keys()) {
                let Some(node_pos) = capacity.position(snapshot.world, node) else { continue };
                let is_whole = by.what.has_node(node);
                let all = capacity.nodes[node_pos].row.node.devices.iter().enumerate();
                let reserved = all.filter(|(_, it)| is_whole || by.what.has_device(node, &it.uuid));
                let devices = reserved.map(|(ix, _)| ix).collect();
                holds.add(node_pos, Hold::Reserved { by, devices, is_whole });
            }
        }
        holds
    }

    pub fn add(&mut self, node_pos: usize, hold: Hold<'a>) {
        self.by_node.entry(node_pos).or_default().push(hold);
    }

    /// Nodes with holds, of `n_nodes`.
    pub fn nodes(&self, n_nodes: usize) -> impl Iterator<Item = usize> + '_ {
        let all = if self.reserved_only { 0..n_nodes } else { 0..0 };
        let some = self.by_node.keys().copied().filter(|_| !self.reserved_only);
        all.chain(some)
    }

    pub fn are_reserved(&self) -> bool {
        self.reserved_only || !self.reservations.is_empty()
    }

    pub fn are_none(&self) -> bool {
        !self.reserved_only && self.by_node.is_empty()
    }

    pub fn has(&self, node_pos: usize) -> bool {
        self.reserved_only || self.by_node.contains_key(&node_pos)
    }

    /// Times of planned starts on a node.
    pub fn starts(&self, node_pos: usize) -> impl Iterator<Item = Timestamp> {
        let here = self.by_node.get(&node_pos).into_iter().flatten();
        here.filter_map(|hold| match hold {
            Hold::Start { run, .. } => Some(run.from),
            Hold::Reserved { .. } => None,
        })
    }

    /// The devices of a node, by position, that are reserved for work of a shape at a moment.
    fn own(&self, node_pos: usize, shape: &Shape, at: Timestamp) -> BTreeSet<usize> {
        let here = self.by_node.get(&node_pos).into_iter().flatten();
        let own = here.filter_map(|hold| match hold {
            Hold::Reserved { by, devices, .. } => {
                let window = by.occurrence(at)?;
                let is_own =
                    !by.is_maintenance() && window.from <= at && by.beneficiary.admits(shape);
                is_own.then_some(devices)
            }
            Hold::Start { .. } => None,
        });
        own.flatten().copied().collect()
    }

    /// Returns the reason of a job that waits where only reserved devices are given out.
    pub fn not_reserved(&self, capacity: &Capacity<'_>, shape: &Shape) -> Option<Reason> {
        if !self.reserved_only || shape.fit.gpus.is_none() {
            return None;
        }
        let asked = |node: &NodeCapacity<'_>, ix: &usize| {
            shape.fit.gpus.rank_of(&node.row.node.devices[*ix]).is_some()
        };
        let nodes = capacity.nodes.iter().enumerate().map(|(node_pos, node)| {
            let own = self.own(node_pos, shape, self.now);
            own.into_iter().filter(|ix| asked(node, ix)).count()
        });
        let reserved = u64::try_from(nodes.sum::<usize>()).unwrap_or(u64::MAX);
        Some(Reason::NotReserved { reserved })
    }

    /// Positions of the reservations that admit a shape. Shapes with the same list can use the same
    /// capacity.
    pub fn access(&self, shape: &Shape) -> Vec<usize> {
        let all = self.reservations.iter().enumerate();
        all.filter(|(_, by)| by.beneficiary.admits(shape)).map(|(at, _)| at).collect()
    }

    /// Times after `from` at which a hold ends, or begins for the jobs that it admits.
    pub fn releases(&self, node_pos: usize, from: Timestamp) -> Vec<Timestamp> {
        let here = self.by_node.get(&node_pos).into_iter().flatten();
        let given = |hold: &Hold<'_>| match hold {
            Hold::Reserved { by, .. } if self.reserved_only => Some(by.occurrence(from)?.from),
            Hold::Reserved { .. } | Hold::Start { .. } => None,
        };
        let all = here.flat_map(|hold| hold.until(from).into_iter().chain(given(hold)));
        all.filter(|at| *at > from).collect()
    }

    /// Returns the devices of a node, by position, that are held from a demand that starts at `at`;
    /// `None` if the node has too few other resources beside holds. `departures` are all that are
    /// expected on the node.
    pub fn closed(
        &self,
        node_pos: usize,
        node: &NodeCapacity<'_>,
        demand: &Demand<'_>,
        at: Timestamp,
        departures: &dyn Fn() -> Vec<Departure>,
    ) -> Option<Vec<usize>> {
        let run = demand.run(at);
        let mut closed = Vec::new();
        let mut starts = Vec::new();
        for hold in self.by_node.get(&node_pos).into_iter().flatten() {
            let Some(conflict) =
                hold.conflict(run, self.now).filter(|_| !hold.admits(demand.shape))
            else {
                continue;
            };
            match hold {
                Hold::Reserved { is_whole: true, .. } => return None,
                Hold::Reserved { devices, .. } => closed.extend(devices),
                Hold::Start { held, .. } => starts.push((held, conflict)),
            }
        }
        if self.reserved_only {
            let own = self.own(node_pos, demand.shape, at);
            closed.extend((0..node.row.node.devices.len()).filter(|ix| !own.contains(ix)));
        }
        if !starts.is_empty() {
            closed.extend(held_by_starts(node, demand, at, &starts, &departures())?);
        }
        closed.sort_unstable();
        closed.dedup();
        Some(closed)
    }

    /// Returns the reason of a job that would fit on a node without its holds: the first hold that
    /// keeps it out.
    pub fn reason(
        &self,
        node_pos: usize,
        node: &NodeCapacity<'_>,
        shape: &Shape,
    ) -> Option<Reason> {
        let now = self.now;
        let run = Window::lasting(now, shape.takes);
        let here = self.by_node.get(&node_pos).into_iter().flatten();
        let conflicts = here.filter(|hold| !hold.admits(shape));
        let conflicts = conflicts.filter_map(|hold| Some((hold.conflict(run, now)?.from, hold)));
        let (_, first) = conflicts.min_by_key(|(from, _)| *from)?;
        Some(first.reason(node, shape, now))
    }
}

/// Returns the devices that planned starts hold from a demand that starts at `from`; `None` if they
/// hold its host resources. Each start has its parts of the node for a time.
fn held_by_starts(
    node: &NodeCapacity<'_>,
    demand: &Demand<'_>,
    from: Timestamp,
    starts: &[(&NodeHoldings, Window)],
    departures: &[Departure],
) -> Option<Vec<usize>> {
    let strangers = starts.iter().filter(|(held, _)| !node.accepts(demand.fit(), held));
    let devices = strangers.flat_map(|(held, _)| held.uses.iter().map(|it| it.device_ix));
    let mut closed: Vec<usize> = devices.collect();
    // Free capacity falls only where a hold begins.
    let begins = starts.iter().map(|(_, run)| run.from.max(from));
    for at in begins.chain([from]) {
        let mut freed = Freed::default();
        departures.iter().filter(|it| it.end.at <= at).for_each(|it| freed.add(&it.held));
        let held = || starts.iter().filter(|(_, run)| run.holds(at)).map(|(held, _)| held);
        let host = held().fold(HostResources::default(), |sum, held| sum.more(held.host));
        if demand.host().first_short_with(host, node.free.more(freed.host)).is_some() {
            return None;
        }
        let held: Vec<DeviceUse> = held().flat_map(|held| held.uses.iter().copied()).collect();
        let of_starts: BTreeSet<usize> = held.iter().map(|it| it.device_ix).collect();
        let gpus = &demand.fit().gpus;
        let is_closed = |ix: &usize| {
            let wanted = DeviceUse::of(gpus, *ix, &node.row.node.devices[*ix]);
            !node.has_room_beside(wanted, &freed, &held)
        };
        closed.extend(of_starts.into_iter().filter(is_closed));
    }
    Some(closed)
}
