//! Whether this machine's driver can pause processes.

use std::path::Path;
use std::time::Duration;

use crate::call::{Call, CallError, CallOutcome, Probe, Request};
use crate::driver::{Driver, NEEDED};
use crate::helper::ask;
use crate::look;
use crate::plan::Drivers;
use crate::record;
use crate::rules;

/// The time for all questions.
const DEADLINE: Duration = Duration::from_secs(30);

/// Whether and why GPU work can be paused, for facts and `gpool doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// The reason why it can't; `None` if it can.
    pub refusal: Option<String>,
    /// How it is paused, or why not, in one line.
    pub text: String,
    /// The driver's version, if it can pause.
    pub driver: String,
}

impl Capability {
    /// Why paused work can't be restored on other GPUs; `None` if it can, or if that was not tried
    /// yet. The file records earlier restores.
    #[must_use]
    pub fn refusal_of_moves(&self, file: Option<&Path>) -> Option<String> {
        let refusal = self.refusal.clone().or_else(|| rules::refusal_of_moves(&self.driver));
        refusal.or_else(|| match record::read(file?, &self.driver)? {
            true => None,
            false => Some(record::stays(&self.driver)),
        })
    }
}

/// Asks the driver, in a helper process of `program`.
#[must_use]
pub fn probe(program: &Path, drivers: &Drivers) -> Capability {
    let refusal = match ask(program, &drivers.request(Call::Probe), DEADLINE) {
        Ok(CallOutcome::Probed(probe)) => match refusal(&probe) {
            None => {
                let text = format!("checkpoints of driver {}", probe.driver);
                return Capability { refusal: None, text, driver: probe.driver };
            }
            Some(why) => why,
        },
        Ok(_) => "the driver gave no answer".to_owned(),
        Err(error) => error.to_string(),
    };
    let text = format!("nothing: {refusal}");
    Capability { text, refusal: Some(refusal), driver: String::new() }
}

fn refusal(probe: &Probe) -> Option<String> {
    if let Some(error) = &probe.error {
        return Some(error.clone());
    }
    if let Some(why) = rules::refusal_of_driver(&probe.driver) {
        return Some(why);
    }
    (!probe.missing.is_empty()).then(|| {
        let missing = probe.missing.join(", ");
        format!("driver {} has no {missing}; it needs version 570 or later", probe.driver)
    })
}

/// Asks the driver in this process.
pub(crate) fn here(request: &Request) -> Probe {
    let mut probe = Probe::default();
    let source = look::open(request.nvml.as_os_str());
    let outline = source.and_then(|source| {
        let failed =
            |error: gpool_device::SourceError| CallError::NoList { why: error.to_string() };
        gpool_device::DeviceSource::outline(&source).map_err(failed)
    });
    match outline {
        Ok(outline) => {
            outline.driver.trim_start_matches("NVIDIA ").clone_into(&mut probe.driver);
        }
        Err(error) => probe.error = Some(error.to_string()),
    }
    match Driver::open(&request.cuda) {
        Ok(driver) => {
            let symbols = NEEDED.map(|name| format!("cuCheckpointProcess{name}"));
            probe.missing = symbols.into_iter().filter(|it| !driver.has(it)).collect();
            probe.cuda = driver.version().unwrap_or(0);
        }
        Err(error) => probe.error = Some(error.to_string()),
    }
    probe
}
