//! Simulated devices: their properties are fixed, and their present state is in a control file that
//! tests and demos edit while the agent runs. This module has no other state.

mod control;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpool_model::device::{Device, DeviceDetail, DeviceHealth, DeviceSample, Instance, Link};
use gpool_model::id::{DeviceUuid, NodeName};
use gpool_model::unit::Bytes;

use crate::sim_load::{SimLoad, SimUse, Stated, used};
use crate::source::{Described, DeviceSource, Outline, Pausing, RawProcess, SourceError};

pub use control::{Breakage, ControlError, Query, SimControl, SimProcess};
use control::{Control, SimDeviceState};
pub use spec::SimDevice;
pub(crate) use spec::{SimFile, SimNode, check_n_nodes, from_file, from_words};

/// How often a simulated hang checks whether it is over.
const HANG_POLL: Duration = Duration::from_millis(20);

/// Devices that follow their control file.
pub struct SimSource {
    devices: Vec<(DeviceUuid, SimDevice)>,
    control: PathBuf,
    last: Mutex<LastRead>,
    follows: Follows,
    loads: Mutex<BTreeMap<DeviceUuid, Vec<SimLoad>>>,
}

/// Whether devices seem to be used by the tasks on them. The control file overrides each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// They are idle.
    Nothing,
    /// By their tasks; those that state no load have this one, or a level of their own.
    Tasks(Option<Stated>),
}

impl Follows {
    /// Reads the value of the variable of the server: `off`, or a load.
    #[must_use]
    pub fn of_server(value: Option<&str>) -> Self {
        match value {
            Some("off") => Self::Nothing,
            value => Self::Tasks(value.and_then(Stated::parse)),
        }
    }
}

/// A device or instance, found by UUID.
struct FoundDevice<'a> {
    device: &'a SimDevice,
    ix: usize,
    memory: Bytes,
    /// The index of the instance, if it is one.
    instance: Option<usize>,
}

/// The control file as it was last read.
struct LastRead {
    /// `None` if the file did not exist or could not be read.
    bytes: Option<Vec<u8>>,
    /// The parsed file, or why it can't be used.
    control: Arc<Result<Control, String>>,
}

impl SimSource {
    /// The devices of a node, in the given order, with the same UUIDs at each start. Without a
    /// control file all devices are idle and healthy.
    #[must_use]
    pub fn new(node: &NodeName, devices: Vec<SimDevice>, control: &Path) -> Self {
        let devices =
            devices.into_iter().enumerate().map(|(ix, it)| (uuid(node, ix), it)).collect();
        let last = Mutex::new(LastRead { bytes: None, control: Arc::new(Ok(Control::default())) });
        let (follows, loads) = (Follows::Nothing, Mutex::default());
        Self { devices, control: control.into(), last, follows, loads }
    }

    /// The same devices, which follow the tasks on them.
    #[must_use]
    pub fn following(self, follows: Follows) -> Self {
        Self { follows, ..self }
    }

    /// The use of a device by the tasks on it, if devices follow them.
    fn used(&self, uuid: &DeviceUuid, memory: Bytes) -> Option<SimUse> {
        let Follows::Tasks(usual) = self.follows else { return None };
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let loads = loads.get(uuid).map(Vec::as_slice).unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(used(loads, memory, usual, now.as_secs()))
    }

    /// The control file, read again if it changed.
    fn control(&self) -> Arc<Result<Control, String>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match std::fs::read(&self.control) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                let why = format!("can't read {}: {error}", self.control.display());
                *last = LastRead { bytes: None, control: Arc::new(Err(why)) };
                return Arc::clone(&last.control);
            }
        };
        if bytes.is_none() || bytes != last.bytes {
            let text = bytes.as_deref().unwrap_or_default();
            let said = Control::parse(&self.control, text, &self.indexes());
            *last = LastRead { bytes, control: Arc::new(said.map_err(|error| error.to_string())) };
        }
        Arc::clone(&last.control)
    }

    /// The state of a device in the control file. Blocks while the file makes this poll hang.
    fn state(&self, ix: usize, query: Query) -> Result<SimDeviceState, SourceError> {
        loop {
            let control = self.control();
            let state = match control.as_ref() {
                Ok(control) => control.device(ix),
                Err(why) => return Err(SourceError::Control(why.clone())),
            };
            if !state.hangs(query) {
                return Ok(state);
            }
            std::thread::sleep(HANG_POLL);
        }
    }

    fn find(&self, uuid: &DeviceUuid) -> Result<FoundDevice<'_>, SourceError> {
        let found = self.devices.iter().enumerate().find_map(|(ix, (name, device))| {
            if name == uuid {
                return Some(FoundDevice { device, ix, memory: device.memory, instance: None });
            }
            let mut layout = (0..).zip(device.mig.iter().flatten());
            let (place, profile) =
                layout.find(|(place, _)| uuid_of_instance(name, *place) == *uuid)?;
            let instance = Some(index_of_instance(ix, place));
            Some(FoundDevice { device, ix, memory: profile.memory(), instance })
        });
        found.ok_or_else(|| SourceError::NoDevice(uuid.clone()))
    }

    /// The state of a device; an instance has the health of its device.
    fn state_of(
        &self,
        found: &FoundDevice<'_>,
        query: Query,
    ) -> Result<SimDeviceState, SourceError> {
        let device = self.state(found.ix, query)?;
        match found.instance {
            None => Ok(device),
            Some(index) => Ok(self.state(index, query)?.on(&device)),
        }
    }

    /// The state and memory of a device; an error if it is gone from the bus.
    fn present(
        &self,
        uuid: &DeviceUuid,
        query: Query,
    ) -> Result<(SimDeviceState, Bytes), SourceError> {
        let found = self.find(uuid)?;
        let state = self.state_of(&found, query)?;
        match state.health() {
            DeviceHealth::Lost => Err(SourceError::Lost),
            _ => Ok((state, found.memory)),
        }
    }

    /// The valid indexes of the control file.
    fn indexes(&self) -> BTreeSet<usize> {
        let instances = self.devices.iter().enumerate().flat_map(|(ix, (_, device))| {
            let layout = (0..).zip(device.mig.iter().flatten());
            layout.map(move |(place, _)| index_of_instance(ix, place))
        });
        (0..self.devices.len()).chain(instances).collect()
    }
}

