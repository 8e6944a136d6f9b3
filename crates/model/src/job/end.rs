//! The ends of jobs and of their tasks: outcome, cause, exit status and usage.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::exit::TakenBack;
use crate::id::JobId;
use crate::job::state::JobState;
use crate::unit::{Bytes, GpuTime, MilliGpu, Millis, Timestamp};

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// In one word.
    pub outcome: Outcome,
    /// What stands behind the word, where the exit status does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EndCause>,
    /// How it exited, a gang as the task did that failed first; `None` if it never ran or nobody
    /// saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// When its first task started, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When its last task ended.
    pub ended_at: Timestamp,
    /// What its tasks used together.
    pub usage: Usage,
    /// What its tasks held, by rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<Allocation>,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// When its program started, if it did.
    pub started_at: Option<Timestamp>,
    /// When its program ended.
    pub ended_at: Timestamp,
    /// How its program exited; `None` if it did not start or nobody saw.
    pub exit: Option<ExitStatus>,
    /// What stands behind it, where the exit status does not say.
    pub cause: Option<EndCause>,
    /// Whether it was ended because the server said so.
    pub stopped: bool,
    /// What it used.
    pub usage: Usage,
}

/// How a job ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Exit code 0.
    Succeeded,
    /// Another exit code, a signal, or it could not be started.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// Its time limit or its deadline ended it.
    TimedOut,
    /// It was running and nobody can say how it ended.
    Lost,
}

impl Outcome {
    /// The state of a job that ended so.
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

/// What stands behind an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum EndCause {
    /// The kernel ended it for its memory.
    Oom,
    /// It ran for its whole time limit.
    TimeLimit,
    /// Its deadline came, or could not be kept any more.
    Deadline,
    /// Somebody cancelled it.
    Cancelled {
        /// Who.
        by: Arc<str>,
    },
    /// It could not be started.
    LaunchFailed {
        /// What failed, for people.
        why: String,
    },
    /// A path that it needs was not there. A job that was to start is held for it.
    PathMissing {
        /// Which.
        path: String,
    },
    /// A job that it waited for ended otherwise than was asked.
    DependencyFailed {
        /// Which.
        job: JobId,
    },
    /// More elements of its array failed than may.
    TooManyFailed {
        /// How many may.
        most: u32,
    },
    /// What it held was taken back for another job.
    TakenBack {
        /// Why.
        why: TakenBack,
        /// For which job.
        beneficiary: JobId,
    },
    /// A task of its gang ended and had not succeeded.
    TaskFailed {
        /// Which.
        rank: u32,
    },
    /// A task of its gang was not launched, because others use its devices.
    TaskRefused {
        /// Which.
        rank: u32,
    },
    /// The run of the job that it joined is over.
    GangEnded {
        /// Which job.
        job: JobId,
    },
    /// The machine was restarted while it ran.
    Rebooted,
    /// The process that watched it was killed, and all that it had started was ended.
    ShepherdLost,
    /// The process that watched it was killed, and a process that it had started may live.
    ProcessesMayBeLeft,
    /// The node has no trace of it.
    Vanished,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// By itself, with that code.
    Code(i32),
    /// By that signal.
    Signal(i32),
}

impl ExitStatus {
    /// The code as a shell gives it: its own, or 128 + the signal.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// What a task used, as the kernel counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub cpu_user: Millis,
    /// CPU time in the kernel.
    pub cpu_system: Millis,
    /// Most memory of one process at once.
    pub memory_peak: Bytes,
}

/// The devices and the run time of one job, or of the elements of an array together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RunTotals {
    /// Devices, or parts of them, that were allocated: once for each run.
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

    /// Adds another run.
    pub fn add(&mut self, other: Self) {
        self.n_devices = self.n_devices.saturating_add(other.n_devices);
        self.gpu_time = self.gpu_time.saturating_add(other.gpu_time);
        self.ran = self.ran.saturating_add(other.ran);
    }

    /// Whether nothing ran and nothing was allocated.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&JobEnd> for RunTotals {
    fn from(end: &JobEnd) -> Self {
        Self::new(&end.allocations, end.started_at, end.ended_at)
    }
}
