//! The interface between a server and an agent in its process.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use gpool_model::agent::{LiveUsage, Order, Report};
use gpool_model::attach::{NotOpened, Opening};
use gpool_model::device::{DeviceSample, Lending};
use gpool_model::job::BlobId;
use gpool_model::mig_layout::{MigChange, MigError, MigReport};
use gpool_model::{DeviceUuid, JobId, TaskId, Timestamp};
use gpool_wire::recent::{DevicePoint, TaskMetric};

/// A stream to a task.
#[derive(Debug)]
pub struct TaskStream {
    /// The socket of the stream.
    pub socket: OwnedFd,
    /// Bytes that have already arrived.
    pub early: Vec<u8>,
}

/// Called with the result of opening a stream.
pub type StreamAnswer = Box<dyn FnOnce(Result<TaskStream, NotOpened>) + Send>;

/// The agent's functions for calling its server.
pub struct AgentPorts {
    /// Receives a report.
    pub report: Box<dyn Fn(Report) + Send + Sync>,
    /// Returns the content of a blob.
    pub blob: ReadBlob,
}

/// Reads a whole blob.
pub type ReadBlob = Box<dyn Fn(&BlobId) -> std::io::Result<Vec<u8>> + Send + Sync>;

/// The server's functions for calling an agent of its process.
pub struct AgentLink {
    /// Sends an order to the agent.
    pub order: Box<dyn Fn(Order) + Send>,
    /// Opens a stream to a task. The answer may come later, or never.
    pub open: OpenLine,
    /// Lists the node's MIG instances, after a change if there is one.
    pub divide: Divide,
    /// Returns the last sample of each device.
    pub samples: Box<dyn Fn() -> BTreeMap<DeviceUuid, DeviceSample> + Send + Sync>,
    /// Returns the loans of memory on each device.
    pub lending: Loans,
    /// Returns what a running task has used so far.
    pub usage: UsageOf,
    /// Values of the last hour.
    pub recent: Recent,
    /// Stops the agent. Running jobs continue.
    pub stop: Box<dyn FnOnce() + Send>,
}

/// Opens a stream to a task.
pub type OpenLine = Box<dyn Fn(TaskId, Opening, StreamAnswer) + Send + Sync>;

/// Called with the MIG instances of a node.
pub type DivideAnswer = Box<dyn FnOnce(Result<MigReport, MigError>) + Send>;

/// Lists MIG instances, after a change if there is one. The answer may come later, or never.
pub type Divide = Box<dyn Fn(Option<MigChange>, DivideAnswer) + Send + Sync>;

/// Returns the last sample of each device from an agent.
pub(crate) type Samples = Box<dyn Fn() -> BTreeMap<DeviceUuid, DeviceSample> + Send + Sync>;

/// Returns the loans of memory on each device of an agent.
pub type Loans = Box<dyn Fn() -> BTreeMap<DeviceUuid, Lending> + Send + Sync>;

/// Returns what a running task of an agent has used so far.
pub type UsageOf = Box<dyn Fn(TaskId) -> LiveUsage + Send + Sync>;

/// Returns the samples of a device from a time on.
pub type PointsOf = Box<dyn Fn(&DeviceUuid, Timestamp) -> Vec<DevicePoint> + Send + Sync>;

/// Returns the metrics that the tasks of a job, or of all jobs, reported from a time on.
pub type MetricsOf = Box<dyn Fn(Option<JobId>, Timestamp) -> Vec<TaskMetric> + Send + Sync>;

/// The functions of an agent for values of the last hour in full.
pub struct Recent {
    /// The samples of devices.
    pub device: PointsOf,
    /// The metrics that tasks report.
    pub metrics: MetricsOf,
}

/// Functions of an agent that bypass the state machine.
pub(crate) struct AskAgent {
    pub open: OpenLine,
    pub divide: Divide,
    pub samples: Samples,
    pub lending: Loans,
    pub usage: UsageOf,
    pub recent: Recent,
}
