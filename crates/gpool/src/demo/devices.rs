//! Which devices the demo shows: those asked for, those of this machine, or simulated ones.

use std::path::Path;

use gpool_cli::cluster::NAME;
use gpool_cli::failure::{Failure, Result};
use gpool_device::{DevicesArg, NodeDevices, Opened};
use gpool_model::NodeName;
use gpool_wire::catalogue;

/// Eight devices, for machines without any.
const SIMULATED: &str = "sim:8xH100-80G";

/// Which devices a cluster is started with.
pub struct Devices {
    /// What `up --devices` is given.
    pub argument: String,
    /// The same for people.
    pub words: String,
}

/// The devices asked for; else those of this machine; else simulated ones.
///
/// # Errors
/// What was asked for names no devices.
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
    let words = format!("no GPUs here ({why}), so eight simulated ones; the processes are real");
    Ok(Devices { argument: SIMULATED.to_owned(), words })
}
