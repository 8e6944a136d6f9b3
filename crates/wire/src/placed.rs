//! Where the tasks of a job are.

use gpool_model::allocation::{Slot, SlotPart};
use gpool_model::id::NodeName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::node::cores;

/// One task's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlacedOn {
    /// Which node.
    pub node: String,
    /// Indexes of its devices.
    pub devices: Vec<u32>,
    /// UUIDs of the same devices, in the same order.
    pub uuids: Vec<String>,
    /// What they count as, in GPUs, where they are shares or MIG instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<f64>,
}

impl PlacedOn {
    /// The place of one task.
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
