//! Departures: the devices and host resources that jobs give back on a node, and when.

use gpool_model::{Allocation, Bytes, Device, GpuRequest, JobId, JobSpec, Node, Sharer};
use gpool_world::ExpectedEnd;

use super::host_resources::HostResources;

/// The part of one device that a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceUse {
    pub device_ix: usize,
    /// Bytes of its memory; all of it if the device is used as a whole.
    pub memory: Bytes,
    pub is_whole: bool,
    /// The job; `None` of a demand.
    pub job: Option<JobId>,
}

impl DeviceUse {
    /// Returns the part that a task with that request has of the device at a position.
    pub fn of(gpus: &GpuRequest, device_ix: usize, device: &Device) -> Self {
        let memory = device.memory;
        match gpus.share() {
            None => Self { device_ix, memory, is_whole: true, job: None },
            Some(share) => {
                Self { device_ix, memory: share.memory_of(memory), is_whole: false, job: None }
            }
        }
    }
}

/// The parts of devices and the host resources that a job has on a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeHoldings {
    pub uses: Vec<DeviceUse>,
    pub host: HostResources,
    /// The job, if it is about to start and requests shares.
    pub sharer: Option<Box<Sharer>>,
}

impl NodeHoldings {
    /// Adds what an allocation books on its node, less the host resources that it keeps if its job
    /// is `paused`.
    pub fn add(&mut self, allocation: &Allocation, node: &Node, paused: Option<&JobSpec>) {
        let devices = &node.devices;
        let kept = paused.map(|spec| HostResources::booked_paused(node, spec, allocation));
        let uses = allocation.held_slots().iter().filter_map(|slot| {
            let device_ix = devices.iter().position(|device| device.uuid == slot.device)?;
            let memory = slot.part.memory_of(devices[device_ix].memory);
            let (is_whole, job) = (slot.part.is_alone(), Some(allocation.task.job));
            Some(DeviceUse { device_ix, memory, is_whole, job })
        });
        self.uses.extend(uses);
        self.host =
            self.host.more(HostResources::booked(allocation)).less(kept.unwrap_or_default());
    }
}

/// What a job gives back on a node, and when.
#[derive(Debug, Clone)]
pub(crate) struct Departure {
    pub end: ExpectedEnd,
    pub node_pos: usize,
    pub held: NodeHoldings,
}

/// Host resources and parts of devices that jobs give back on a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Freed {
    pub host: HostResources,
    /// The need of jobs beyond their own host resources, as a negative amount. A pause takes its
    /// host memory at once, and other jobs may still be there.
    pub needed: HostResources,
    /// Positions of devices, with the number of holders that leave and their bytes of its memory.
    /// Nodes have few devices: a search in a list is faster than a map.
    devices: Vec<(usize, (usize, i128))>,
    /// The jobs with shares among the holders.
    sharers: Vec<JobId>,
}

impl Freed {
    /// Holders leave these parts of devices.
    pub fn add_uses(&mut self, uses: &[DeviceUse]) {
        for it in uses {
            let memory = i128::from(it.memory.get());
            self.sharers.extend(it.job.filter(|_| !it.is_whole));
            match self.devices.iter_mut().find(|(ix, _)| *ix == it.device_ix) {
                Some((_, (n, sum))) => (*n, *sum) = (*n + 1, *sum + memory),
                None => self.devices.push((it.device_ix, (1, memory))),
            }
        }
    }

    /// A job leaves the node.
    pub fn add(&mut self, held: &NodeHoldings) {
        self.add_uses(&held.uses);
        self.host = self.host.more(held.host);
        self.needed = self.needed.more(held.host.below_zero());
    }

    /// Whether a job with shares leaves.
    pub fn has(&self, job: JobId) -> bool {
        self.sharers.contains(&job)
    }

    /// Number of device parts that are given back.
    pub fn n_uses(&self) -> usize {
        self.devices.iter().map(|(_, (n, _))| n).sum()
    }

    /// Number of holders that leave a device, and their bytes of its memory.
    pub fn of(&self, device_ix: usize) -> (usize, i128) {
        let found = self.devices.iter().find(|(ix, _)| *ix == device_ix);
        found.map(|(_, freed)| *freed).unwrap_or_default()
    }
}