impl DeviceSource for SimSource {
    fn outline(&self) -> Result<Outline, SourceError> {
        let n_devices = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
        Ok(Outline { driver: "simulated".into(), n_devices })
    }

    fn pausing(&self) -> Pausing {
        Pausing::Stop
    }

    fn is_simulated(&self) -> bool {
        self.follows != Follows::Nothing
    }

    fn simulate(&self, loads: BTreeMap<DeviceUuid, Vec<SimLoad>>) {
        *self.loads.lock().unwrap_or_else(PoisonError::into_inner) = loads;
    }

    fn describe(&self, index: u32) -> Result<Described, SourceError> {
        let found = usize::try_from(index).ok().and_then(|ix| Some((ix, self.devices.get(ix)?)));
        let Some((ix, (uuid, device))) = found else {
            return Err(SourceError::Call { call: "describe", why: format!("no device {index}") });
        };
        let health = match self.state(ix, Query::Describe) {
            Ok(state) => state.health(),
            Err(error) => error.health(),
        };
        let mut whole = Device {
            numa: device.numa,
            health,
            ..Device::new(index, uuid.clone(), device.model.clone(), device.memory)
        };
        let instances = match &device.mig {
            Some(layout) => whole.divide(layout, |place| uuid_of_instance(uuid, place)),
            None => Vec::new(),
        };
        Ok(Described { device: whole, instances })
    }

    fn links(
        &self,
        uuid: &DeviceUuid,
        others: &[DeviceUuid],
    ) -> Result<BTreeMap<DeviceUuid, Link>, SourceError> {
        let me = self.find(uuid)?.device;
        let mut links = BTreeMap::new();
        for other in others {
            let it = self.find(other)?.device;
            if let (true, Some(link)) = (it.group == me.group, me.links) {
                links.insert(other.clone(), link);
            }
        }
        Ok(links)
    }

    fn usage(&self, uuid: &DeviceUuid) -> Result<DeviceSample, SourceError> {
        let (state, memory) = self.present(uuid, Query::Sample)?;
        let by_tasks = self.used(uuid, memory);
        let taken = by_tasks.map_or(Bytes::ZERO, |it| it.memory);
        let used = state.memory_used().saturating_add(taken).min(memory);
        let percent = state.utilization_percent.or(by_tasks.map(|it| it.percent));
        Ok(DeviceSample {
            memory_used: Some(used),
            memory_free: Some(memory.saturating_sub(used)),
            utilization_percent: Some(percent.unwrap_or(0).min(100)),
            traffic_percent: Some(state.traffic_percent.unwrap_or(0).min(100)),
            ..DeviceSample::default()
        })
    }

    fn detail(&self, uuid: &DeviceUuid) -> Result<DeviceDetail, SourceError> {
        let (state, memory) = self.present(uuid, Query::Sample)?;
        let by_tasks = self.used(uuid, memory);
        let permille = |percent: Option<u32>| percent.map(|percent| percent.min(100) * 10);
        Ok(DeviceDetail {
            temperature_c: state.temperature_c.or(by_tasks.map(|it| it.temperature_c)),
            power_mw: state.power_mw.or(by_tasks.map(|it| it.power_mw)),
            sm_active_permille: permille(state.sm_active_percent),
            tensor_active_permille: permille(state.tensor_active_percent),
            errors: state.errors,
            ..DeviceDetail::default()
        })
    }

    fn processes(&self, uuid: &DeviceUuid) -> Result<Option<Vec<RawProcess>>, SourceError> {
        let (state, _) = self.present(uuid, Query::Processes)?;
        Ok(Some(state.processes()))
    }

    fn health(&self, uuid: &DeviceUuid) -> Result<DeviceHealth, SourceError> {
        Ok(self.state_of(&self.find(uuid)?, Query::Health)?.health())
    }
}

fn index_of_instance(ix: usize, place: u32) -> usize {
    Instance::index(u32::try_from(ix).unwrap_or(u32::MAX), place) as usize
}

/// `MIG-sim-`, the identity of its device, and its place on it.
fn uuid_of_instance(device: &DeviceUuid, place: u32) -> DeviceUuid {
    let device = device.as_str().trim_start_matches("GPU-");
    DeviceUuid::new(format!("MIG-{device}-{place}"))
}

/// `GPU-sim-`, a hash of the node and the device's position.
fn uuid(node: &NodeName, ix: usize) -> DeviceUuid {
    // FNV-1a: it protects no secret, and must be the same in every build.
    let hash = node.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    DeviceUuid::new(format!("GPU-sim-{hash:016x}-{ix:02}"))
}
