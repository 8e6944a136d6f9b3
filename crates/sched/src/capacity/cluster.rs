//! The free capacity of all nodes while a plan is made: flat counters, taken from the world and
//! updated by each decision. A full node costs next to nothing: its devices are not read.

use std::collections::BTreeSet;

use gpool_model::plan::Fit;
use gpool_model::{Decision, Device, GpuRequest, JobId, NodeName, Placement};
use gpool_world::{JobRow, NodeIx, World};

use super::host_resources::HostResources;
use super::node::{ModelRanks, NodeCapacity};
use super::placed::Placed;

/// The free capacity of all nodes, in the order of their names.
#[derive(Clone)]
pub(crate) struct Capacity<'a> {
    pub nodes: Vec<NodeCapacity<'a>>,
    /// Positions of the nodes that take work by how many devices are free there, ascending.
    by_free: Vec<Vec<usize>>,
    /// Number of devices of these nodes that are free or have shares on them.
    pub n_open: usize,
    /// One device of each kind that is free somewhere. All of a kind have the same rank in a
    /// request.
    kinds: Vec<&'a Device>,
    /// Positions by [`NodeIx`].
    pub by_ix: Vec<usize>,
}

impl<'a> Capacity<'a> {
    pub fn new(world: &'a World) -> Self {
        let mut capacity = Self {
            nodes: Vec::with_capacity(world.nodes().len()),
            by_free: vec![Vec::new()],
            n_open: 0,
            kinds: Vec::new(),
            by_ix: vec![0; world.nodes().len()],
        };
        for (node_pos, (ix, row)) in world.nodes_by_name().enumerate() {
            let mut node = NodeCapacity::new(world, ix, row);
            if row.n_whole > 0 {
                node.open(|device| capacity.kind_of(device));
            }
            if row.node.takes_work() {
                capacity.list(node.n_free).push(node_pos);
                capacity.n_open += node.n_free + node.n_shared;
            }
            capacity.by_ix[ix.0] = node_pos;
            capacity.nodes.push(node);
        }
        capacity
    }

    pub fn position(&self, world: &World, node: &NodeName) -> Option<usize> {
        world.node_ix(node).map(|NodeIx(ix)| self.by_ix[ix])
    }

    /// The most units of a fit that a node may get, whatever is free there.
    pub fn most_on(&self, fit: &Fit, node_pos: usize) -> u32 {
        fit.most_on(&self.nodes[node_pos].row.node)
    }

    fn kind_of(&mut self, device: &'a Device) -> usize {
        self.kinds.iter().position(|it| it.is_alike(device)).unwrap_or_else(|| {
            self.kinds.push(device);
            self.kinds.len() - 1
        })
    }

    fn list(&mut self, n_free: usize) -> &mut Vec<usize> {
        if self.by_free.len() <= n_free {
            self.by_free.resize(n_free + 1, Vec::new());
        }
        &mut self.by_free[n_free]
    }

    /// Positions of nodes that take work and have at least `n_least` free devices: the nodes with
    /// the fewest first, then by name.
    pub fn with_free(&self, n_least: usize) -> impl Iterator<Item = usize> {
        self.by_free.iter().skip(n_least).flatten().copied()
    }

    /// The largest number of free devices of one node that takes work.
    pub fn most_free(&self) -> usize {
        self.by_free.iter().rposition(|nodes| !nodes.is_empty()).unwrap_or(0)
    }

    /// The rank of each kind of device in a request.
    pub fn ranks(&self, gpus: &GpuRequest) -> ModelRanks {
        let rank_by_kind = self.kinds.iter().map(|device| gpus.rank_of(device)).collect();
        ModelRanks { rank_by_kind, n_ranks: gpus.models.len().max(1) }
    }

    /// Positions of the evictions among these decisions that free a device of a place.
    pub fn frees(&self, decisions: &[Decision], found: &[Placed]) -> Vec<u32> {
        let holders = found.iter().flat_map(|found| {
            let devices = &self.nodes[found.node_pos].row.devices;
            found.devices.iter().flat_map(|ix| &devices[*ix].holders).map(|task| task.job)
        });
        let holders: BTreeSet<JobId> = holders.collect();
        let frees = (0u32..).zip(decisions).filter_map(|(at, decision)| match decision {
            Decision::Evict { job, .. } if holders.contains(job) => Some(at),
            _ => None,
        });
        frees.collect()
    }

    /// One placement for each task, by rank: the tasks of the first node come first.
    pub fn placements(&self, placed: &[Placed], fit: &Fit) -> Vec<Placement> {
        let node = |it: &Placed| &self.nodes[it.node_pos].row.node;
        placed.iter().flat_map(|it| it.placements(fit, node(it))).collect()
    }

    /// Frees the host memory that a paused job needs no longer once it resumes.
    pub fn resume(&mut self, world: &World, row: &JobRow) {
        for allocation in row.job.phase.allocations() {
            if let Some(node_pos) = self.position(world, &allocation.node) {
                let node = &mut self.nodes[node_pos];
                node.free = node.free.more(HostResources::until_resumed(allocation));
            }
        }
    }

    /// Books the part of a node that a job gets.
    pub fn book(&mut self, job: JobId, placed: &Placed, fit: &Fit) {
        let node = &mut self.nodes[placed.node_pos];
        let (before, n_open) = (node.n_free, node.n_free + node.n_shared);
        node.book(job, placed, fit);
        let after = node.n_free;
        self.n_open = self.n_open + after + node.n_shared - n_open;
        if after < before {
            let at = |list: &[usize]| list.partition_point(|pos| *pos < placed.node_pos);
            let (from, to) = (at(&self.by_free[before]), at(self.list(after)));
            self.by_free[before].remove(from);
            self.by_free[after].insert(to, placed.node_pos);
        }
    }
}
