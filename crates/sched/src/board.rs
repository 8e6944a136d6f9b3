//! What is free while a plan is made: flat counters taken from the world and booked on as
//! decisions fall.

use gpool_model::plan::Fit;
use gpool_model::{NodeName, ResourceKind, Resources};
use gpool_world::{NodeIx, NodeRow, World};

use crate::place::Found;
use crate::usable::unusable;

/// All nodes in the order of their names.
pub(crate) struct Board<'a> {
    pub nodes: Vec<NodeBoard<'a>>,
}

/// One node.
pub(crate) struct NodeBoard<'a> {
    pub ix: NodeIx,
    pub row: &'a NodeRow,
    /// Beside devices.
    pub free: Resources,
    /// By device position: may be given out whole, now.
    pub is_free: Vec<bool>,
    /// By device position: a job has it.
    pub is_busy: Vec<bool>,
}

impl<'a> Board<'a> {
    pub fn new(world: &'a World) -> Self {
        let nodes = world.nodes_by_name().map(|(ix, row)| {
            let devices = 0..row.node.devices.len();
            NodeBoard {
                ix,
                row,
                free: row.free_now(),
                is_free: devices
                    .clone()
                    .map(|at| row.is_whole(at) && unusable(row, at).is_none())
                    .collect(),
                is_busy: devices.map(|at| !row.devices[at].holders.is_empty()).collect(),
            }
        });
        Self { nodes: nodes.collect() }
    }

    pub fn book(&mut self, found: &Found, fit: &Fit) {
        let node = &mut self.nodes[found.board_ix];
        for device_ix in &found.devices {
            node.is_free[*device_ix] = false;
            node.is_busy[*device_ix] = true;
        }
        node.free = node.free.checked_sub(&beside_devices(fit)).expect("it was found to fit");
    }
}

impl NodeBoard<'_> {
    pub fn name(&self) -> &NodeName {
        &self.row.node.name
    }

    pub fn n_free(&self) -> usize {
        self.is_free.iter().filter(|free| **free).count()
    }
}

/// What one task of that fit books beside devices.
pub(crate) fn beside_devices(fit: &Fit) -> Resources {
    let mut resources = Resources::none().with_cpus(fit.cpus).with_memory(fit.memory);
    resources.set(ResourceKind::Tasks, 1);
    resources
}
