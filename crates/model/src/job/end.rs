//! The ends of jobs and of their tasks: outcome, cause, exit status and usage.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::exit::TakenBack;
use crate::id::JobId;
use crate::job::state::JobState;
use crate::launch::Lack;
use crate::objective::MetricValue;
use crate::rare::Rare;
use crate::unit::{Bytes, GpuTime, MilliGpu, Millis, Timestamp};

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// The outcome.
    pub outcome: Outcome,
    /// The cause, where the exit status does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EndCause>,
    /// Its exit status; for a gang, that of the task that failed first. `None` if it never ran or
    /// its exit is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// When its first task started, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When its last task ended.
    pub ended_at: Timestamp,
    /// The usage of all its tasks.
    pub usage: Usage,
    /// The allocations of its tasks, by rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<Allocation>,
    /// As [`Course::resized`](crate::job::Course::resized).
    #[serde(default, skip_serializing_if = "super::course::is_even")]
    pub resized: i64,
    /// Its ended steps, by their numbers.
    #[serde(default, skip_serializing_if = "Rare::is_usual")]
    pub steps: Rare<Vec<StepEnd>>,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// When its program started, if it did.
    pub started_at: Option<Timestamp>,
    /// When its program ended.
    pub ended_at: Timestamp,
    /// The exit status of its program; `None` if it did not start or its exit is unknown.
    pub exit: Option<ExitStatus>,
    /// The cause, where the exit status does not show it.
    pub cause: Option<EndCause>,
    /// Whether the server ended it.
    pub stopped: bool,
    /// Its usage.
    pub usage: Usage,
    /// The ended steps that were recorded in it.
    #[serde(default, skip_serializing_if = "Rare::is_usual")]
    pub steps: Rare<Vec<StepEnd>>,
}

/// An ended step: processes that one `srun` started in a job. `srun` measures it and runs as the
/// job's user, so that user can forge the values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    /// Its number, from 0 in starting order.
    pub number: u32,
    /// Its name: that of its program unless the user chose one.
    pub name: String,
    /// When it started.
    pub started_at: Timestamp,
    /// When its last process ended.
    pub ended_at: Timestamp,
    /// The highest exit code of its processes, as a shell reports it.
    pub exit_code: i32,
    /// Number of its processes.
    pub n_tasks: u32,
    /// The nodes that it ran on.
    pub nodes: Vec<String>,
    /// The usage of its processes.
    pub usage: Usage,
}

impl StepEnd {
    /// The file of ended steps in the folder of a run. Each `srun` appends a line of JSON.
    pub const FILE: &'static str = "ended-steps";
}

/// How a job ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Exit code 0.
    Succeeded,
    /// Another exit code, a signal, or a failed start.
    Failed,
    /// A user cancelled it, or its dependency failed.
    Cancelled,
    /// It reached its time limit or its deadline.
    TimedOut,
    /// It was running, and its end is unknown.
    Lost,
}

impl Outcome {
    /// The state of a job with this outcome.
    #[must_use]
    pub fn state(self) -> JobState {
        match self {
            Self::Succeeded => JobState::Succeeded,
            Self::Failed => JobState::Failed,
            Self::Cancelled => JobState::Cancelled,
            Self::TimedOut => JobState::TimedOut,
            Self::Lost => JobState::Lost,
        }
    }
}

/// The cause of an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The kernel killed it because it ran out of memory.
    Oom,
    /// It reached its time limit.
    TimeLimit,
    /// Its deadline passed, or it could no longer end by it.
    Deadline,
    /// A user cancelled it.
    Cancelled {
        /// The user.
        by: Arc<str>,
    },
    /// It could not be started.
    LaunchFailed {
        /// What failed, for people.
        why: String,
    },
    /// Its node lacks something that it needs. If the job was about to start, it starts on another
    /// node, or is held if no other node can run it.
    #[serde(alias = "path_missing")]
    NodeLacks(Lack),
    /// A job that it depends on ended in another way than required.
    DependencyFailed {
        /// The other job.
        job: JobId,
    },
    /// More elements of its array failed than allowed.
    TooManyFailed {
        /// The limit.
        most: u32,
    },
    /// It was evicted for another job.
    TakenBack {
        /// The reason.
        why: TakenBack,
        /// The job that got its devices.
        beneficiary: JobId,
    },
    /// A task of its gang ended without success.
    TaskFailed {
        /// The rank of the task.
        rank: u32,
    },
    /// A task of its gang was not launched because other processes use its devices.
    TaskRefused {
        /// The rank of the task.
        rank: u32,
    },
    /// The run of the job that it joined has ended.
    GangEnded {
        /// The job that it joined.
        job: JobId,
    },
    /// The node was rebooted while it ran.
    Rebooted,
    /// Its node was lost: server and agent did not hear each other until the lease was over, and
    /// the agent ended it then.
    NodeLost,
    /// Its shepherd was killed, and all its processes were ended. Earlier versions recorded no
    /// more.
    ShepherdLost,
    /// Its shepherd was killed, and a process of it may still run. Earlier versions recorded no
    /// more.
    ProcessesMayBeLeft,
    /// Its shepherd ended without a record of the task's end.
    ShepherdEnded {
        /// The process ID of the shepherd.
        shepherd: u32,
        /// How the shepherd ended; `None` if its nursery had ended before.
        by: Option<ExitStatus>,
        /// Whether a process of the task may still run.
        may_be_left: bool,
    },
    /// Its output reached a limit, and the administrator has such jobs stopped.
    OutputCut {
        /// The limit.
        cut: OutputCut,
    },
    /// It was paused or resumed, and the driver lost its GPU memory.
    GpuMemoryLost {
        /// The error, for people.
        why: String,
    },
    /// It kept memory above its request that another task needed for its own request.
    LoanCalledBack,
    /// The node does not know it.
    Vanished,
}

