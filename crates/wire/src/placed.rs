//! Placements of tasks.

use gpool_model::allocation::{Slot, SlotPart};
use gpool_model::id::NodeName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::node::cores;

/// The placement of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlacedOn {
    /// Name of the node.
    pub node: String,
    /// Indexes of the devices.
    pub devices: Vec<u32>,
    /// UUIDs of the devices, in the same order.
    pub uuids: Vec<String>,
    /// Charge in GPUs, if the devices are fractions or MIG instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<f64>,
}

impl PlacedOn {
    /// Returns the placement of one task.
    #[must_use]
    pub fn new(node: &NodeName, slots: &[Slot]) -> Self {
        let charge: u64 = slots.iter().map(|slot| slot.part.charge().get()).sum();
        Self {
            gpus: slots.iter().any(|it| it.part != SlotPart::Whole).then(|| cores(charge)),
            node: node.to_string(),
            devices: slots.iter().map(|slot| slot.index).collect(),
            uuids: slots.iter().map(|slot| slot.device.to_string()).collect(),
        }
    }
}
