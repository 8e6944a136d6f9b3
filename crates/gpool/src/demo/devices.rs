//! The devices of the demo: the requested ones, those of this machine, or simulated ones.

use std::path::Path;

use gpool_cli::cluster::NAME;
use gpool_cli::failure::{Failure, Result};
pub use gpool_device::LOAD_VARIABLE;
use gpool_device::{DevicesArg, NodeDevices, Opened};
use gpool_model::NodeName;
use gpool_wire::catalogue;

/// Eight simulated devices, for machines without GPUs.
const SIMULATED: &str = "sim:8xH100-80G";

/// The devices of the demo's cluster.
pub struct Devices {
    /// The value for `up --devices`.
    pub argument: String,
    /// The same in words.
    pub words: String,
}

/// Chooses the requested devices; else those of this machine; else simulated ones.
///
/// # Errors
/// The request names no devices.
pub fn choose_devices(asked: Option<&str>) -> Result<Devices> {
    if let Some(asked) = asked {
        DevicesArg::parse(asked)
            .and_then(|choice| choice.nodes(&NodeName::new(NAME)))
            .map_err(|error| Failure::new(catalogue::INVALID, error.to_string()))?;
        return Ok(Devices { argument: asked.to_owned(), words: format!("devices: {asked}") });
    }
    let nvml = NodeDevices::Nvml.open(&NodeName::new(NAME), Path::new("/nonexistent"));
    let why = match nvml {
        Opened::Source(source) => match source.outline() {
            Ok(outline) if outline.n_devices > 0 => {
                let words = format!("this machine's {} GPUs", outline.n_devices);
                return Ok(Devices { argument: "nvml".to_owned(), words });
            }
            Ok(_) => "the driver lists none".to_owned(),
            Err(error) => error.to_string(),
        },
        Opened::Nothing { why } => why,
    };
    let words =
        format!("this machine has no GPUs ({why}); the demo simulates eight, with real processes");
    Ok(Devices { argument: SIMULATED.to_owned(), words })
}
