//! The processes and the free memory of devices, from the driver's library for devices.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::call::{CallError, DeviceSnapshot, SeenDevice, SeenProcess};
use gpool_device::{DeviceSource, NvmlSource, SourceError};

/// The time to load and initialise the library.
const OPEN: Duration = Duration::from_secs(20);
/// The name of MPS's server, which appears on each device that it serves.
const MPS_SERVER: &str = "nvidia-cuda-mps";

/// Looks at devices by UUID, without those that are gone from the bus.
pub(crate) fn look(library: &Path, wanted: &[String]) -> Result<DeviceSnapshot, CallError> {
    let failed = |why: String| CallError::NoList { why };
    let source = open(library.as_os_str())?;
    let outline = source.outline().map_err(|error| failed(error.to_string()))?;
    let driver = outline.driver.trim_start_matches("NVIDIA ").to_owned();
    let mut look = DeviceSnapshot { driver, ..DeviceSnapshot::default() };
    for index in 0..outline.n_devices {
        let described = match source.describe(index) {
            Ok(described) => described,
            Err(SourceError::Lost) => continue,
            Err(error) => return Err(failed(error.to_string())),
        };
        let is_divided = !described.instances.is_empty();
        let gpu = &described.device;
        look.gpus.insert(gpu.uuid.to_string(), gpu.model.clone());
        for device in std::iter::once(described.device).chain(described.instances) {
            if wanted.iter().any(|it| *it == device.uuid.to_string()) {
                let is_mig = is_divided || device.instance.is_some();
                look.devices.push(inspect_device(&source, &device.uuid, is_mig)?);
            }
        }
    }
    Ok(look)
}

pub(crate) fn open(library: &OsStr) -> Result<NvmlSource, CallError> {
    NvmlSource::open(library, OPEN).map_err(|error| CallError::NoList { why: error.to_string() })
}

fn inspect_device(
    source: &NvmlSource,
    uuid: &gpool_model::id::DeviceUuid,
    is_mig: bool,
) -> Result<SeenDevice, CallError> {
    let failed = |why: String| CallError::NoList { why };
    let listed = source.processes(uuid).map_err(|error| failed(error.to_string()))?;
    let listed = listed.ok_or_else(|| failed("this driver lists no processes".to_owned()))?;
    let usage = source.usage(uuid).map_err(|error| failed(error.to_string()))?;
    let name = |pid: u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim_end().to_owned()
    };
    let processes = listed.iter().map(|process| SeenProcess {
        pid: process.pid,
        name: name(process.pid),
        memory: process.memory.map(gpool_model::unit::Bytes::get),
    });
    let processes: Vec<SeenProcess> = processes.collect();
    Ok(SeenDevice {
        uuid: uuid.to_string(),
        free: usage.memory_free.map(gpool_model::unit::Bytes::get),
        used: usage.memory_used.map(gpool_model::unit::Bytes::get),
        is_mig,
        has_mps: listed.iter().any(|it| it.is_mps)
            || processes.iter().any(|it| it.name.starts_with(MPS_SERVER)),
        processes,
    })
}
