//! The control file, with the present state of simulated devices. Written by hand or through
//! [`SimControl`]; the source reads it at each poll. Devices without an entry are idle and healthy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use gpool_model::device::{DeviceErrors, DeviceHealth};
use gpool_model::parse;
use gpool_model::unit::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::source::RawProcess;
use crate::text::toml_problem;

/// Why a control file can't be used.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The file can't be read, written or locked.
    #[error("can't {action} the control file {}", .file.display())]
    File {
        action: &'static str,
        file: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{0}")]
    Content(String),
}

/// A poll that can hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Query {
    All,
    Describe,
    /// Memory, utilisation, temperature and power.
    Sample,
    Processes,
    Health,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breakage {
    /// It reports a fault, and continues to work.
    Unhealthy,
    /// It is gone from the bus.
    Lost,
}

/// A process on a simulated device. It need not exist; if it does, missing values are looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimProcess {
    pub pid: u32,
    #[serde(default, with = "amount", skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    /// By index, as text because TOML keys are text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    device: BTreeMap<String, SimDeviceState>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimDeviceState {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    health: Option<Breakage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    hang: BTreeSet<Query>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) utilization_percent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traffic_percent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sm_active_percent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tensor_active_percent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) temperature_c: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) power_mw: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) errors: DeviceErrors,
    /// In addition to the processes' memory.
    #[serde(default, with = "amount", skip_serializing_if = "Option::is_none")]
    memory_used: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    process: Vec<SimProcess>,
}

fn is_default(errors: &DeviceErrors) -> bool {
    *errors == DeviceErrors::default()
}

impl SimDeviceState {
    pub(crate) fn hangs(&self, query: Query) -> bool {
        self.hang.contains(&Query::All) || self.hang.contains(&query)
    }

    pub(crate) fn health(&self) -> DeviceHealth {
        match self.health {
            None => DeviceHealth::Healthy,
            Some(Breakage::Lost) => DeviceHealth::Lost,
            Some(Breakage::Unhealthy) => DeviceHealth::Unhealthy {
                why: self.why.clone().unwrap_or_else(|| "its control file sets this".into()),
            },
        }
    }

    /// The state of an instance on a device with the state `device`.
    pub(crate) fn on(self, device: &Self) -> Self {
        match device.health {
            None => self,
            Some(_) => Self { health: device.health, why: device.why.clone(), ..self },
        }
    }

    /// The memory in use, including the processes'.
    pub(crate) fn memory_used(&self) -> Bytes {
        let processes = self.process.iter().filter_map(|process| process.memory);
        processes.fold(self.memory_used.unwrap_or_default(), Bytes::saturating_add)
    }

    pub(crate) fn processes(&self) -> Vec<RawProcess> {
        let raw = |process: &SimProcess| RawProcess {
            pid: process.pid,
            memory: process.memory,
            user: process.user.clone(),
            name: process.name.clone(),
            ..RawProcess::default()
        };
        let by_pid: BTreeMap<u32, RawProcess> =
            self.process.iter().map(|process| (process.pid, raw(process))).collect();
        by_pid.into_values().collect()
    }
}

impl Control {
    /// Parses a file; `devices` are the valid indexes.
    pub(crate) fn parse(
        file: &Path,
        bytes: &[u8],
        devices: &BTreeSet<usize>,
    ) -> Result<Self, ControlError> {
        let bad = |why: String| ControlError::Content(format!("{}: {why}", file.display()));
        let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not UTF-8 text".into()))?;
        let control: Self = toml::from_str(text)
            .map_err(|error| ControlError::Content(toml_problem(file, text, &error)))?;
        // The key `007` would never be looked up.
        let is_device = |key: &&String| {
            key.parse().is_ok_and(|ix: usize| devices.contains(&ix) && ix.to_string() == **key)
        };
        match control.device.keys().find(|key| !is_device(key)) {
            Some(key) => Err(bad(no_device(key, devices))),
            None => Ok(control),
        }
    }

    pub(crate) fn device(&self, ix: usize) -> SimDeviceState {
        self.device.get(&ix.to_string()).cloned().unwrap_or_default()
    }
}

fn no_device(key: &str, devices: &BTreeSet<usize>) -> String {
    let last = devices.last().copied().unwrap_or(0);
    format!("there is no device {key:?}: the node has devices 0 to {last}")
}

