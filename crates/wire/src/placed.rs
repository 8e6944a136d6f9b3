//! Placements of tasks.

use gpool_model::Node;
use gpool_model::allocation::{Slot, SlotPart};
use gpool_model::device::Device;
use gpool_model::id::{NodeName, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use gpool_texts::words::cores;

/// The placement of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlacedOn {
    /// Name of the node.
    pub node: String,
    /// Indexes of the devices that the task uses.
    pub devices: Vec<u32>,
    /// Indexes of the devices that it booked, if the node moved it to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booked: Option<Vec<u32>>,
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
            booked: None,
            uuids: slots.iter().map(|slot| slot.device.to_string()).collect(),
        }
    }

    /// Replaces the devices by those that the task uses on its node.
    pub fn spread(&mut self, node: &Node, task: TaskId, slots: &[Slot]) {
        let used = slots.iter().map(|slot| node.guest_place(task, &slot.device));
        let used: Vec<Option<&Device>> = used.collect();
        if used.iter().all(Option::is_none) {
            return;
        }
        self.booked = Some(self.devices.clone());
        for (ix, device) in used.into_iter().enumerate() {
            if let Some(device) = device {
                self.devices[ix] = device.index;
                self.uuids[ix] = device.uuid.to_string();
            }
        }
    }
}
