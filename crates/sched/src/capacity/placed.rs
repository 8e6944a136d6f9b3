//! The part of a node that a job gets.

use gpool_model::plan::Fit;
use gpool_model::{Node, Placement, Share, Slot, SlotPart};

use super::host_resources::HostResources;

/// The part of one node that a job gets.
#[derive(Clone)]
pub(crate) struct Placed {
    /// Position of the node in the capacity.
    pub node_pos: usize,
    /// Positions of devices of the node, ascending: those of all tasks there.
    pub devices: Vec<usize>,
    /// The part of each device; `None` is the whole device.
    pub share: Option<Share>,
    /// Units of the demand on the node.
    pub times: u32,
}

impl Placed {
    /// The host resources that all tasks there book.
    pub fn host(&self, fit: &Fit) -> HostResources {
        HostResources::needed(fit).times(self.times)
    }

    /// One placement for each task there.
    pub fn placements(&self, fit: &Fit, node: &Node) -> impl Iterator<Item = Placement> {
        let n_each = usize::try_from(fit.gpus.n_devices()).unwrap_or(usize::MAX);
        let slot = |ix: &usize| {
            let device = &node.devices[*ix];
            let whole = || SlotPart::all_of(device);
            let part = self.share.map_or_else(whole, |share| share.slot_of(device.memory));
            Slot { index: device.index, device: device.uuid.clone(), part }
        };
        let mut left = &self.devices[..];
        (0..fit.gang.tasks_per_node.saturating_mul(self.times)).map(move |_| {
            let (own, rest) = left.split_at(n_each.min(left.len()));
            left = rest;
            Placement { node: node.name.clone(), slots: own.iter().map(slot).collect() }
        })
    }
}

/// Units that a node has already.
pub(crate) fn times_on(placed: &[Placed], node_pos: usize) -> u32 {
    placed.iter().find(|it| it.node_pos == node_pos).map_or(0, |it| it.times)
}

/// Units that have no place yet.
pub(crate) fn n_missing(placed: &[Placed], fit: &Fit) -> u32 {
    fit.gang.nodes.saturating_sub(placed.iter().map(|it| it.times).sum())
}

/// Sets the job's devices on a node, in place of earlier ones there.
pub(crate) fn replace_on_node(placed: &mut Vec<Placed>, next: Placed) {
    placed.retain(|it| it.node_pos != next.node_pos);
    placed.push(next);
}
