//! The GPUs that a task can open. NVIDIA's driver has a node `/dev/nvidiaN` for each GPU, and N is
//! its minor number; the nodes that all GPUs share have numbers of their own. A MIG instance has
//! two nodes of its own in `/dev/nvidia-caps`, without which no program can use it.

use std::collections::{BTreeMap, BTreeSet};

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

/// Whether tasks can be isolated from other GPUs.
pub(crate) fn probe(is_wanted: bool, site: &Site) -> Result<(), String> {
    match is_wanted {
        true => site.can_filter_devices(),
        false => Err("isolate_gpus in gpool.toml turns it off".to_owned()),
    }
}

/// Decides which GPUs a task can open.
#[derive(Debug)]
pub struct Isolation {
    is_on: bool,
    /// The major and minor numbers that a task with a device can open; for an instance, those of
    /// its GPU and its own.
    nodes: BTreeMap<DeviceUuid, Vec<(u32, u32)>>,
    /// The major numbers of all such nodes.
    majors: BTreeSet<u32>,
}

impl Isolation {
    /// Isolates tasks if that is on, which requires that it works here.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, nodes: BTreeMap::new(), majors: [NVIDIA].into() }
    }

    /// Takes the numbers of the nodes from an inventory.
    pub fn learn(&mut self, devices: &[Device]) {
        let nodes = |device: &Device| {
            let own = device.instance.as_ref().and_then(|it| it.nodes).into_iter();
            let own =
                own.flat_map(|it| [(it.major, it.gpu_instance), (it.major, it.compute_instance)]);
            Some((device.uuid.clone(), [(NVIDIA, device.minor?)].into_iter().chain(own).collect()))
        };
        self.nodes = devices.iter().filter_map(nodes).collect();
        // A major number stays in use until the driver is loaded again.
        self.majors.extend(self.nodes.values().flatten().map(|(major, _)| *major));
    }

    /// The minor numbers of GPUs, as far as they are known.
    pub fn minors(&self, slots: &[Slot]) -> Vec<u32> {
        let nodes = slots.iter().filter_map(|slot| self.nodes.get(&slot.device)).flatten();
        nodes.filter(|(major, _)| *major == NVIDIA).map(|(_, minor)| *minor).collect()
    }

    /// The filter for a task with these devices; `None` if it can open all GPUs. A task without
    /// devices can open none. The task of a MIG instance can open the nodes of the instance, and
    /// that of its GPU, which the driver's library needs.
    pub fn filter(&self, slots: &[Slot]) -> Option<DeviceFilter> {
        // On a node with simulated devices, or none, there is nothing to isolate.
        if !self.is_on || self.nodes.is_empty() {
            return None;
        }
        let own = slots.iter().map(|slot| self.nodes.get(&slot.device));
        let own: Vec<&Vec<(u32, u32)>> = own.collect::<Option<_>>()?;
        let of_all = OF_ALL.map(|minor| (NVIDIA, minor));
        let allowed = own.into_iter().flatten().copied().chain(of_all).collect();
        Some(DeviceFilter { majors: self.majors.clone(), allowed })
    }
}
