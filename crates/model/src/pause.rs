//! The host memory that a paused task needs beside its own.

use crate::allocation::{Allocation, AllocationState, Slot};
use crate::job::spec::JobSpec;
use crate::node::Node;
use crate::resource::ResourceKind;
use crate::unit::Bytes;

/// The bytes of host memory for the GPU memory of a task while it is paused: the booked amount once
/// it pauses; before that, the most GPU memory that it may use. Simulated devices hold nothing, and
/// a job that frees its devices itself decides where its data goes.
#[must_use]
pub fn pause_memory(node: &Node, spec: &JobSpec, allocation: &Allocation) -> Bytes {
    match &allocation.state {
        AllocationState::Placed | AllocationState::Running => {}
        AllocationState::Claimed { .. }
        | AllocationState::Pausing
        | AllocationState::Paused { .. }
        | AllocationState::Releasing { .. } => {
            return Bytes::new(allocation.resources.get(&ResourceKind::PauseMemory));
        }
    }
    if spec.yields().is_some() {
        return Bytes::ZERO;
    }
    let of = |slot: &Slot| {
        let device = node.devices.iter().find(|device| device.uuid == slot.device)?;
        // A simulated device has no bus.
        (!device.pci_bus.is_empty()).then(|| slot.part.limit_of(device.memory))
    };
    let all = allocation.slots.iter().filter_map(of);
    all.fold(Bytes::ZERO, Bytes::saturating_add)
}
