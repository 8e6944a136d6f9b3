//! The work of a keeper process for one task, and its messages to the shepherd.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::{Call, Request};

/// The first argument of keepers and helpers. The program's `main` checks for it before anything
/// else and calls [`crate::main`] with the second.
pub const ARGUMENT: &str = "__checkpoint";

/// The second argument of a keeper or helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    Call(Request),
    /// A pause or resume with all its calls.
    Plan(Box<Plan>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// Free the devices and stop the processes, unless they run on.
    Pause,
    /// Restore the GPU memory and let the processes go on.
    Resume,
    /// Free the devices, because the processes will be killed.
    Release,
}

/// A pause or resume of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub aim: Aim,
    /// The process above the task's processes.
    pub shepherd: u32,
    /// The UUIDs of the task's devices.
    pub devices: Vec<String>,
    /// Whether the task shares its devices with others.
    pub is_shared: bool,
    /// Names of programs that do not count as use of a device.
    pub ignored: BTreeSet<String>,
    /// The device on which a resume restores the memory of another one, by the UUID of the latter;
    /// devices that are not named keep theirs.
    #[serde(default)]
    pub moves: BTreeMap<String, String>,
    /// The file that records whether the driver moves memory to other devices.
    #[serde(default)]
    pub record: Option<PathBuf>,
    /// The processes of an earlier plan for this task, which may be locked or checkpointed.
    pub processes: Vec<ResidentProcess>,
    /// The folder of the job's ledger, if it has one.
    pub ledger: Option<PathBuf>,
    /// Whether the job's user allowed a pause without a gate.
    pub is_risk_accepted: bool,
    /// Whether the processes run on while they are paused, and their GPU calls wait at the gate.
    #[serde(default)]
    pub runs_on: bool,
    pub drivers: Drivers,
    pub deadlines: Deadlines,
}

impl Plan {
    /// The device on which the plan restores the memory of a device.
    pub(crate) fn target<'a>(&'a self, device: &'a str) -> &'a str {
        self.moves.get(device).map_or(device, String::as_str)
    }

    /// The devices that the task had before the moves, by slot.
    pub(crate) fn home(&self) -> Vec<String> {
        let from = |to: &String| self.moves.iter().find(|(_, it)| *it == to).map(|(from, _)| from);
        self.devices.iter().map(|to| from(to).unwrap_or(to).clone()).collect()
    }
}

/// The driver's libraries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drivers {
    /// `libcuda.so.1`.
    pub cuda: PathBuf,
    /// `libnvidia-ml.so.1`.
    pub nvml: PathBuf,
}

/// The environment variable for the path of another `libcuda.so.1`.
const CUDA_VARIABLE: &str = "GPOOL_CUDA_PATH";

impl Drivers {
    /// The libraries from the environment variables, or the driver's usual ones.
    #[must_use]
    pub fn usual() -> Self {
        let cuda = std::env::var_os(CUDA_VARIABLE).filter(|path| !path.is_empty());
        Self {
            cuda: cuda.map_or_else(|| PathBuf::from("libcuda.so.1"), PathBuf::from),
            nvml: gpool_device::NvmlSource::library().into(),
        }
    }

    pub(crate) fn request(&self, call: Call) -> Request {
        Request { cuda: self.cuda.clone(), nvml: self.nvml.clone(), call }
    }
}

/// The time limits of a plan, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// For the GPU calls of the task to end.
    pub lock_ms: u32,
    /// For a call that copies nothing.
    pub call_ms: u64,
    /// For a copy, beside the time for its bytes.
    pub copy_ms: u64,
    /// For the driver to list or no longer list the processes.
    pub list_ms: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { lock_ms: 10_000, call_ms: 30_000, copy_ms: 60_000, list_ms: 10_000 }
    }
}

/// Bytes that a copy moves each second at least. An H100's first checkpoint of 64 GB took up to
/// 157 s (measured by others, cuda-checkpoint issue 29).
const COPY_RATE: u64 = 128 << 20;

impl Deadlines {
    pub(crate) fn lock(self) -> Duration {
        Duration::from_millis(u64::from(self.lock_ms).saturating_add(self.call_ms))
    }

    pub(crate) fn call(self) -> Duration {
        Duration::from_millis(self.call_ms)
    }

    pub(crate) fn copy(self, bytes: u64) -> Duration {
        Duration::from_millis(self.copy_ms) + Duration::from_secs(bytes / COPY_RATE)
    }
}

/// A process with GPU memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentProcess {
    pub pid: u32,
    /// Its start time in ticks since boot.
    pub started: u64,
    /// Its bytes by the UUID of the device, with its contexts.
    pub on: BTreeMap<String, u64>,
    /// Where the driver would restore the memory of a device in `on`, by the UUID of the latter, if
    /// a restore that was undone has changed it.
    #[serde(default)]
    pub moved: BTreeMap<String, String>,
}

impl ResidentProcess {
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.on.values().copied().fold(0, u64::saturating_add)
    }

    /// The device on which the driver restores the memory of a device in `on` by itself.
    pub(crate) fn place<'a>(&'a self, device: &'a str) -> &'a str {
        self.moved.get(device).map_or(device, String::as_str)
    }
}

/// A message of a keeper, one line of JSON. After `Freeze`, `Thaw` and `Restores` it waits for a
/// line: `yes` or `no`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    /// These processes will be locked.
    Found(Vec<ResidentProcess>),
    /// Stop the task's processes.
    Freeze,
    /// Let the task's processes go on.
    Thaw,
    /// The restore waits, for this reason.
    Waits(String),
    /// GPU memory will be restored after the answer.
    Restores,
    /// The last message of a pause: the devices are free, and the processes are stopped unless they
    /// run on.
    Paused(Vec<ResidentProcess>),
    /// The last message of a pause that failed.
    NotPaused {
        why: String,
        /// Whether GPU memory of the task is lost.
        is_lost: bool,
    },
    /// The last message of a resume: the processes go on.
    Resumed,
    /// The last message of a resume on other devices that is undone: the processes are paused.
    NotMoved {
        why: String,
        /// The processes with GPU memory in host memory.
        held: Vec<ResidentProcess>,
    },
    /// The last message of a resume that failed for ever.
    Lost(String),
    /// The last message of a release: the processes can be killed.
    Released {
        /// Why some could not be released.
        why: Option<String>,
    },
}

/// Prints a message. If its reader is gone, the work goes on: a half-done plan is worse.
pub(crate) fn print(message: &impl Serialize) {
    let mut line = serde_json::to_vec(message).expect("messages have string keys only");
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(&line).and_then(|()| output.flush());
}
