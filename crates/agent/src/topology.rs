//! The place of this machine among others, as labels of its node: the rack that an admin wrote into
//! `/etc/machine-info`, the switches that `lldpd` hears, and the NVLink domain of its GPUs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gpool_model::label::{Labels, VALUE_LENGTH_MAX, is_value};
use gpool_model::node::{NVLINK_LABEL, RACK_LABEL, SWITCH_LABEL};
use serde_json::Value;

/// Switches announce themselves every 30 seconds.
const PERIOD: Duration = Duration::from_secs(60);
/// Stands between the switches of a machine that is connected to several.
const SEPARATOR: &str = "+";

/// The labels that were found last.
#[derive(Clone, Default)]
pub(crate) struct FoundPlace(Arc<Mutex<Labels>>);

impl FoundPlace {
    /// Looks in the background: the first look is done when this returns, except for switches.
    pub(crate) fn search() -> Self {
        let place = Self::default();
        let info = fs::read_to_string("/etc/machine-info").unwrap_or_default();
        place.set(RACK_LABEL, rack(&info));
        let found = Arc::downgrade(&place.0);
        let follow = move || {
            while let Ok(output) = neighbours() {
                let Some(labels) = found.upgrade() else { return };
                Self(labels).set(SWITCH_LABEL, switches(&output));
                thread::sleep(PERIOD);
            }
        };
        // Without a thread, admins can still set the label.
        drop(thread::Builder::new().name("switches".to_owned()).spawn(follow));
        place
    }

    fn set(&self, label: &str, value: Option<String>) {
        let mut labels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => drop(labels.insert(label.to_owned(), value)),
            None => drop(labels.remove(label)),
        }
    }

    /// The labels, with that of the NVLink domain of the GPUs.
    pub(crate) fn labels(&self, nvlink: Option<&str>) -> Labels {
        let mut labels = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        labels.extend(nvlink.map(|domain| (NVLINK_LABEL.to_owned(), domain.to_owned())));
        labels
    }
}

/// The output of `lldpctl`, which is empty while lldpd does not answer.
///
/// # Errors
/// The program can't be started: there is no lldpd.
fn neighbours() -> io::Result<String> {
    let mut command = Command::new("lldpctl");
    command.args(["-f", "json0"]).stdin(Stdio::null()).stderr(Stdio::null());
    Ok(String::from_utf8_lossy(&command.output()?.stdout).into_owned())
}

/// The location of this machine.
///
/// Source: machine-info(5), `LOCATION=`; `hostnamectl location` writes it.
pub fn rack(machine_info: &str) -> Option<String> {
    let location = machine_info.lines().find_map(|line| line.trim().strip_prefix("LOCATION="))?;
    label_value(location.trim_matches(['"', '\'']))
}

/// The names of the switches that this machine hears, from the output of `lldpctl -f json0`. Other
/// machines and telephones that announce themselves are no switches.
pub fn switches(lldpctl: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(lldpctl).ok()?;
    let interfaces = list(&answer["lldp"]).flat_map(|it| list(&it["interface"]));
    let chassis = interfaces.flat_map(|it| list(&it["chassis"])).filter(|it| is_switch(it));
    let name = |it: &Value| {
        let mut texts = list(&it["name"]).chain(list(&it["id"]));
        texts.find_map(|it| label_value(it["value"].as_str()?))
    };
    let names: BTreeSet<String> = chassis.filter_map(name).collect();
    label_value(&names.into_iter().collect::<Vec<_>>().join(SEPARATOR))
}

/// Whether this neighbour forwards frames, or does not tell its capabilities.
fn is_switch(chassis: &Value) -> bool {
    let mut capabilities = list(&chassis["capability"]).peekable();
    let forwards = |it: &Value| it["type"] == "Bridge" && it["enabled"] == true;
    capabilities.peek().is_none() || capabilities.any(forwards)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text as the value of a label, with dashes for the characters that no value may have; `None` if
/// nothing is left.
fn label_value(text: &str) -> Option<String> {
    let mut value = String::new();
    for character in text.trim().chars().take(VALUE_LENGTH_MAX) {
        let is_allowed = is_value(character.encode_utf8(&mut [0; 4]));
        value.push(if is_allowed { character } else { '-' });
    }
    (!value.is_empty()).then_some(value)
}
