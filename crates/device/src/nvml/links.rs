//! The NVLinks of a device.

use nvml_wrapper::Device;

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

    pub(super) fn n_all(&self) -> usize {
        self.remotes.len()
    }

    /// The number of links to the device with this bus ID.
    pub(super) fn n_to(&self, bus: &str) -> usize {
        self.remotes.iter().flatten().filter(|remote| *remote == bus).count()
    }
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
