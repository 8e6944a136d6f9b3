//! Free devices and the placement of jobs: on the tightest node that fits the job; a larger job
//! gets empty nodes, and its rest goes to the tightest other node.

use std::collections::BTreeSet;

use crate::cluster::Nodes;

/// Nodes, each with a number of devices.
pub(super) type Parts = Vec<(u32, u32)>;

/// The devices of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Places {
    nodes: Nodes,
    /// For each node, which of its devices are taken.
    taken: Vec<Vec<bool>>,
    /// For each node, the number of free devices.
    // Invariant: matches `taken`.
    n_free: Vec<u32>,
    /// Nodes by their number of free devices.
    // Invariant: matches `n_free`.
    by_free: Vec<BTreeSet<u32>>,
    n_taken: u64,
}

impl Places {
    /// All devices are free.
    pub fn new(nodes: Nodes) -> Self {
        let mut by_free = vec![BTreeSet::new(); nodes.n_gpus as usize + 1];
        if let Some(empty) = by_free.last_mut() {
            empty.extend(0..nodes.n);
        }
        Self {
            nodes,
            taken: vec![vec![false; nodes.n_gpus as usize]; nodes.n as usize],
            n_free: vec![nodes.n_gpus; nodes.n as usize],
            by_free,
            n_taken: 0,
        }
    }

    /// The number of devices.
    pub fn n_all(&self) -> u64 {
        u64::from(self.nodes.n) * u64::from(self.nodes.n_gpus)
    }

    /// The number of taken devices.
    pub fn n_taken(&self) -> u64 {
        self.n_taken
    }

    /// Whether all devices are taken.
    pub fn are_full(&self) -> bool {
        self.n_taken == self.n_all()
    }

    /// Whether the cluster has this many devices.
    pub fn could_hold(&self, n_gpus: u32) -> bool {
        u64::from(n_gpus) <= self.n_all()
    }

    /// Returns the placement of this many devices, on none of the barred nodes.
    ///
    /// The tightest node is the one with the fewest free devices among those with enough; among
    /// equal ones, and among empty ones, the first.
    ///
    /// # Panics
    /// If nodes have no devices.
    pub fn fit(&self, n_gpus: u32, barred: &BTreeSet<u32>) -> Option<Parts> {
        let most = self.nodes.n_gpus;
        let (n_whole, rest) = (n_gpus / most, n_gpus % most);
        let empty = self.by_free.last().into_iter().flatten();
        let whole = empty.filter(|node| !barred.contains(node)).take(n_whole as usize);
        let mut parts: Parts = whole.map(|node| (*node, most)).collect();
        if parts.len() < n_whole as usize {
            return None;
        }
        if rest > 0 {
            let is_open = |node: &&u32| {
                !barred.contains(node) && !parts.iter().any(|(taken, _)| taken == *node)
            };
            let of_each = self.by_free.get(rest as usize..).into_iter().flatten();
            let tightest = of_each.flatten().find(is_open)?;
            parts.push((*tightest, rest));
        }
        Some(parts)
    }

    /// Takes these numbers of devices, the first free ones of each node, and returns them.
    pub fn take(&mut self, parts: &Parts) -> Vec<(u32, u32)> {
        let mut devices = Vec::new();
        for (node, n) in parts {
            let free = (0..self.nodes.n_gpus).filter(|ix| !self.is_taken(*node, *ix));
            devices.extend(free.take(*n as usize).map(|ix| (*node, ix)));
        }
        for device in &devices {
            self.turn(*device, true);
        }
        devices
    }

    /// Frees these devices.
    pub fn give_back(&mut self, devices: &[(u32, u32)]) {
        for device in devices {
            self.turn(*device, false);
        }
    }

    fn is_taken(&self, node: u32, ix: u32) -> bool {
        self.taken[node as usize][ix as usize]
    }

    /// Marks a free device as taken, or a taken one as free.
    fn turn(&mut self, (node, ix): (u32, u32), to: bool) {
        let at = node as usize;
        assert_ne!(self.is_taken(node, ix), to, "a device is taken once and given back once");
        self.taken[at][ix as usize] = to;
        self.by_free[self.n_free[at] as usize].remove(&node);
        if to {
            self.n_free[at] -= 1;
            self.n_taken += 1;
        } else {
            self.n_free[at] += 1;
            self.n_taken -= 1;
        }
        self.by_free[self.n_free[at] as usize].insert(node);
    }
}
