//! Requests of admins to reserve or drain devices, and the affected jobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::displace::Displace;
use crate::id::{JobId, NodeName, ReservationName};
use crate::reservation::{Beneficiary, DeviceRequest, Reservation};
use crate::unit::{Millis, Timestamp};

/// A requested reservation: each field valid by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewReservation {
    /// Its name; `None` asks for the next free one.
    pub name: Option<ReservationName>,
    /// The beneficiary.
    #[serde(rename = "whom")]
    pub beneficiary: Beneficiary,
    /// The devices or nodes.
    pub ask: ReserveAsk,
    /// The time.
    pub when: ReserveWhen,
    /// See [`Reservation::reason`].
    pub reason: Arc<str>,
}

/// The devices or nodes to reserve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReserveAsk {
    /// A number of devices, chosen by gpool.
    Counted(DeviceRequest),
    /// These devices.
    Devices {
        /// Each by its node and its index or UUID.
        devices: Vec<DeviceRef>,
    },
    /// Whole nodes.
    Nodes {
        /// The nodes.
        nodes: BTreeSet<NodeName>,
    },
    /// Every present node.
    AllNodes,
}

/// A device as an admin named it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceRef {
    /// The node.
    pub node: NodeName,
    /// Its index or UUID.
    pub device: String,
}

/// The time of a requested reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReserveWhen {
    /// The beginning; `None` is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// The end; `None` is until an admin ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ReserveEnd>,
    /// The period of a recurring one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Millis>,
}

/// The end of a requested reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReserveEnd {
    /// At this time.
    At(Timestamp),
    /// This long after its beginning.
    After(Millis),
}

/// Changes to a reservation; a field with `None` stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReservationPatch {
    /// The beneficiary.
    #[serde(default, rename = "whom", skip_serializing_if = "Option::is_none")]
    pub beneficiary: Option<Beneficiary>,
    /// The devices or nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<ReserveAsk>,
    /// The beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// The end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ReserveEnd>,
    /// The period; zero ends the recurrence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Millis>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// Whether an action that affects jobs of others goes ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Consent {
    /// Answer with the result and change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// What happens to jobs that would still run; `None` refuses the action if there are such jobs,
    /// or waiting jobs that would wait longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Displace>,
}

/// A node or device to drain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DrainTarget {
    /// The node.
    pub node: NodeName,
    /// The device, by index or UUID; `None` is the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// The jobs that an action affects.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Affected {
    /// The time at which running jobs should have left.
    pub by: Option<Timestamp>,
    /// Running jobs that end before then.
    pub in_time: Vec<RunningThere>,
    /// Running jobs that do not, or whose end is unknown.
    pub too_long: Vec<RunningThere>,
    /// Waiting jobs that may no longer start there, in queue order; at most
    /// [`Affected::WAITING_MAX`].
    pub waiting: Vec<KeptWaiting>,
    /// The number of all waiting jobs that may no longer start there.
    pub n_waiting: u64,
}

impl Affected {
    /// The most waiting jobs that are listed.
    pub const WAITING_MAX: usize = 20;

    /// Whether the action affects no job.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.too_long.is_empty() && self.n_waiting == 0
    }
}

/// A running job that should leave its node or devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningThere {
    /// The job.
    pub job: JobId,
    /// The name of the job.
    pub name: Arc<str>,
    /// The user of the job.
    pub user: Arc<str>,
    /// The node.
    pub node: NodeName,
    /// The latest or likely end; `None` if unknown.
    pub ends: Option<Timestamp>,
    /// Whether the end is the time limit; otherwise it is predicted from similar jobs.
    pub by_limit: bool,
}

/// A waiting job that may no longer start on a node or devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWaiting {
    /// The job.
    pub job: JobId,
    /// The name of the job.
    pub name: Arc<str>,
    /// The user of the job.
    pub user: Arc<str>,
}

/// The result of a request for a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReserveOutcome {
    /// The reservation, real or dry run.
    pub reservation: Reservation,
    /// The jobs that it affects.
    pub affected: Affected,
    /// Whether the change was made.
    pub done: bool,
}

/// The result of a request for a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainOutcome {
    /// The drained nodes and devices, real or dry run.
    pub targets: Vec<DrainTarget>,
    /// The jobs that it affects.
    pub affected: Affected,
    /// Whether the change was made.
    pub done: bool,
}
