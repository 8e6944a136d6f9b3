//! Values that agents push once a second. No decision of the scheduler depends on them, but on the
//! message: a node without any gets no new jobs.

use std::collections::BTreeMap;

use gpool_model::agent::LiveUsage;
use gpool_model::device::{DeviceSample, Lending};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// Values of a node that have changed since the last message; there may be none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// New samples by device.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub samples: BTreeMap<DeviceUuid, DeviceSample>,
    /// All loans of memory by device, if one has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lending: Option<BTreeMap<DeviceUuid, Lending>>,
    /// The use of some running tasks. The agent sends that of each task in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<(TaskId, LiveUsage)>,
    /// A beat of an agent with a lease: the time of sending, by the agent's clock, in milliseconds
    /// since its machine was booted. The server renews the lease by [`Renewed`].
    ///
    /// [`Renewed`]: crate::ToAgent::Renewed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beat: Option<u64>,
    /// The agent itself, with each beat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentProcess>,
}

/// The process of an agent, as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProcess {
    /// The time by the clock of its machine.
    pub clock: Timestamp,
    /// CPU time since it was started.
    pub cpu: Millis,
    /// Memory that it occupies.
    pub memory: Bytes,
}
