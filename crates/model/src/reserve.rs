//! What admins ask for when they keep devices for somebody or empty them, and who is affected.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::displace::Displace;
use crate::id::{JobId, NodeName, ReservationName};
use crate::reservation::{Counted, Reservation, Whom};
use crate::unit::{Millis, Timestamp};

/// A reservation as it was asked for: each field valid by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewReservation {
    /// Its name; `None` asks for the next free one.
    pub name: Option<ReservationName>,
    /// For whom.
    pub whom: Whom,
    /// What.
    pub ask: ReserveAsk,
    /// When.
    pub when: ReserveWhen,
    /// See [`Reservation::reason`].
    pub reason: Arc<str>,
}

/// What is to be reserved; one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ReserveAsk {
    /// So many devices, chosen by gpool.
    Counted(Counted),
    /// These devices.
    Devices {
        /// Each by its node and by index or UUID.
        devices: Vec<DeviceRef>,
    },
    /// Whole nodes.
    Nodes {
        /// Which.
        nodes: BTreeSet<NodeName>,
    },
    /// Every node that there is now.
    AllNodes,
}

/// A device as somebody named it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceRef {
    /// On which node.
    pub node: NodeName,
    /// Its index or UUID.
    pub device: String,
}

/// When something is to be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReserveWhen {
    /// From when on; `None` is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Until when, or for how long; `None` is until it is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ReserveEnd>,
    /// After how long it recurs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Millis>,
}

/// How the end of a reservation is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReserveEnd {
    /// At that moment.
    At(Timestamp),
    /// So long after it begins.
    After(Millis),
}

/// Changes to a reservation; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReservationPatch {
    /// For whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whom: Option<Whom>,
    /// What.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<ReserveAsk>,
    /// From when on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ReserveEnd>,
    /// After how long it recurs; nothing is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Millis>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// Whether something is done that affects the work of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Consent {
    /// Answer what would happen, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// What becomes of work that would still run; `None` does nothing if there is such work, or
    /// work that waits and would wait longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Displace>,
}

/// What is to be emptied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DrainTarget {
    /// Which node.
    pub node: NodeName,
    /// Which of its devices, by index or UUID; `None` is the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Whose work something touches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Affected {
    /// The moment by which what runs should be gone.
    pub by: Option<Timestamp>,
    /// What runs there and ends before that.
    pub in_time: Vec<RunningThere>,
    /// What runs there and does not, or nobody knows when.
    pub too_long: Vec<RunningThere>,
    /// What waits and may no longer start there, first in order first; at most
    /// [`Affected::WAITING_MAX`].
    pub waiting: Vec<KeptWaiting>,
    /// How many wait in all that may no longer start there.
    pub n_waiting: u64,
}

impl Affected {
    /// More jobs that wait are not named one by one.
    pub const WAITING_MAX: usize = 20;

    /// Whether nobody has to be asked.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.too_long.is_empty() && self.n_waiting == 0
    }
}

/// A job that runs where it should be gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningThere {
    /// Which.
    pub job: JobId,
    /// What it is called.
    pub name: Arc<str>,
    /// Whose it is.
    pub user: Arc<str>,
    /// On which node.
    pub node: NodeName,
    /// When it ends at the latest, or is likely to; `None` if nobody knows.
    pub ends: Option<Timestamp>,
    /// Whether that is its time limit; else it follows from how long like jobs ran.
    pub by_limit: bool,
}

/// A job that waits and may no longer start somewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWaiting {
    /// Which.
    pub job: JobId,
    /// What it is called.
    pub name: Arc<str>,
    /// Whose it is.
    pub user: Arc<str>,
}

/// What came of asking for a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReserveOutcome {
    /// As it is, or would be.
    pub reservation: Reservation,
    /// Whom it touches.
    pub affected: Affected,
    /// Whether it was done.
    pub done: bool,
}

/// What came of asking for a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainOutcome {
    /// What is, or would be, drained.
    pub targets: Vec<DrainTarget>,
    /// Whom it touches.
    pub affected: Affected,
    /// Whether it was done.
    pub done: bool,
}
