//! The evictions that a cycle has decided so far, and the input of a search for more.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::JobId;
use gpool_world::Snapshot;

use super::backoff::Backoff;
use super::evictable::{Evictable, Test};
use crate::capacity::{Capacity, Demand, DeviceUse, Placed, View};
use crate::fairshare::TreeIx;
use crate::quota_state::Projects;

/// A job that needs capacity, and the state of the cluster.
#[derive(Clone, Copy)]
pub(crate) struct EvictionProblem<'a, 'b> {
    pub view: View<'a, 'b>,
    pub projects: &'b Projects,
    pub demand: Demand<'b>,
    /// The project or user that the job is charged to.
    pub leaf: TreeIx,
    /// Its charge, by kind.
    pub charge: &'b [u64],
}

impl EvictionProblem<'_, '_> {
    /// Whether its quota allows the job once these jobs have left. Without `may_borrow` its project
    /// borrows no more than before.
    pub fn has_quota_after(&self, gone: &[&Evictable], may_borrow: bool) -> bool {
        let Self { projects, leaf, charge, .. } = *self;
        let given: Vec<(TreeIx, &[u64])> =
            gone.iter().map(|it| (it.leaf, &it.amounts[..])).collect();
        let preemptible = self.demand.shape.preemptible;
        (may_borrow || projects.borrows_no_more(leaf, charge, &given))
            && projects.refuses(leaf, charge, preemptible, &given).is_none()
    }

    /// Returns the same search for devices of one model of the request.
    pub fn of_model(self, model: Option<usize>) -> Self {
        Self { demand: self.demand.of_model(model), ..self }
    }
}

/// The answer of a stage that moves or evicts other jobs to start a job.
pub(crate) enum RoomAnswer {
    /// The job starts once these victims have left.
    Start(Solution),
    /// Jobs that are leaving already make room: the job waits for them.
    Leaving,
    /// Enough jobs may leave, but not before their minimum run time is over.
    TooSoon,
    /// No jobs that may leave help.
    Nothing,
}

impl From<Option<Solution>> for RoomAnswer {
    fn from(found: Option<Solution>) -> Self {
        found.map_or(Self::Nothing, Self::Start)
    }
}

/// The place of a job, and the jobs that leave for it.
pub(crate) struct Solution {
    pub placed: Vec<Placed>,
    pub victims: Vec<Evictable>,
}

impl Solution {
    /// Leaves out victims on other nodes that were chosen for the quota, where those that make room
    /// are enough for it.
    pub fn without_needless(mut self, may_have: &Test<'_>) -> Self {
        for at in (0..self.victims.len()).rev() {
            let is_near = |it: &Placed| self.victims[at].held.contains_key(&it.node_pos);
            let others = self.victims.iter().enumerate().filter(|(ix, _)| *ix != at);
            let others: Vec<&Evictable> = others.map(|(_, it)| it).collect();
            if !self.placed.iter().any(is_near) && may_have(&others) {
                self.victims.remove(at);
            }
        }
        self
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Evictions {
    pub victims: BTreeSet<JobId>,
    /// Devices that a job waits for, which books nothing on them: node and position.
    claimed: BTreeSet<(usize, usize)>,
    /// The parts of devices that the victims of this cycle give up, by position of the node.
    pub freed: BTreeMap<usize, Vec<DeviceUse>>,
    /// Nodes that a job was leaving when the cycle began, by position.
    initially_vacating: BTreeSet<usize>,
    pub backoff: Backoff,
}

impl Evictions {
    pub fn new(snapshot: &Snapshot<'_>, capacity: &Capacity<'_>) -> Self {
        let world = snapshot.world;
        let held = world.leaving().flat_map(|row| row.job.phase.allocations());
        let initially_vacating = held.filter_map(|it| capacity.position(world, &it.node)).collect();
        Self { initially_vacating, ..Self::default() }
    }

    /// Whether a job is a victim of this cycle.
    pub fn has(&self, job: JobId) -> bool {
        self.victims.contains(&job)
    }

    /// Evicts the victims of a solution. Its place is booked, so other jobs may get what these
    /// victims give back beyond it.
    pub fn commit(&mut self, solution: Solution) -> Solution {
        self.victims.extend(solution.victims.iter().map(|it| it.job));
        for (node_pos, held) in solution.victims.iter().flat_map(|it| &it.held) {
            self.freed.entry(*node_pos).or_default().extend(&held.uses);
        }
        solution
    }

    /// Claims devices that a job waits for, so that no later job gets them.
    pub fn claim(&mut self, placed: &Placed) {
        self.claimed.extend(placed.devices.iter().map(|ix| (placed.node_pos, *ix)));
    }

    /// Devices of a node that are claimed, by position, ascending.
    pub fn claimed_on(&self, node_pos: usize) -> impl Iterator<Item = usize> {
        let here = self.claimed.range((node_pos, 0)..=(node_pos, usize::MAX));
        here.map(|(_, device_ix)| *device_ix)
    }

    /// Lets a job wait for a place that jobs are leaving, and claims that place.
    pub fn wait_for(&mut self, demand: &Demand<'_>, placed: &Placed) {
        self.claim(placed);
        self.backoff.add(demand.shape);
    }

    /// Whether a job was leaving a node when the cycle began.
    pub fn was_vacating(&self, node_pos: usize) -> bool {
        self.initially_vacating.contains(&node_pos)
    }

    /// Nodes that a job is leaving, by position: since before this cycle, then because of it.
    pub fn vacating_nodes(&self) -> impl Iterator<Item = usize> {
        self.initially_vacating.iter().chain(self.freed.keys()).copied()
    }
}
