//! The state file: the library's answers, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The state of the library.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// The result of `nvmlSystemGetDriverVersion`.
    pub driver: String,
    /// The devices, in the driver's order.
    pub devices: Vec<Device>,
    /// Return codes by symbol, for all calls.
    pub errors: BTreeMap<String, u32>,
    /// Symbols that do not return while they are listed here.
    pub hang: BTreeSet<String>,
    /// Settings of the CUDA stub.
    pub cuda: Cuda,
}

/// Settings of the CUDA stub.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cuda {
    /// The result of `cuDriverGetVersion`; 13000 if absent.
    pub version: Option<i32>,
    /// Bytes of device memory that each context takes.
    pub context: u64,
    /// Whether calls neither look at this file nor count memory, for benchmarks. It is read once,
    /// by `cuInit`.
    pub bare: bool,
    /// Milliseconds that a call takes longer, by symbol.
    pub slow_ms: BTreeMap<String, u64>,
    /// Whether a synchronisation crashes while the process is checkpointed, as NVIDIA's drivers do
    /// up to 595.
    pub crash_on_sync: bool,
    /// Whether `cuGetProcAddress` returns an address for `cuMemAlloc` that is not exported.
    pub hides_addresses: bool,
    /// Whether a restore succeeds without moving to the requested devices.
    pub move_is_ignored: bool,
}

/// One device. It does not support the values that are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Device {
    /// `GPU-…`.
    pub uuid: String,
    /// The model.
    pub name: String,
    /// Bytes of memory; absent on devices that share the host's memory.
    pub memory: Option<u64>,
    /// Bytes of memory in use.
    pub used: u64,
    /// `00000000:01:00.0`.
    pub bus: String,
    /// The number in `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// The NUMA node of the device's memory.
    pub numa: Option<u32>,
    /// Compute processes; absent if the driver can't list them.
    pub processes: Option<Vec<Process>>,
    /// Compute processes that are clients of MPS.
    pub mps_processes: Option<Vec<Process>>,
    /// Percentage of time with a running kernel.
    pub utilization: Option<u32>,
    /// Percentage of time with a running kernel, by process ID; absent if the driver can't tell.
    /// Processes that are not named run none.
    pub process_utilization: Option<BTreeMap<u32, u32>>,
    /// Percentage of time with memory traffic.
    pub traffic: u32,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Degrees Celsius of the memory.
    pub memory_temperature: Option<u32>,
    /// Milliwatts.
    pub power_mw: Option<u32>,
    /// Millijoules since the driver was loaded.
    pub energy_mj: Option<u64>,
    /// MHz of the multiprocessors.
    pub sm_clock: Option<u32>,
    /// Nanoseconds of lowered clocks by `nvmlPerfPolicyType_t`.
    pub capped_ns: BTreeMap<u32, u64>,
    /// Values of performance counters by `nvmlGpmMetricId_t`; absent if the device has none.
    pub counters: Option<BTreeMap<u32, f64>>,
    /// Uncorrected memory errors since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
    /// Corrected memory errors since the driver was loaded.
    pub ecc_corrected: Option<u64>,
    /// Memory rows replaced after corrected and after uncorrected errors.
    pub rows_remapped: Option<(u32, u32)>,
    /// Whether memory rows wait for a reset to be replaced.
    pub remap_pending: Option<bool>,
    /// Whether a memory row could not be replaced.
    pub remap_failed: Option<bool>,
    /// Whether memory pages wait for a reset to be retired.
    pub retire_pending: Option<bool>,
    /// `nvmlGpuTopologyLevel_t` by the other's index.
    pub topology: BTreeMap<usize, u32>,
    /// Active NVLinks: the bus IDs of the devices at their other ends.
    pub nv_links: Option<Vec<String>>,
    /// Devices that can be reached by NVLink, through switches too, by index.
    pub nv_peers: BTreeSet<usize>,
    /// The fabric that its NVLinks belong to.
    pub fabric: Option<Fabric>,
    /// Whether MIG mode is on; absent if the device does not have it.
    pub mig: Option<bool>,
    /// MIG instances, by place; a place without UUID is empty.
    pub instances: Vec<Instance>,
    /// The sizes of instances that can be created.
    pub mig_profiles: Vec<MigProfile>,
    /// GPU instances that were created.
    pub gpu_instances: Vec<GpuInstance>,
    /// The number of MIG instances that were ever created.
    pub n_divided: u32,
    /// Events, delivered in order and once to each process that waits for them; absent if the
    /// device has none.
    pub events: Option<Vec<Event>>,
    /// The supported kinds of events; all if absent.
    pub event_kinds: Option<u64>,
    /// Whether it is gone from the bus: all calls about it fail then.
    pub lost: bool,
    /// Return codes by symbol, for calls about this device.
    pub errors: BTreeMap<String, u32>,
    /// Symbols that do not return for this device while they are listed here.
    pub hang: BTreeSet<String>,
}

/// The fabric of a device, as in `nvmlGpuFabricInfo_v2_t`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fabric {
    pub cluster_uuid: [u8; 16],
    pub clique: u32,
    /// `nvmlGpuFabricState_t`; 3 is completed.
    pub state: u8,
}

/// A process on a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// Its process ID.
    pub pid: u32,
    /// Bytes of device memory, if the driver can tell.
    pub memory: Option<u64>,
}

/// A MIG instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Instance {
    /// `MIG-…`.
    pub uuid: String,
    /// MiB of memory.
    pub memory_mb: u64,
    /// Compute slices.
    pub slices: u32,
    /// The name; absent if it is the device's.
    pub name: Option<String>,
    /// Bytes of memory in use.
    pub used: u64,
    /// Compute processes on it; the driver lists them for the device too.
    pub processes: Vec<Process>,
    /// The number of its GPU instance.
    pub gpu_instance: Option<u32>,
}

/// A size of MIG instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MigProfile {
    /// `NVML_GPU_INSTANCE_PROFILE_…`.
    pub kind: u32,
    /// The number of the profile on this device.
    pub id: u32,
    /// The driver's name; empty if it has none.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// Most instances of a device.
    pub most: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// MiB of memory.
    pub memory_mb: u64,
    /// Memory slices, of eight.
    pub size: u32,
    /// The first memory slice of each place.
    pub starts: Vec<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GpuInstance {
    /// Its number on the device.
    pub id: u32,
    /// The number of its profile.
    pub profile: u32,
    /// Its first memory slice.
    pub start: u32,
}

/// An event of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Event {
    /// `nvmlEventType…`: 8 is a critical Xid.
    pub kind: u64,
    /// The number of the Xid.
    pub data: u64,
}

impl State {
    /// Writes the file atomically.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        let draft = file.with_extension("draft");
        std::fs::write(&draft, text)?;
        std::fs::rename(draft, file)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If it can't be read or parsed.
    pub fn read(file: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(file)?)?)
    }
}
