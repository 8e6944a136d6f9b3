//! The data that the view shows, as the caller has read it.

use gpool_wire::usage::GpuHistory;
use gpool_wire::{Gpu, Job, Status};
use serde::Serialize;

#[derive(Debug, Clone)]
pub enum News {
    Cluster(Box<Status>, Vec<Gpu>),
    /// The use of GPUs before the first reading.
    Past(Box<GpuHistory>),
    /// The jobs that have not ended, and their total number if these are not all.
    Jobs(Vec<Job>, Option<u64>),
    /// This machine with its GPUs and the processes on them.
    Machine(Box<MachineInfo>, Vec<Gpu>, Vec<Process>),
    /// Why a job waits, as text.
    Why {
        /// The job's ID.
        job: String,
        text: String,
    },
    /// The last output of a job.
    Log {
        /// The job's ID.
        job: String,
        /// The output as it was written.
        text: String,
    },
    /// The data can't be read at the moment. The view keeps its data.
    Away(String),
    /// The result of an action.
    Message(String),
}

/// A machine without its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MachineInfo {
    pub name: String,
    /// Driver of its GPUs. `null` if there are none.
    pub driver: Option<String>,
    /// Why there are no GPUs. `null` if there are some.
    pub no_gpus: Option<String>,
    pub cpus: u64,
    /// Part of the cores in use since the last reading, 0 to 1. `null` at the first reading.
    pub cpu: Option<f64>,
    /// Memory in bytes.
    pub memory_total: u64,
    /// Used memory in bytes, without caches that can be freed.
    pub memory_used: u64,
    /// Processes that run or wait for a core, as averages over 1, 5 and 15 minutes.
    pub load: [f64; 3],
}

/// A process on a GPU of this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Process {
    /// Index of the GPU.
    pub gpu: u32,
    pub pid: u32,
    pub user: Option<String>,
    /// GPU memory in bytes.
    pub gpu_memory: Option<u64>,
    /// Part of the time with running kernels of the process on the GPU, 0 to 1.
    pub gpu_use: Option<f64>,
    /// Cores that it used since the last reading: 1.5. `null` at the first reading.
    pub cpu: Option<f64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    pub runs_s: Option<u64>,
    /// Start time in ticks since boot; with the process ID it identifies the process.
    pub started: Option<u64>,
    /// Command line.
    pub command: String,
}
