//! One call of the driver, as a helper process gets it, and its answer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The work of one helper process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The driver's library.
    pub cuda: PathBuf,
    /// The driver's library for devices.
    pub nvml: PathBuf,
    pub call: Call,
}

/// A call of the driver. Process IDs are those of this process's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Find out whether the driver has the other calls.
    Probe,
    /// List the processes and the free memory of these devices, by UUID.
    Look(Vec<String>),
    /// Ask for the state of a process.
    State(u32),
    /// Wait for the GPU calls of a process, and hold back new ones.
    Lock {
        pid: u32,
        /// Milliseconds after which the driver gives up and lets the process run on.
        timeout_ms: u32,
    },
    /// Copy the GPU memory of a locked process to host memory, and free the device.
    Checkpoint(u32),
    /// Copy it back. The process stays locked.
    Restore {
        pid: u32,
        /// The old and the new device of every device of the machine; empty for the same ones.
        pairs: Vec<(String, String)>,
    },
    /// Allocate this much on each device, by UUID, and free it again.
    TryRoom(Vec<(String, u64)>),
    /// Let a locked process go on.
    Unlock(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    Done,
    State(ProcessState),
    Looked(DeviceSnapshot),
    Probed(Probe),
    Failed(CallError),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSnapshot {
    /// The driver: `580.95.05`.
    pub driver: String,
    /// The requested devices that the driver lists.
    pub devices: Vec<SeenDevice>,
    /// The models of all GPUs of the machine, by UUID, without MIG instances.
    pub gpus: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenDevice {
    pub uuid: String,
    /// Bytes of free memory, if the driver can tell.
    pub free: Option<u64>,
    /// Bytes of memory in use, if the driver can tell.
    pub used: Option<u64>,
    /// Whether it is a MIG instance, or divided into such.
    pub is_mig: bool,
    pub has_mps: bool,
    /// Its compute processes.
    pub processes: Vec<SeenProcess>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenProcess {
    pub pid: u32,
    pub name: String,
    /// Its bytes on the device with its context, if the driver can tell.
    pub memory: Option<u64>,
}

/// The answers of the driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The driver: `580.95.05`.
    pub driver: String,
    /// Why the library can't be used.
    pub error: Option<String>,
    /// The missing functions.
    pub missing: Vec<String>,
    /// The CUDA version: 13000 is 13.0.
    pub cuda: u32,
}

/// The state of a process in the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    Running,
    /// Its GPU calls wait.
    Locked,
    /// Its GPU memory is in host memory.
    Checkpointed,
    /// A checkpoint or restore failed for ever.
    Failed,
    /// A checkpoint or restore is under way.
    Busy,
}

impl ProcessState {
    /// The state with the driver's number.
    /// Source: `CUprocessState` in `cuda.h` 13.4.
    pub(crate) fn of(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Running),
            1 => Some(Self::Locked),
            2 => Some(Self::Checkpointed),
            3 => Some(Self::Failed),
            4 | 5 => Some(Self::Busy),
            _ => None,
        }
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "snake_case")]
pub enum CallError {
    #[error("can't load {library}: {why}")]
    NoLibrary { library: String, why: String },
    /// The driver is too old for the call.
    #[error("the driver has no {symbol}; it needs version 570 or later")]
    NoSymbol { symbol: String },
    #[error("{symbol} failed: {} ({code})", name_of(*.code))]
    Driver {
        symbol: String,
        /// `CUresult`.
        code: i32,
    },
    /// The driver listed no devices or processes.
    #[error("can't list the processes on the GPUs: {why}")]
    NoList { why: String },
    /// There was no answer before the deadline.
    #[error("the driver did not answer within {seconds} s")]
    Hung {
        /// The deadline.
        seconds: u64,
    },
    /// The helper process could not be started, or was killed.
    #[error("the process that calls the driver {why}")]
    Helper { why: String },
}

/// Memory was short on the device.
pub(crate) const OUT_OF_MEMORY: i32 = 2;
/// A lock did not succeed in its time.
pub(crate) const NOT_READY: i32 = 600;

impl CallError {
    pub(crate) fn is(&self, result: i32) -> bool {
        matches!(self, Self::Driver { code, .. } if *code == result)
    }
}

/// The driver's name of a result.
/// Source: `CUresult` in `cuda.h` 13.4.
fn name_of(code: i32) -> &'static str {
    match code {
        1 => "CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => "CUDA_ERROR_OUT_OF_MEMORY",
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        4 => "CUDA_ERROR_DEINITIALIZED",
        100 => "CUDA_ERROR_NO_DEVICE",
        304 => "CUDA_ERROR_OPERATING_SYSTEM",
        401 => "CUDA_ERROR_ILLEGAL_STATE",
        NOT_READY => "CUDA_ERROR_NOT_READY",
        800 => "CUDA_ERROR_NOT_PERMITTED",
        801 => "CUDA_ERROR_NOT_SUPPORTED",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => "an error",
    }
}
