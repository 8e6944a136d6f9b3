//! Devices of the NVIDIA driver, through its management library, which is loaded at run time: a
//! machine without driver is normal. Values that a driver or device does not support are absent.

mod activity;
pub(crate) mod card;
mod detail;
mod errors;
pub(crate) mod health;
pub(crate) mod links;
pub(crate) mod mig;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpool_model::device::{DeviceDetail, DeviceHealth, DeviceSample, Link};
use gpool_model::id::DeviceUuid;
use gpool_model::mig_layout::{MigError, MigSize};
use gpool_model::unit::Bytes;
use gpool_sys::nvml::MemoryLimits;
use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use thiserror::Error;

use crate::source::{
    Described, DeviceSource, Libraries, Outline, Pausing, RawProcess, SourceError,
};
use card::Card;

/// The environment variable for the path of another library.
const LIBRARY_VARIABLE: &str = "GPOOL_NVML_PATH";
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Begins the name of the library's file, which ends in the driver's version.
const NAME: &str = "libnvidia-ml.so";
const CUDA_LIBRARY: &str = "libcuda.so.1";

pub struct NvmlSource {
    /// One handle for the life of the process: without persistence mode the driver takes seconds to
    /// wake a device for the first handle. The handle must outlive calls that never return.
    nvml: &'static Nvml,
    driver: String,
    /// The loaded library, for calls that the wrapper lacks.
    library: OsString,
    /// The described devices, by UUID. The lock is never held across a call.
    cards: Mutex<BTreeMap<DeviceUuid, Arc<Card>>>,
}

/// Why there are no usable NVIDIA devices, which is normal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no usable NVIDIA driver ({library}: {why})")]
pub struct NoDriver {
    pub library: String,
    pub why: String,
}

impl NvmlSource {
    /// The library from the environment variable, or the driver's usual one.
    #[must_use]
    pub fn library() -> OsString {
        std::env::var_os(LIBRARY_VARIABLE)
            .filter(|path| !path.is_empty())
            .unwrap_or_else(|| LIBRARY.into())
    }

    /// Loads and initialises the library within a time limit: a broken driver may never answer.
    ///
    /// # Errors
    /// If there is no library, no driver, or no answer.
    pub fn open(library: &OsStr, timeout: Duration) -> Result<Self, NoDriver> {
        let nothing = |why| NoDriver { library: library.to_string_lossy().into_owned(), why };
        let (answer, opened) = channel();
        let path = library.to_os_string();
        let open = move || {
            let nvml = Nvml::builder().lib_path(&path).init();
            // A driver that starts too late finds no receiver and is shut down again.
            let _ = answer.send(nvml.map(|nvml| {
                let driver = nvml.sys_driver_version().unwrap_or_else(|_| "unknown".into());
                (nvml, driver)
            }));
        };
        std::thread::Builder::new()
            .name("gpu-open".into())
            .spawn(open)
            .map_err(|error| nothing(format!("can't start a thread: {error}")))?;
        match opened.recv_timeout(timeout) {
            Ok(Ok((nvml, driver))) => {
                let (nvml, library) = (Box::leak(Box::new(nvml)), library.to_os_string());
                Ok(Self { nvml, driver, library, cards: Mutex::default() })
            }
            Ok(Err(error)) => Err(nothing(explain(&error))),
            Err(_) => Err(nothing(format!("no answer within {} s", timeout.as_secs()))),
        }
    }

    /// The file of the loaded NVML library: by its path, or from the kernel's list of mappings.
    fn loaded(&self) -> Option<PathBuf> {
        let named = PathBuf::from(&self.library);
        if named.is_absolute() {
            return Some(named);
        }
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let paths = maps.lines().filter_map(|line| Some(Path::new(line.get(line.find('/')?..)?)));
        let is_it = |path: &&Path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(NAME.as_bytes()))
        };
        paths.into_iter().find(is_it).map(Path::to_owned)
    }

    fn cards(&self) -> MutexGuard<'_, BTreeMap<DeviceUuid, Arc<Card>>> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device that has MIG mode on.
    fn divided(&self, uuid: &DeviceUuid) -> Result<Arc<Card>, MigError> {
        let card = self.card(uuid).map_err(|_| MigError::NoSuchDevice)?;
        match card.is_divided() {
            Ok(true) => Ok(card),
            Ok(false) => Err(MigError::IsOff),
            Err(error) => Err(MigError::Driver { why: error.to_string() }),
        }
    }

    fn card(&self, uuid: &DeviceUuid) -> Result<Arc<Card>, SourceError> {
        self.cards().get(uuid).cloned().ok_or_else(|| SourceError::NoDevice(uuid.clone()))
    }
}

