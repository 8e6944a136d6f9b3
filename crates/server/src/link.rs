//! What a server and an agent of its process are to each other.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use gpool_model::agent::{Order, Report};
use gpool_model::attach::{NotOpened, Opening};
use gpool_model::device::DeviceSample;
use gpool_model::job::BlobId;
use gpool_model::{DeviceUuid, TaskId};

/// A line to a task, for a caller's bytes.
#[derive(Debug)]
pub struct TaskLine {
    /// The line.
    pub socket: OwnedFd,
    /// Bytes that have arrived already.
    pub early: Vec<u8>,
}

/// Called with the result of opening a stream.
pub type LineAnswer = Box<dyn FnOnce(Result<TaskLine, NotOpened>) + Send>;

/// What an agent of this process is given to speak to its server.
pub struct AgentPorts {
    /// Takes a report.
    pub report: Box<dyn Fn(Report) + Send + Sync>,
    /// Gives the bytes of a blob.
    pub blob: ReadBlob,
}

/// Reads a blob whole.
pub type ReadBlob = Box<dyn Fn(&BlobId) -> std::io::Result<Vec<u8>> + Send + Sync>;

/// What the server holds of an agent of its process.
pub struct AgentLink {
    /// Tells it an order.
    pub order: Box<dyn Fn(Order) + Send>,
    /// Opens something towards a task; the answer may come later, or not at all.
    pub open: OpenLine,
    /// What each device did when it was last looked at.
    pub samples: Box<dyn Fn() -> BTreeMap<DeviceUuid, DeviceSample> + Send + Sync>,
    /// Stops it; what runs goes on.
    pub stop: Box<dyn FnOnce() + Send>,
}

/// Opens something towards a task.
pub type OpenLine = Box<dyn Fn(TaskId, Opening, LineAnswer) + Send + Sync>;

/// Asks an agent what each device did when it was last looked at.
pub(crate) type Samples = Box<dyn Fn() -> BTreeMap<DeviceUuid, DeviceSample> + Send + Sync>;

/// Requests to an agent beside the state machine.
pub(crate) struct AskAgent {
    pub open: OpenLine,
    pub samples: Samples,
}
