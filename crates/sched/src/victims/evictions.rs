//! The evictions that a cycle has decided so far, and the input of a search for more.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::JobId;

use super::backoff::Backoff;
use super::evictable::{Evictable, HeldOn};
use crate::capacity::{Demand, Placed, View};
use crate::fairshare::Row;
use crate::quota_state::Projects;

/// A job that needs capacity, and the state of the cluster.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a, 'b> {
    pub view: View<'a, 'b>,
    pub projects: &'b Projects,
    pub demand: Demand<'b>,
    /// The project or user that the job is charged to.
    pub leaf: Row,
    /// Its charge, by kind.
    pub charge: &'b [u64],
}

impl Input<'_, '_> {
    /// Returns the same search for devices of one model of the request.
    pub fn of_model(self, model: Option<usize>) -> Self {
        Self { demand: self.demand.of_model(model), ..self }
    }
}

/// The place of a job, and the jobs that leave for it.
pub(crate) struct Solution {
    pub placed: Vec<Placed>,
    pub victims: Vec<Evictable>,
}

/// The evictions of a cycle.
#[derive(Default)]
pub(crate) struct Evictions {
    gone: BTreeSet<JobId>,
    /// Devices that a job of this cycle claims: node and position.
    claimed: BTreeSet<(usize, usize)>,
    /// What the victims of this cycle give up, by position of the node.
    pub freed: BTreeMap<usize, Vec<HeldOn>>,
    /// Nodes that a job was leaving when the cycle began, by position; computed when it is needed.
    left: Option<BTreeSet<usize>>,
    pub backoff: Backoff,
}

impl Evictions {
    /// Whether a job is a victim of this cycle.
    pub fn has(&self, job: JobId) -> bool {
        self.gone.contains(&job)
    }

    /// Evicts the victims of a solution and claims its devices.
    pub fn commit(&mut self, solution: Solution) -> Solution {
        self.gone.extend(solution.victims.iter().map(|it| it.job));
        for (node_pos, held) in solution.victims.iter().flat_map(|it| &it.held) {
            self.freed.entry(*node_pos).or_default().push(held.clone());
        }
        solution.placed.iter().for_each(|placed| self.claim(placed));
        solution
    }

    /// Claims devices, so that no later job gets them.
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

    /// Computes the nodes that a job was leaving when the cycle began, if they are not known.
    pub fn learn_left(&mut self, view: &View<'_, '_>) {
        self.left.get_or_insert_with(|| {
            let world = view.snapshot.world;
            let held = world.leaving().flat_map(|row| row.job.phase.allocations());
            held.filter_map(|it| view.capacity.position(world, &it.node)).collect()
        });
    }

    /// Whether a job may have been leaving a node when the cycle began.
    pub fn may_be_left(&self, node_pos: usize) -> bool {
        self.left.as_ref().is_none_or(|left| left.contains(&node_pos))
    }

    /// Nodes that a job is leaving, by position: since before this cycle, then because of it.
    pub fn left(&self) -> impl Iterator<Item = usize> {
        self.left.iter().flatten().chain(self.freed.keys()).copied()
    }
}