impl DeviceSource for NvmlSource {
    fn outline(&self) -> Result<Outline, SourceError> {
        let n_devices = needed("nvmlDeviceGetCount", self.nvml.device_count())?;
        Ok(Outline { driver: format!("NVIDIA {}", self.driver), n_devices })
    }

    fn describe(&self, index: u32) -> Result<Described, SourceError> {
        let device = needed("nvmlDeviceGetHandleByIndex", self.nvml.device_by_index(index))?;
        let uuid = DeviceUuid::new(needed("nvmlDeviceGetUUID", device.uuid())?);
        let known = self.cards().get(&uuid).cloned();
        let card = match known {
            Some(card) => card,
            None => {
                let card = Arc::new(Card::new(self.nvml, device)?);
                self.cards().insert(uuid.clone(), Arc::clone(&card));
                card
            }
        };
        let mut device = card.describe(index, uuid.clone())?;
        if let Some(mig) = device.mig.as_mut().filter(|mig| mig.enabled) {
            // Old drivers can't list them.
            mig.sizes = mig::sizes(&self.library, &card).unwrap_or_default();
        }
        let instances = Card::instances(&card, &device)?;
        let mut cards = self.cards();
        cards.retain(|_, it| !it.is_of(&card));
        let mut described = Described { device, instances: Vec::new() };
        for (card, mut instance) in instances {
            if let Some(own) = &mut instance.instance {
                own.nodes = mig::nodes(&self.library, instance.minor, &instance.uuid);
            }
            cards.insert(instance.uuid.clone(), Arc::new(card));
            described.instances.push(instance);
        }
        Ok(described)
    }

    fn links(
        &self,
        uuid: &DeviceUuid,
        others: &[DeviceUuid],
    ) -> Result<BTreeMap<DeviceUuid, Link>, SourceError> {
        let card = self.card(uuid)?;
        let mut all = BTreeMap::new();
        for other in others {
            let link = card.link_to(&*self.card(other)?)?;
            if link > Link::System {
                all.insert(other.clone(), link);
            }
        }
        Ok(all)
    }

    fn usage(&self, uuid: &DeviceUuid) -> Result<DeviceSample, SourceError> {
        let card = self.card(uuid)?;
        let memory = supported(card.device.memory_info())?;
        let rates = supported(card.device.utilization_rates())?;
        Ok(DeviceSample {
            memory_used: memory.as_ref().map(|memory| Bytes::new(memory.used)),
            memory_free: memory.as_ref().map(|memory| Bytes::new(memory.free)),
            utilization_percent: rates.as_ref().map(|rates| rates.gpu),
            traffic_percent: rates.map(|rates| rates.memory),
            ..DeviceSample::default()
        })
    }

    fn detail(&self, uuid: &DeviceUuid) -> Result<DeviceDetail, SourceError> {
        self.card(uuid)?.detail()
    }

