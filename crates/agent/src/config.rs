//! The configuration of an agent.

use std::io;
use std::path::PathBuf;

use gpool_device::Ignore;
use gpool_model::id::{JobId, NodeName};
use gpool_model::job::JobSpec;
use gpool_model::unit::{Bytes, MilliCpu, Millis};

use crate::accounts::UserRule;

#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The folder for claims and output. The path must be text.
    pub state_dir: PathBuf,
    /// Folders of earlier agents without live jobs: this agent reads and removes their output.
    pub older_dirs: Vec<PathBuf>,
    pub node: NodeName,
    /// The name or IP address of this machine for other machines; empty if none is known.
    pub address: String,
    /// Which accounts of this machine run the jobs of the server's users; `None` if the server is
    /// on this machine, and the accounts are the same.
    pub users: Option<UserRule>,
    /// The program that forks shepherds if its first argument is
    /// [`gpool_shepherd::nursery::ARGUMENT`].
    pub shepherd_exe: PathBuf,
    /// The socket of the API, for the environment of jobs.
    pub api_socket: Option<String>,
    /// Size at which gpool's own output files are cut.
    pub output_limit: Bytes,
    /// Whether a task is stopped when its output is dropped: it reached the limit, or the disk is
    /// nearly full.
    pub stop_on_cut: bool,
    /// Most processes and threads of one job. `None` means [`AgentConfig::PIDS_MAX`] where that
    /// adds nothing to the start of a job. With cgroup v1 it adds up to 20 ms (measured 2026-11 on
    /// Linux 6.18: moving a process waits for an RCU grace period), so there it applies only if it
    /// is set.
    pub pids_max: Option<u32>,
    /// Most tasks at once.
    pub tasks_max: u32,
    /// Task slots that are reserved for jobs with GPUs, on a node that has devices; `None` is
    /// [`AgentConfig::reserved_gpu_tasks`].
    pub reserved_gpu_tasks: Option<u32>,
    /// Task slots of the node that one user may have; `None` is [`AgentConfig::user_tasks_max`].
    pub user_tasks_max: Option<u32>,
    /// CPU cores that can be booked; `None` means the cores of the machine.
    pub cpus: Option<MilliCpu>,
    /// Host memory that can be booked; `None` means the memory of the machine.
    pub memory: Option<Bytes>,
    /// Processes that do not count as use of a device.
    pub ignore: Ignore,
    /// How long a device must be free of unknown processes before jobs can use it again.
    pub unmanaged_grace: Millis,
    /// Whether the kernel keeps jobs from opening GPUs that are not theirs, where it can.
    pub isolate_gpus: bool,
    /// The program that runs containers; `None` is the first that is found, and `none` is nothing.
    pub container_engine: Option<String>,
    /// The longest time until a called loan of device memory is back.
    pub loan_deadline: Millis,
    /// A folder for files that name the jobs of each GPU, for dcgm-exporter.
    pub job_files: Option<PathBuf>,
    /// Most bytes of the results of a task.
    pub results_max: Bytes,
    /// Most bytes of files that the node keeps for the next working folders.
    pub file_cache_max: Bytes,
    /// Makes the value of `TRACEPARENT` for a job, if jobs are traced.
    pub trace_context: Option<fn(JobId, &JobSpec) -> String>,
    /// Memory for the last hour of devices, and again for that of the metrics of jobs.
    pub recent: Bytes,
}

impl AgentConfig {
    /// Most processes and threads of one job by default: half of the least `pid_max` of Linux.
    pub const PIDS_MAX: u32 = 16_384;
    /// Most tasks at once by default.
    pub const TASKS_MAX: u32 = 512;
    /// Size at which output is cut by default.
    pub const OUTPUT_LIMIT: Bytes = Bytes::from_gib(1);
    /// Most bytes of the results of a task by default.
    pub const RESULTS_MAX: Bytes = Bytes::from_gib(1);
    /// Most bytes of files in the cache of a node by default.
    pub const FILE_CACHE_MAX: Bytes = Bytes::from_gib(10);
    /// Memory for recent values by default: the full hour of 500 devices.
    pub const RECENT: Bytes = Bytes::from_mib(32);

    /// The default number of task slots that are reserved for jobs with GPUs: 64, and on a small
    /// node an eighth.
    #[must_use]
    pub fn reserved_gpu_tasks(tasks_max: u32) -> u32 {
        (tasks_max / 8).min(64)
    }

    /// The default number of a node's task slots that one user may have: four fifths.
    #[must_use]
    pub fn user_tasks_max(tasks_max: u32) -> u32 {
        (tasks_max - tasks_max.div_ceil(5)).max(1)
    }

    /// The default configuration, with this program as the one that forks shepherds.
    ///
    /// # Errors
    /// If this program's own path can't be found.
    pub fn new(state_dir: impl Into<PathBuf>, node: NodeName) -> io::Result<Self> {
        Ok(Self {
            state_dir: state_dir.into(),
            older_dirs: Vec::new(),
            node,
            address: String::new(),
            users: None,
            shepherd_exe: std::env::current_exe()?,
            api_socket: None,
            output_limit: Self::OUTPUT_LIMIT,
            stop_on_cut: false,
            pids_max: None,
            tasks_max: Self::TASKS_MAX,
            reserved_gpu_tasks: None,
            user_tasks_max: None,
            cpus: None,
            memory: None,
            ignore: Ignore::default(),
            unmanaged_grace: Millis::from_secs(5),
            isolate_gpus: true,
            container_engine: None,
            loan_deadline: Millis::from_secs(30),
            job_files: None,
            results_max: Self::RESULTS_MAX,
            file_cache_max: Self::FILE_CACHE_MAX,
            trace_context: None,
            recent: Self::RECENT,
        })
    }
}
