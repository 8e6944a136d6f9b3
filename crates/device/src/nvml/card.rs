//! One device of the driver: its handle, its fixed properties, and its faults so far.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpool_model::device::{Device, DeviceHealth, Instance, Link, Mig};
use gpool_model::enforcement::{Enforced, Mechanism, Probe};
use gpool_model::id::DeviceUuid;
use gpool_model::mig::{Profile, model_of, split_model};
use gpool_model::unit::Bytes;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::GpmSample;

use super::health::Faults;
use super::links::{NvLinks, bus_key};
use super::{failure, needed, supported};
use crate::source::SourceError;

/// The counters of a device at the last reading; activity is the difference of two readings.
#[derive(Debug, Default)]
pub(super) enum Counters {
    #[default]
    Unread,
    /// The device or driver has none.
    Absent,
    Read(GpmSample<'static>),
}

/// The state of a device between calls.
pub(super) struct Card {
    pub(super) nvml: &'static Nvml,
    pub(super) device: nvml_wrapper::Device<'static>,
    pub(super) pci_bus: String,
    nv_links: NvLinks,
    /// Locked during a call that reads events.
    faults: Mutex<Faults>,
    /// When the driver took its last sample of processes that was read, in its own time.
    pub(super) sampled_until: AtomicU64,
    /// Its performance counters at the last reading.
    pub(super) counters: Mutex<Counters>,
    /// The device that a MIG instance is part of; its faults are the parent's.
    parent: Option<Arc<Self>>,
}

impl Card {
    pub(super) fn new(
        nvml: &'static Nvml,
        device: nvml_wrapper::Device<'static>,
    ) -> Result<Self, SourceError> {
        let pci_bus = supported(device.pci_info())?.map(|pci| pci.bus_id).unwrap_or_default();
        let nv_links = NvLinks::of(&device)?;
        let faults = Mutex::new(Faults::watch(nvml, &device)?);
        Ok(Self {
            nvml,
            device,
            pci_bus,
            nv_links,
            faults,
            sampled_until: AtomicU64::new(0),
            counters: Mutex::default(),
            parent: None,
        })
    }

    /// A MIG instance of a device.
    fn of_instance(parent: &Arc<Self>, device: nvml_wrapper::Device<'static>) -> Self {
        Self {
            nvml: parent.nvml,
            device,
            pci_bus: parent.pci_bus.clone(),
            nv_links: NvLinks::none(),
            faults: Mutex::new(Faults::unheard()),
            sampled_until: AtomicU64::new(0),
            counters: Mutex::new(Counters::Absent),
            parent: Some(Arc::clone(parent)),
        }
    }

    /// The nearest link to another device: their common ancestor on the bus according to the
    /// driver, or NVLink, direct or through switches.
    pub(super) fn link_to(&self, other: &Self) -> Result<Link, SourceError> {
        let level = supported(self.nvml.topology_common_ancestor(&self.device, &other.device))?;
        let ancestor = match level {
            Some(TopologyLevel::Internal | TopologyLevel::Single | TopologyLevel::Multiple) => {
                Link::Switch
            }
            Some(TopologyLevel::HostBridge) => Link::HostBridge,
            Some(TopologyLevel::Node) => Link::Numa,
            Some(TopologyLevel::System) | None => Link::System,
        };
        let n_links = match self.nv_links.n_to(&bus_key(&other.pci_bus)) {
            0 => self.n_through_switches(other)?,
            direct => direct,
        };
        match u32::try_from(n_links) {
            Ok(n_links @ 1..) => Ok(Link::NvLink(n_links)),
            _ => Ok(ancestor),
        }
    }

    /// The number of NVLinks through switches: links of both devices that end elsewhere count if
    /// the driver reports NVLink traffic between the two.
    fn n_through_switches(&self, other: &Self) -> Result<usize, SourceError> {
        let n_links = self.nv_links.n_all().min(other.nv_links.n_all());
        if n_links == 0 {
            return Ok(0);
        }
        let status =
            supported(self.device.p2p_status(&other.device, P2pCapabilitiesIndex::NvLink))?;
        Ok(if status == Some(P2pStatus::Ok) { n_links } else { 0 })
    }