    fn processes(&self, uuid: &DeviceUuid) -> Result<Option<Vec<RawProcess>>, SourceError> {
        let card = self.card(uuid)?;
        if card.is_divided()? {
            // The driver lists the processes of all instances here too.
            return Ok(Some(Vec::new()));
        }
        let device = &card.device;
        let call = "nvmlDeviceGetComputeRunningProcesses";
        let Some(mut found) = list(call, || device.running_compute_processes())? else {
            return Ok(None);
        };
        let call = "nvmlDeviceGetMPSComputeRunningProcesses";
        let clients = list(call, || device.mps_running_compute_processes())?.unwrap_or_default();
        let is_mps = |pid| clients.iter().any(|client| client.pid == pid);
        found.extend_from_slice(&clients);
        let mut by_pid: BTreeMap<u32, RawProcess> = BTreeMap::new();
        for process in found {
            let memory = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(Bytes::new(bytes)),
                UsedGpuMemory::Unavailable => None,
            };
            let raw = RawProcess {
                pid: process.pid,
                memory,
                is_mps: is_mps(process.pid),
                ..RawProcess::default()
            };
            let known = by_pid.entry(process.pid).or_insert(raw);
            // A process with several contexts, or in both lists, is listed once with its largest
            // memory.
            known.memory = known.memory.max(memory);
        }
        if by_pid.len() > 1 {
            card.note_activity(&mut by_pid)?;
        }
        Ok(Some(by_pid.into_values().collect()))
    }

    fn libraries(&self) -> Option<Libraries> {
        let nvml = self.loaded()?;
        let cuda = nvml.with_file_name(CUDA_LIBRARY);
        Some(Libraries { cuda: Some(cuda).filter(|cuda| cuda.exists()), nvml })
    }

    fn nvlink_domain(&self) -> Option<String> {
        let library = self.loaded()?;
        let uuids: Vec<DeviceUuid> = self.cards().keys().cloned().collect();
        uuids.iter().find_map(|uuid| gpool_sys::nvml::nvlink_domain(&library, uuid.as_str()))
    }

    fn limit_memory(
        &self,
        uuid: &DeviceUuid,
        group: &Path,
        limit: Option<Bytes>,
    ) -> Result<(), SourceError> {
        const CALL: &str = "nvmlDeviceSetMemoryLimits_v1";
        let calls =
            self.loaded().and_then(|library| MemoryLimits::of(&library)).ok_or_else(|| {
                let why = "the driver does not have it; drivers have it since 615".to_owned();
                SourceError::Call { call: CALL, why }
            })?;
        calls
            .set(uuid.as_str(), group, limit.map(Bytes::get))
            .map_err(|why| SourceError::Call { call: CALL, why })
    }

    fn health(&self, uuid: &DeviceUuid) -> Result<DeviceHealth, SourceError> {
        self.card(uuid)?.health()
    }

    fn pausing(&self) -> Pausing {
        Pausing::Checkpoint
    }

    fn mig_sizes(&self, uuid: &DeviceUuid) -> Result<Vec<MigSize>, MigError> {
        mig::sizes(&self.library, &*self.divided(uuid)?)
    }

    fn create_instance(&self, uuid: &DeviceUuid, profile: &str) -> Result<DeviceUuid, MigError> {
        mig::create(&self.library, &*self.divided(uuid)?, profile)
    }

    fn destroy_instance(&self, instance: &DeviceUuid) -> Result<(), MigError> {
        let card = self.card(instance).map_err(|_| MigError::NoSuchDevice)?;
        let parent = card.parent().ok_or(MigError::NoSuchDevice)?;
        mig::destroy(&self.library, parent, instance)
    }
}

/// Reads a list of processes, which may grow between the request of its length and of the list.
fn list(
    call: &'static str,
    ask: impl Fn() -> Result<Vec<ProcessInfo>, NvmlError>,
) -> Result<Option<Vec<ProcessInfo>>, SourceError> {
    const TRIES: u32 = 4;
    let mut answer = ask();
    for _ in 1..TRIES {
        if !matches!(answer, Err(NvmlError::InsufficientSize(_))) {
            break;
        }
        answer = ask();
    }
    match answer {
        // A temporary error must not look like an empty list.
        Err(error) if !is_unsupported(&error) => Err(failure(call, &error)),
        answer => supported(answer),
    }
}

/// An answer that a device can't be used without.
fn needed<T>(call: &'static str, answer: Result<T, NvmlError>) -> Result<T, SourceError> {
    answer.map_err(|error| failure(call, &error))
}

/// An answer that may be missing. It is an error only if the device is lost or refuses work.
fn supported<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, SourceError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(NvmlError::GpuLost) => Err(SourceError::Lost),
        Err(NvmlError::ResetRequired) => Err(SourceError::NeedsReset),
        Err(_) => Ok(None),
    }
}

/// Whether the call will never succeed.
fn is_unsupported(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::NotSupported
            | NvmlError::NoPermission
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::FunctionNotFound
    )
}

fn failure(call: &'static str, error: &NvmlError) -> SourceError {
    match error {
        NvmlError::GpuLost => SourceError::Lost,
        NvmlError::ResetRequired => SourceError::NeedsReset,
        other => SourceError::Call { call, why: explain(other) },
    }
}

/// The wrapper's message; shorter if there is no driver, which is no fault.
fn explain(error: &NvmlError) -> String {
    let mut text = error.to_string();
    if matches!(error, NvmlError::LibloadingError(_)) && text.contains("No such file") {
        return "the library is not installed".to_owned();
    }
    if let NvmlError::LibRmVersionMismatch = error {
        text.push_str("; the driver was updated while loaded: restart the machine");
    }
    text
}