/// Why the output of a task is not stored any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputCut {
    /// One of its files reached the limit of the node.
    Limit {
        /// The limit.
        limit: Bytes,
    },
    /// The disk of the state folder is nearly full.
    DiskFull,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl ExitStatus {
    /// The exit code as a shell reports it: its own, or 128 + the signal.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// The resources that a task used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub cpu_user: Millis,
    /// CPU time in system mode.
    pub cpu_system: Millis,
    /// Largest resident memory of one process.
    pub memory_peak: Bytes,
    /// Largest memory of all its processes together, with cached files; for several tasks, that of
    /// the largest. `None` if its control group did not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_together: Option<Bytes>,
    /// Bytes read from block devices; `None` if its control group did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Bytes>,
    /// Bytes written to block devices; `None` if its control group did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Bytes>,
    /// The use of its GPUs; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuUsage>,
    /// The last value of the metric of its array's objective, which its program reported; of
    /// several tasks, that of the lowest rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<MetricValue>,
}

impl Usage {
    /// Returns the usage of two tasks together, in the order of their ranks.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        fn of_both<T>(one: Option<T>, other: Option<T>, plus: fn(T, T) -> T) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(plus(one, other)),
                (one, other) => one.or(other),
            }
        }
        Self {
            cpu_user: self.cpu_user.saturating_add(other.cpu_user),
            cpu_system: self.cpu_system.saturating_add(other.cpu_system),
            memory_peak: self.memory_peak.max(other.memory_peak),
            memory_peak_together: self.memory_peak_together.max(other.memory_peak_together),
            read: of_both(self.read, other.read, Bytes::saturating_add),
            written: of_both(self.written, other.written, Bytes::saturating_add),
            gpu: of_both(self.gpu, other.gpu, GpuUsage::plus),
            objective: self.objective.or(other.objective),
        }
    }
}

/// The use of a task's GPUs, as its agent measured it. A restarted agent begins anew, so the
/// measured time may be shorter than the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct GpuUsage {
    /// Largest memory on one device.
    pub memory_peak: Bytes,
    /// The most memory that it could have used on that device.
    pub memory_limit: Bytes,
    /// Time with running kernels, the sum over its devices; its own kernels on shared devices.
    pub busy: Millis,
    /// Time for which `busy` was measured, the sum over its devices.
    pub measured: Millis,
}

impl GpuUsage {
    fn plus(self, other: Self) -> Self {
        let most = if other.memory_peak > self.memory_peak { other } else { self };
        Self {
            busy: self.busy.saturating_add(other.busy),
            measured: self.measured.saturating_add(other.measured),
            ..most
        }
    }
}

/// The devices and run time of one job, or the sum for elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RunTotals {
    /// Allocated devices and fractions: each run counts again.
    pub n_devices: u64,
    /// Allocated GPUs times run time.
    pub gpu_time: GpuTime,
    /// Run time.
    pub ran: Millis,
}

impl RunTotals {
    pub(super) fn new(
        allocations: &[Allocation],
        started_at: Option<Timestamp>,
        until: Timestamp,
    ) -> Self {
        let ran = started_at.map_or(Millis::ZERO, |at| until.since(at));
        let slots = || allocations.iter().flat_map(|held| &held.slots);
        let charges = slots().map(|slot| slot.part.charge().get());
        let gpus = MilliGpu::new(charges.fold(0, u64::saturating_add));
        let n_devices = u64::try_from(slots().count()).unwrap_or(u64::MAX);
        Self { n_devices, gpu_time: GpuTime::of(gpus, ran), ran }
    }

    /// Adds the totals of another run.
    pub fn add(&mut self, other: Self) {
        self.n_devices = self.n_devices.saturating_add(other.n_devices);
        self.gpu_time = self.gpu_time.saturating_add(other.gpu_time);
        self.ran = self.ran.saturating_add(other.ran);
    }

    /// Whether they are all zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&JobEnd> for RunTotals {
    fn from(end: &JobEnd) -> Self {
        let totals = Self::new(&end.allocations, end.started_at, end.ended_at);
        Self { gpu_time: totals.gpu_time.corrected(end.resized), ..totals }
    }
}
