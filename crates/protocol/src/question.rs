//! Questions of a server to an agent. They concern nothing that the scheduler decides on.

use std::collections::BTreeSet;

use gpool_model::attach::{NotOpened, Opening};
use gpool_model::id::{DeviceUuid, JobId, TaskId};
use gpool_model::mig_layout::{MigChange, MigError, MigReport};
use gpool_model::unit::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files::{FileAnswer, FileQuestion, Launched};
use crate::recent::{DevicePoint, TaskMetric};

/// The id of a question: unique among the questions of one server to one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuestionId(pub u64);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Open a stream to a running task. The agent opens a further connection with the id of this
    /// question, or answers [`Answer::NotOpened`].
    Stream { task: TaskId, opening: Opening },
    /// List the MIG instances of the node, after a change if there is one.
    MigInstances {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<MigChange>,
    },
    /// The samples of a device in the last hour, from a time on.
    DevicePoints { device: DeviceUuid, since: Timestamp },
    /// The metrics that tasks reported in the last hour, from a time on.
    Metrics {
        /// The job of the tasks; all jobs if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<JobId>,
        since: Timestamp,
    },
    /// Read, list or remove files of jobs.
    Files(FileQuestion),
    /// List the launched tasks of some jobs, and the newest job of all.
    Launched { jobs: BTreeSet<JobId> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Question::Stream`]: why there is none.
    NotOpened(NotOpened),
    MigInstances(MigReport),
    /// To [`Question::MigInstances`]: why nothing was changed.
    MigRefused(MigError),
    /// To [`Question::DevicePoints`], oldest first.
    DevicePoints(Vec<DevicePoint>),
    /// To [`Question::Metrics`], by task and name.
    Metrics(Vec<TaskMetric>),
    Files(FileAnswer),
    Launched(Launched),
}
