//! Questions about the files of jobs on a node: their output, and what its agents have launched.

use std::collections::BTreeSet;

use gpool_model::id::{Generation, JobId, JobNumber, TaskId};
use gpool_model::output::OutputStream;
use gpool_model::unit::Timestamp;
use serde::{Deserialize, Serialize};

/// A question about the files of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileQuestion {
    Output(OutputRequest),
    /// Name the output files of a task.
    OutputPaths {
        task: TaskId,
    },
    /// List the jobs with files that have not changed since a time.
    OldJobs {
        before: Timestamp,
    },
    /// Remove all files of some jobs.
    RemoveJobs {
        jobs: Vec<JobId>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAnswer {
    Output(OutputPart),
    /// To [`FileQuestion::OutputPaths`]: those that exist.
    OutputPaths {
        stdout: Option<String>,
        stderr: Option<String>,
    },
    /// To [`FileQuestion::OldJobs`], in order.
    OldJobs(Vec<JobId>),
    /// To [`FileQuestion::RemoveJobs`]: the number of jobs that had files.
    RemovedJobs(u64),
}

/// A request for a part of a task's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRequest {
    pub task: TaskId,
    /// One stream, or both in the order of their writing.
    pub streams: Vec<OutputStream>,
    /// The user that the files must belong to; `None` is the owner of the run's folder.
    pub owner: Option<u32>,
    pub start: OutputStart,
    /// The time of the last output at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl OutputRequest {
    /// Whether both are for the same bytes, from whatever position on.
    #[must_use]
    pub fn is_of_same_output(&self, other: &Self) -> bool {
        (self.task, &self.streams, self.owner) == (other.task, &other.streams, other.owner)
    }
}

/// The first byte of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStart {
    /// At this position, or at the end if there are fewer bytes.
    Byte(u64),
    /// That of the last lines, within the last 64 MiB.
    LastLines(u64),
}

/// A part of a task's output, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPart {
    /// Some bytes; none at the end.
    Bytes {
        /// The position of the first one.
        offset: u64,
        /// The body of the message.
        #[serde(skip)]
        bytes: Vec<u8>,
    },
    /// The last output is older than requested.
    TooOld,
    /// The task has not written anything.
    Unwritten,
    /// The task has no folder: it has not run here, or its files were removed.
    Missing,
    /// A file is not a regular file of the owner.
    NotRegular,
    Unreadable {
        why: String,
    },
}

/// Jobs and tasks that agents launched in the state folders of one agent, by its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// The job with the highest number, and the file that shows it.
    pub newest: Option<(JobNumber, String)>,
    /// Tasks of the requested jobs.
    pub tasks: Vec<LaunchedTask>,
    /// Jobs with a running task.
    pub running: BTreeSet<JobId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchedTask {
    pub task: TaskId,
    /// That of its last order.
    pub generation: Generation,
    /// The file that shows it.
    pub path: String,
}