/// Edits a control file. A reader sees each edit as a whole, and concurrent edits by several
/// programs are all kept. Comments are lost. By hand:
///
/// ```toml
/// [device.0]
/// memory_used = "1G"          # in addition to its processes'
/// utilization_percent = 40
/// traffic_percent = 20        # of memory
/// sm_active_percent = 30      # multiprocessors with work
/// tensor_active_percent = 10
/// temperature_c = 61
/// power_mw = 300000
/// [[device.0.process]]
/// pid = 4711
/// memory = "2G"
/// name = "python"
/// user = "alice"
/// [device.1]
/// health = "unhealthy"        # or "lost"
/// why = "Xid 79"
/// errors = { ecc_corrected = 12, ecc_uncorrected = 1, rows_uncorrected = 1, xids = { 79 = 1 } }
/// [device.2]
/// hang = ["processes"]        # or "all", "describe", "sample", "health"
/// ```
#[derive(Debug, Clone)]
pub struct SimControl {
    file: PathBuf,
    devices: BTreeSet<usize>,
}

impl SimControl {
    /// An editor of a file, which need not exist, for devices with these indexes.
    #[must_use]
    pub fn new(file: &Path, devices: impl IntoIterator<Item = usize>) -> Self {
        Self { file: file.into(), devices: devices.into_iter().collect() }
    }

    /// Puts a process on a device, or replaces the one with the same ID.
    ///
    /// # Errors
    /// As for all edits: if the device does not exist, or the file can't be read, parsed, locked or
    /// written.
    pub fn add_process(&self, device: usize, process: SimProcess) -> Result<(), ControlError> {
        self.edit(device, |state| {
            state.process.retain(|other| other.pid != process.pid);
            state.process.push(process);
        })
    }

    /// Removes a process from a device, if it is there.
    pub fn remove_process(&self, device: usize, pid: u32) -> Result<(), ControlError> {
        self.edit(device, |state| state.process.retain(|process| process.pid != pid))
    }

    /// Breaks a device.
    pub fn break_device(
        &self,
        device: usize,
        breakage: Breakage,
        why: Option<&str>,
    ) -> Result<(), ControlError> {
        self.edit(device, |state| {
            state.health = Some(breakage);
            state.why = why.map(str::to_string);
        })
    }

    /// Repairs a device.
    pub fn heal(&self, device: usize) -> Result<(), ControlError> {
        self.edit(device, |state| {
            state.health = None;
            state.why = None;
        })
    }

    /// Makes a poll of a device hang until [`Self::unhang`].
    pub fn hang(&self, device: usize, query: Query) -> Result<(), ControlError> {
        self.edit(device, |state| {
            state.hang.insert(query);
        })
    }

    /// Ends all hangs of a device, also of polls under way.
    pub fn unhang(&self, device: usize) -> Result<(), ControlError> {
        self.edit(device, |state| state.hang.clear())
    }

    /// Sets the memory in use, in addition to the processes' memory.
    pub fn use_memory(&self, device: usize, memory: Bytes) -> Result<(), ControlError> {
        self.edit(device, |state| {
            state.memory_used = Some(memory).filter(|memory| !memory.is_zero());
        })
    }

    /// Sets the utilisation of a device, in percent.
    pub fn utilize(&self, device: usize, percent: u32) -> Result<(), ControlError> {
        self.edit(device, |state| state.utilization_percent = Some(percent))
    }

    fn edit(
        &self,
        device: usize,
        change: impl FnOnce(&mut SimDeviceState),
    ) -> Result<(), ControlError> {
        let failed =
            |action| move |error| ControlError::File { action, file: self.file.clone(), error };
        if !self.devices.contains(&device) {
            return Err(ControlError::Content(no_device(&device.to_string(), &self.devices)));
        }
        // The lock is a separate file, since each edit replaces the control file.
        let lock = File::create(self.sibling_path(".lock")).map_err(failed("lock"))?;
        lock.lock().map_err(failed("lock"))?;
        let mut control = match std::fs::read(&self.file) {
            Ok(bytes) => Control::parse(&self.file, &bytes, &self.devices)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Control::default(),
            Err(error) => return Err(failed("read")(error)),
        };
        change(control.device.entry(device.to_string()).or_default());
        control.device.retain(|_, state| *state != SimDeviceState::default());
        let text =
            toml::to_string(&control).map_err(|error| ControlError::Content(error.to_string()))?;
        let draft = self.sibling_path(".draft");
        std::fs::write(&draft, text).map_err(failed("write"))?;
        std::fs::rename(&draft, &self.file).map_err(failed("write"))
    }

    fn sibling_path(&self, suffix: &str) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

/// Amounts of memory in text form: `"2G"`.
mod amount {
    use super::*;

    #[allow(clippy::ref_option)] // The shape that serde calls.
    pub(super) fn serialize<S: Serializer>(
        memory: &Option<Bytes>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = memory.unwrap_or_default().get();
        let units = [("G", 30), ("M", 20), ("K", 10)];
        let whole =
            units.into_iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
        let (name, shift) = whole.unwrap_or(("B", 0));
        to.collect_str(&format_args!("{}{name}", bytes >> shift))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Bytes>, D::Error> {
        let text = String::deserialize(from)?;
        parse::bytes(&text).map(Some).map_err(D::Error::custom)
    }
}