    /// The device's description, without its instances.
    pub(super) fn describe(&self, index: u32, uuid: DeviceUuid) -> Result<Device, SourceError> {
        let health = match self.health() {
            Ok(health) => health,
            Err(SourceError::Lost) => return Err(SourceError::Lost),
            Err(other) => other.health(),
        };
        let numa = match numa_of(Path::new("/sys/bus/pci/devices"), &self.pci_bus) {
            Some(node) => Some(node),
            None => supported(self.device.numa_node_id())?,
        };
        let model = needed("nvmlDeviceGetName", self.device.name())?;
        Ok(Device {
            pci_bus: self.pci_bus.clone(),
            minor: supported(self.device.minor_number())?,
            numa,
            mig: self.mig()?,
            health,
            enforced: Enforced { probes: self.persistence()?, ..Enforced::default() },
            ..Device::new(index, uuid, model, self.memory()?)
        })
    }

    /// Whether the device stays awake between programs; nothing where there is no such mode.
    fn persistence(&self) -> Result<Vec<Probe>, SourceError> {
        let is_on = supported(self.device.is_in_persistent_mode())?;
        let why_not = |is_on: bool| {
            let why = "it is off, so programs start slower; run nvidia-smi -pm 1";
            (!is_on).then(|| why.to_owned())
        };
        let probe = |is_on| Probe { mechanism: Mechanism::Persistence, why_not: why_not(is_on) };
        Ok(is_on.map(probe).into_iter().collect())
    }

    /// The device's memory, or the host's if it has none of its own.
    fn memory(&self) -> Result<Bytes, SourceError> {
        let call = "nvmlDeviceGetMemoryInfo_v2";
        match self.device.memory_info() {
            Ok(memory) => Ok(Bytes::new(memory.total)),
            Err(NvmlError::NotSupported) => {
                let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
                host_memory(&text).ok_or_else(|| failure(call, &NvmlError::NotSupported))
            }
            Err(error) => Err(failure(call, &error)),
        }
    }

    fn mig(&self) -> Result<Option<Mig>, SourceError> {
        const ENABLED: u32 = 1;
        let mode = supported(self.device.mig_mode())?;
        Ok(mode.map(|mode| Mig { enabled: mode.current == ENABLED, ..Mig::default() }))
    }

    /// Whether it is a MIG instance of this device.
    pub(super) fn is_of(&self, other: &Arc<Self>) -> bool {
        self.parent.as_ref().is_some_and(|parent| Arc::ptr_eq(parent, other))
    }

    /// The device that it is an instance of.
    pub(super) fn parent(&self) -> Option<&Self> {
        self.parent.as_deref()
    }

    /// Whether it is used through its instances only.
    pub(super) fn is_divided(&self) -> Result<bool, SourceError> {
        Ok(self.mig()?.is_some_and(|mig| mig.enabled))
    }

    /// The MIG instances of a described device.
    pub(super) fn instances(
        card: &Arc<Self>,
        device: &Device,
    ) -> Result<Vec<(Self, Device)>, SourceError> {
        let mut instances = Vec::new();
        let n_places = match device.is_divided() {
            true => supported(card.device.mig_device_count())?.unwrap_or(0),
            false => 0,
        };
        for place in 0..n_places {
            // A place without an instance is not found.
            let Some(part) = supported(card.device.mig_device_by_index(place))? else { continue };
            let (uuid, attributes) = (supported(part.uuid())?, supported(part.attributes())?);
            // An instance without UUID or size can't be allocated.
            let (Some(uuid), Some(attributes)) = (uuid, attributes) else { continue };
            let memory = Bytes::new(attributes.memory_size_mb.saturating_mul(1 << 20));
            let compute_slices = attributes.compute_instance_slice_count;
            let said = supported(part.name())?.filter(|name| split_model(name).1.is_some());
            let named = || model_of(&device.model, Profile::of(compute_slices, memory));
            let instance = Device {
                index: Instance::index(device.index, place),
                uuid: DeviceUuid::new(uuid),
                model: said.unwrap_or_else(named),
                memory,
                mig: None,
                instance: Some(Box::new(Instance {
                    parent: device.index,
                    parent_memory: device.memory,
                    compute_slices,
                    nodes: None,
                })),
                ..device.clone()
            };
            instances.push((Self::of_instance(card, part), instance));
        }
        Ok(instances)
    }

    /// Faults that the device has reported since the agent started.
    pub(super) fn health(&self) -> Result<DeviceHealth, SourceError> {
        if let Some(parent) = &self.parent {
            return parent.health();
        }
        self.faults().read(&self.device)
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The NUMA node of a device on the bus, from the kernel; the kernel writes -1 if there is none.
pub fn numa_of(buses: &Path, bus: &str) -> Option<u32> {
    let text = std::fs::read_to_string(buses.join(bus_key(bus)).join("numa_node")).ok()?;
    text.trim().parse().ok()
}

/// All memory of the machine.
pub fn host_memory(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024).map(Bytes::new)
}
