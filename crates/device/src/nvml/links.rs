//! The links between devices: their common ancestor on the bus according to the driver, and NVLink,
//! direct or through switches.

use gpool_model::device::Link;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel};

use super::card::Card;
use super::supported;
use crate::source::SourceError;

/// The most NVLinks that a device can have.
///
/// Source: `NVML_NVLINK_MAX_LINKS` in nvml.h of CUDA 13.
const MAX_LINKS: u32 = 18;

/// The active NVLinks of a device.
pub(super) struct NvLinks {
    /// The device at the other end; `None` where the driver does not report it, as with switches of
    /// a fabric that spans machines.
    remotes: Vec<Option<String>>,
}

impl NvLinks {
    /// For a MIG instance: no links.
    pub(super) fn none() -> Self {
        Self { remotes: Vec::new() }
    }

    pub(super) fn of(device: &Device<'_>) -> Result<Self, SourceError> {
        let mut remotes = Vec::new();
        for number in 0..MAX_LINKS {
            let link = device.link_wrapper_for(number);
            match supported(link.is_active())? {
                Some(true) => {
                    let remote = supported(link.remote_pci_info())?;
                    remotes.push(remote.map(|pci| bus_key(&pci.bus_id)));
                }
                Some(false) => {}
                // A device without a state for its first link has none.
                None if number == 0 => break,
                None => {}
            }
        }
        Ok(Self { remotes })
    }

    fn n_to(&self, bus: &str) -> usize {
        self.remotes.iter().flatten().filter(|remote| *remote == bus).count()
    }
}

/// The nearest link between two devices.
pub(super) fn between(me: &Card, other: &Card) -> Result<Link, SourceError> {
    let level = supported(me.nvml.topology_common_ancestor(&me.device, &other.device))?;
    let ancestor = match level {
        Some(TopologyLevel::Internal | TopologyLevel::Single | TopologyLevel::Multiple) => {
            Link::Switch
        }
        Some(TopologyLevel::HostBridge) => Link::HostBridge,
        Some(TopologyLevel::Node) => Link::Numa,
        Some(TopologyLevel::System) | None => Link::System,
    };
    let n_links = match me.nv_links.n_to(&bus_key(&other.pci_bus)) {
        0 => through_switches(me, other)?,
        direct => direct,
    };
    match u32::try_from(n_links) {
        Ok(n_links @ 1..) => Ok(Link::NvLink(n_links)),
        _ => Ok(ancestor),
    }
}

/// The number of NVLinks through switches: links of both devices that end elsewhere count if the
/// driver reports NVLink traffic between the two.
fn through_switches(me: &Card, other: &Card) -> Result<usize, SourceError> {
    let n_links = me.nv_links.remotes.len().min(other.nv_links.remotes.len());
    if n_links == 0 {
        return Ok(0);
    }
    let status = supported(me.device.p2p_status(&other.device, P2pCapabilitiesIndex::NvLink))?;
    Ok(if status == Some(P2pStatus::Ok) { n_links } else { 0 })
}

/// A bus ID in the kernel's form: `00000000:1B:00.0` is `0000:1b:00.0`.
pub fn bus_key(bus: &str) -> String {
    let bus = bus.to_ascii_lowercase();
    match bus.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => bus,
    }
}
