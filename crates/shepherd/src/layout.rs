//! The paths of the files of an agent and its tasks below the state directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gpool_model::id::{JobId, NodeName, TaskId};
use gpool_model::output::ORDER_FILE;
use gpool_output::{file_name, job_folder, run_folder};

/// The file in a task's folder with the device memory that it may use, written once it differs from
/// the environment's.
pub const GPU_MEMORY: &str = "gpu-memory";
/// The file of a task with the nodes of a job with a launcher, in the folder of a run.
pub const HOST_FILE: &str = "hostfile";

/// Returns the state folders of the agents of a server: its own, used on a single-node cluster, and
/// those of other nodes below `nodes`, by name.
#[must_use]
pub fn folders(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state.join("nodes")).into_iter().flatten().flatten();
    let is_node =
        |name: &OsString| name.to_str().is_some_and(|name| NodeName::new(name).folder().is_some());
    let names = entries.map(|entry| entry.file_name()).filter(is_node);
    let mut folders: Vec<PathBuf> = names.map(|name| state.join("nodes").join(name)).collect();
    folders.sort_unstable();
    folders.insert(0, state.to_owned());
    folders
}

/// The files of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    state: PathBuf,
}

impl Layout {
    /// The files below a state directory.
    #[must_use]
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { state: state.into() }
    }

    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The name of the socket in the state directory that shepherds use to find a new agent.
    pub const SOCKET: &str = "agent.sock";

    /// Locked by the one agent that may use the directory.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.state.join("agent.lock")
    }

    /// Locked by an agent, its nursery, and each shepherd until it has claimed its task.
    #[must_use]
    pub fn launching(&self) -> PathBuf {
        self.state.join("launching.lock")
    }

    /// Claims of tasks without an acknowledged end: one file for each task.
    #[must_use]
    pub fn tasks(&self) -> PathBuf {
        self.state.join("tasks")
    }

    /// The lists of acknowledged tasks, one task a line: the present file and the one before.
    #[must_use]
    pub fn done(&self) -> [PathBuf; 2] {
        [self.state.join("tasks-done"), self.state.join("tasks-done.old")]
    }

    #[must_use]
    pub fn claim(&self, task: TaskId) -> PathBuf {
        self.tasks().join(claim_name(task))
    }

    /// Where a task's claim is kept after its end is durable.
    #[must_use]
    pub fn record(&self, task: TaskId) -> PathBuf {
        let job = self.state.join(job_folder(task.job));
        job.join(format!("{}.{}", task.attempt, file_name("claim", task)))
    }

    /// The working folders that the agent makes for tasks, with a record beside each.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.state.join("work")
    }

    /// The working folder of a task. Its name has no characters with a meaning elsewhere.
    #[must_use]
    pub fn work_folder(&self, task: TaskId) -> PathBuf {
        self.work().join(format!("{}-{}-{}", task.job, task.attempt, task.rank))
    }

    /// The record of a working folder.
    #[must_use]
    pub fn work_record(&self, task: TaskId) -> PathBuf {
        self.work().join(format!("{}-{}-{}.json", task.job, task.attempt, task.rank))
    }

    /// The files of working folders that this node has already.
    #[must_use]
    pub fn file_cache(&self) -> PathBuf {
        self.state.join("file-cache")
    }

    /// The memory ledgers of running tasks: a folder for each.
    #[must_use]
    pub fn ledgers(&self) -> PathBuf {
        self.state.join("ledgers")
    }

    /// The memory ledger of a task.
    #[must_use]
    pub fn ledger(&self, task: TaskId) -> PathBuf {
        self.ledgers().join(claim_name(task))
    }

    /// The secrets of running tasks and pulls: a folder for each.
    #[must_use]
    pub fn secrets(&self) -> PathBuf {
        self.state.join("task-secrets")
    }

    /// Locked while folders of secrets are made or removed.
    #[must_use]
    pub fn secrets_lock(&self) -> PathBuf {
        self.state.join("task-secrets.lock")
    }

    /// The secrets of a task.
    #[must_use]
    pub fn secrets_of(&self, task: TaskId) -> PathBuf {
        self.secrets().join(claim_name(task))
    }

    /// The record whether the driver restores memory on other GPUs.
    #[must_use]
    pub fn gpu_moves(&self) -> PathBuf {
        self.state.join("gpu-moves")
    }

    /// The libraries in front of the driver: a folder for each version of them.
    #[must_use]
    pub fn shims(&self) -> PathBuf {
        self.state.join("shim")
    }

    /// One version of the libraries in front of the driver.
    #[must_use]
    pub fn shim(&self, version: u64) -> PathBuf {
        self.shims().join(format!("{version:016x}"))
    }

    /// The folder of one run of a job, with its output and script; the job may use it too.
    #[must_use]
    pub fn attempt(&self, task: TaskId) -> PathBuf {
        self.state.join(run_folder(task))
    }

    /// A task's standard output, unless the user named a file.
    #[must_use]
    pub fn stdout(&self, task: TaskId) -> PathBuf {
        self.attempt(task).join(file_name("stdout", task))
    }

    /// A task's standard error, unless the user named a file.
    #[must_use]
    pub fn stderr(&self, task: TaskId) -> PathBuf {
        self.attempt(task).join(file_name("stderr", task))
    }

    /// The file that records how the two streams interleave.
    #[must_use]
    pub fn order(&self, task: TaskId) -> PathBuf {
        self.attempt(task).join(file_name(ORDER_FILE, task))
    }
}

/// The name of a task's claim, and of its control group.
pub fn claim_name(task: TaskId) -> String {
    format!("{}#{}-{}", task.job, task.attempt, task.rank)
}

/// The task that a claim belongs to; `None` if the file is no claim.
pub fn claimed_task(name: &str) -> Option<TaskId> {
    let (run, rank) = name.rsplit_once('-')?;
    let task: TaskId = format!("{run}/{rank}").parse().ok()?;
    (claim_name(task) == name).then_some(task)
}

/// The task that an archived claim of a job belongs to; `None` if the file is no claim.
pub fn recorded_task(job: JobId, name: &str) -> Option<TaskId> {
    let (attempt, rest) = name.split_once('.')?;
    let rank = match rest.strip_prefix("claim")? {
        "" => "0",
        rank => rank.strip_prefix('-')?,
    };
    let task: TaskId = format!("{job}#{attempt}/{rank}").parse().ok()?;
    (format!("{}.{}", task.attempt, file_name("claim", task)) == name).then_some(task)
}
