//! The GPUs that a task can open. NVIDIA's driver has a node `/dev/nvidiaN` for each GPU, and N is
//! its minor number; the nodes that all GPUs share have numbers of their own.

use std::collections::BTreeMap;

use gpool_model::Slot;
use gpool_model::device::Device;
use gpool_model::id::DeviceUuid;
use gpool_sys::cgroup::Site;
use gpool_sys::device_filter::DeviceFilter;

/// The major number of NVIDIA's driver.
///
/// Source: `devices.txt` of the Linux kernel, 195 char.
const NVIDIA: u32 = 195;
/// Nodes of that driver that every program with a GPU needs: `/dev/nvidia-modeset` and
/// `/dev/nvidiactl`.
const OF_ALL: [u32; 2] = [254, 255];

/// Whether tasks can be kept from other GPUs.
///
/// # Errors
/// Returns why not, for people.
pub(super) fn probe(is_wanted: bool, site: &Site) -> Result<(), String> {
    match is_wanted {
        true => site.can_filter_devices(),
        false => Err("isolate_gpus in gpool.toml turns it off".to_owned()),
    }
}

/// Decides which GPUs a task can open.
#[derive(Debug)]
pub struct Isolation {
    is_on: bool,
    /// The minor numbers of the node's GPUs; that of an instance is its GPU's.
    minors: BTreeMap<DeviceUuid, u32>,
}

impl Isolation {
    /// Isolates tasks if that is on, which requires that it works here.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, minors: BTreeMap::new() }
    }

    /// Takes the minor numbers from an inventory.
    pub fn learn(&mut self, devices: &[Device]) {
        let minor = |device: &Device| Some((device.uuid.clone(), device.minor?));
        self.minors = devices.iter().filter_map(minor).collect();
    }

    /// The filter for a task with these devices; `None` if it can open all GPUs. A task without
    /// devices can open none, and the task of a MIG instance can open its GPU.
    pub fn filter(&self, slots: &[Slot]) -> Option<DeviceFilter> {
        // On a node with simulated devices, or none, there is nothing to isolate.
        if !self.is_on || self.minors.is_empty() {
            return None;
        }
        let own = slots.iter().map(|slot| self.minors.get(&slot.device).copied());
        let own: Vec<u32> = own.collect::<Option<_>>()?;
        let allowed = own.into_iter().chain(OF_ALL).map(|minor| (NVIDIA, minor)).collect();
        Some(DeviceFilter { majors: [NVIDIA].into(), allowed })
    }
}
