//! The jobs that a reservation or a drain affects: running jobs that end in time, running jobs that
//! do not, and waiting jobs that may no longer start there.

use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::reserve::{KeptWaiting, RunningThere};
use gpool_model::{
    Affected, DeviceUuid, DrainTarget, JobId, JobSpec, Node, NodeName, Phase, Reservation,
    Reserved, StartBasis, Timestamp,
};
use gpool_world::{JobRow, Snapshot, World};

/// The capacity to be cleared, by when, and the jobs that may stay.
pub(crate) struct Clearing<'a> {
    pub what: &'a Reserved,
    /// When running jobs should be gone; `None` sets no time.
    pub by: Option<Timestamp>,
    /// From when on no other job may be there; a job that ends before may still start.
    pub closes: Timestamp,
    /// The jobs that may be there.
    pub admits: &'a dyn Fn(&JobSpec) -> bool,
}

impl Clearing<'_> {
    pub fn affected(&self, snapshot: &Snapshot<'_>) -> Affected {
        let world = snapshot.world;
        let mut affected = Affected { by: self.by, ..Affected::default() };
        for row in world.holding() {
            let Some(node) = self.node_of(row) else { continue };
            let ends = world.expected_end(row, snapshot.now);
            let there = RunningThere {
                job: row.job.id,
                name: Arc::clone(&row.spec.name),
                user: Arc::clone(&row.spec.owner.user),
                node: node.clone(),
                ends: ends.map(|ends| ends.at),
                by_limit: ends.is_some_and(|ends| ends.basis == StartBasis::Limit),
            };
            let in_time = self.by.is_none_or(|by| ends.is_some_and(|ends| ends.at <= by));
            if in_time { affected.in_time.push(there) } else { affected.too_long.push(there) }
        }
        for id in gpool_sched::in_order(snapshot, world.policy()) {
            if self.keeps_waiting(snapshot, id) {
                affected.n_waiting += 1;
                if affected.waiting.len() < Affected::WAITING_MAX
                    && let Some(row) = world.job(id)
                {
                    affected.waiting.push(KeptWaiting {
                        job: id,
                        name: Arc::clone(&row.spec.name),
                        user: Arc::clone(&row.spec.owner.user),
                    });
                }
            }
        }
        affected
    }

    /// Jobs that run there, may not stay, and were not ordered to leave yet.
    pub fn in_the_way(&self, world: &World) -> Vec<JobId> {
        let rows = world.holding().filter(|row| self.node_of(row).is_some());
        rows.map(|row| row.job.id).collect()
    }

    /// Returns a node to be cleared on which a job runs that may not stay.
    fn node_of<'a>(&self, row: &'a JobRow) -> Option<&'a NodeName> {
        if matches!(row.job.phase, Phase::Stopping { .. }) {
            return None;
        }
        let there = row.job.phase.allocations().iter().find(|allocation| {
            self.what.has_node(&allocation.node)
                || self.what.devices.get(&allocation.node).is_some_and(|kept| {
                    allocation.held_slots().iter().any(|slot| kept.contains(&slot.device))
                })
        })?;
        (!(self.admits)(&row.spec)).then_some(&there.node)
    }

    fn keeps_waiting(&self, snapshot: &Snapshot<'_>, id: JobId) -> bool {
        let world = snapshot.world;
        let Some((shape_ix, _)) = world.place_of(id) else { return false };
        let shape = &world.shape(shape_ix).shape;
        let Some(row) = world.job(id).filter(|row| !(self.admits)(&row.spec)) else {
            return false;
        };
        let longest = row.spec.time_limit.map(|limit| limit.saturating_add(row.spec.grace));
        let ends_before = longest.is_some_and(|longest| snapshot.now.after(longest) <= self.closes);
        !ends_before && self.could_use(world, &shape.fit)
    }

    /// Whether a job with this fit could get any of the capacity to be cleared.
    fn could_use(&self, world: &World, fit: &Fit) -> bool {
        let answers = |node: &Node, test: &dyn Fn(&DeviceUuid) -> bool| {
            let mut devices = node.devices.iter().filter(|device| test(&device.uuid));
            devices.any(|device| fit.gpus.rank_of(device).is_some())
        };
        let nodes = self.what.nodes.iter().filter_map(|name| world.node(name));
        let whole =
            nodes.into_iter().any(|row| fit.gpus.is_none() || answers(&row.node, &|_| true));
        whole
            || !fit.gpus.is_none()
                && self.what.devices.iter().any(|(name, kept)| {
                    let row = world.node(name);
                    row.is_some_and(|row| answers(&row.node, &|uuid| kept.contains(uuid)))
                })
    }
}

/// Returns the jobs that the next window of a reservation affects.
pub(crate) fn of_reservation(snapshot: &Snapshot<'_>, reservation: &Reservation) -> Affected {
    let begins = reservation.occurrence(snapshot.now).map_or(snapshot.now, |window| window.from);
    let closes = begins.max(snapshot.now);
    let admits = |spec: &JobSpec| reservation.beneficiary.is_for(spec);
    let clearing = Clearing { what: &reservation.what, by: Some(closes), closes, admits: &admits };
    clearing.affected(snapshot)
}

/// Returns the capacity that a drain of these targets clears; the targets exist.
pub(crate) fn drained(world: &World, targets: &[DrainTarget]) -> Reserved {
    let mut what = Reserved::default();
    for DrainTarget { node, device } in targets {
        let Some(device) = device else {
            what.nodes.insert(node.clone());
            continue;
        };
        let row = world.node(node);
        if let Some(uuid) =
            row.and_then(|row| crate::control::nodes::find_device(&row.node, device))
        {
            what.devices.entry(node.clone()).or_default().insert(uuid);
        }
    }
    what
}
