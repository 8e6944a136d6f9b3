//! Reservations, maintenance windows and drains in the API, and the jobs that they affect.

use gpool_model::{Millis, NodeName, Timestamp};
use gpool_texts::words::beneficiary_words;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Time;

/// A reservation: devices or nodes set aside for a time. Without a beneficiary, it is a maintenance
/// window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    /// Name of the reservation.
    pub name: String,
    /// `reservation`, or `maintenance` without a beneficiary.
    pub kind: String,
    /// `active`, or `planned` before it begins.
    pub state: String,
    /// Kind of beneficiary: `user`, `project`, `job` or `nobody` (none).
    #[serde(rename = "for")]
    pub beneficiary_kind: String,
    /// Name of the user or project, or ID of the job.
    pub beneficiary: Option<String>,
    /// Start time; for a recurring reservation, of the current or next occurrence.
    pub from: Time,
    /// End time of the current or next occurrence. `null` if it lasts until released.
    pub until: Option<Time>,
    /// Interval of a recurring reservation in seconds. `null` if it does not recur.
    pub every: Option<f64>,
    /// Request that selected the devices. `null` if the devices were named.
    pub gpus_asked: Option<String>,
    /// Reserved single devices.
    pub gpus: Vec<ReservedGpu>,
    /// Reserved whole nodes.
    pub nodes: Vec<String>,
    /// What happens to other running jobs at the start: `let_finish`, `requeue` or `cancel`.
    pub at_begin: String,
    /// Reason.
    pub reason: String,
    /// Admin that created the reservation.
    pub made_by: String,
    /// Time of creation.
    pub made_at: Time,
    /// Differences from the request, one per line: lost and unusable devices.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A reserved device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservedGpu {
    /// Name of the node.
    pub node: String,
    /// Index that the driver assigns. `null` if the node no longer has the device.
    pub index: Option<u32>,
    /// UUID that the driver assigns.
    pub uuid: String,
}

/// A reservation, as part of a node or device that it reserves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservedHere {
    /// Name of the reservation.
    pub name: String,
    /// Kind of beneficiary: `user`, `project`, `job` or `nobody` (none).
    #[serde(rename = "for")]
    pub beneficiary_kind: String,
    /// Name of the user or project, or ID of the job.
    pub beneficiary: Option<String>,
    /// Whether the reservation is active.
    pub active: bool,
    /// Start time.
    pub from: Time,
    /// End time, if known.
    pub until: Option<Time>,
}

impl ReservedHere {
    /// Returns a reservation at one time, as part of a node or device.
    #[must_use]
    pub fn new(it: &gpool_model::Reservation, now: Timestamp) -> Self {
        let window = it.occurrence(now).unwrap_or(it.window);
        let (whom, beneficiary) = beneficiary_words(&it.beneficiary);
        Self {
            name: it.name.to_string(),
            beneficiary_kind: whom.to_owned(),
            beneficiary,
            active: window.holds(now),
            from: Time(window.from),
            until: window.until.map(Time),
        }
    }
}

/// The jobs that a reservation or drain affects.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Affected {
    /// Deadline for the running jobs to end. `null` if there is none.
    pub by: Option<Time>,
    /// Running jobs that end in time.
    pub in_time: Vec<RunningThere>,
    /// Running jobs that do not end in time, or have no known end.
    pub too_long: Vec<RunningThere>,
    /// Waiting jobs that can no longer start there; the first of them.
    pub waiting: Vec<KeptWaiting>,
    /// Total number of such waiting jobs.
    pub n_waiting: u64,
}

/// A running job that a reservation or drain affects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningThere {
    /// ID of the job.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// User that owns the job.
    pub user: String,
    /// Name of the node.
    pub node: String,
    /// Latest or predicted end time. `null` if unknown.
    pub ends: Option<Time>,
    /// Source of `ends`: `limit` or `predicted`.
    pub basis: Option<String>,
}

/// A waiting job that can no longer start on some nodes or devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeptWaiting {
    /// ID of the job.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// User that owns the job.
    pub user: String,
    /// Predicted delay of the start in seconds. `null` if unknown.
    pub later_s: Option<u64>,
}

impl Eq for KeptWaiting {}

/// The result of a request for a reservation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReserveAnswer {
    /// The reservation, or the reservation that a dry run would create.
    pub reservation: Reservation,
    /// Affected jobs.
    pub affected: Affected,
    /// Whether the request was applied.
    pub done: bool,
}

/// The result of a request for a drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainAnswer {
    /// Drained nodes and devices: `lab2`, `lab1:0`.
    pub targets: Vec<String>,
    /// Affected jobs.
    pub affected: Affected,
    /// Whether the request was applied.
    pub done: bool,
}

/// The drain of a node or device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drain {
    /// Deadline for the running jobs to end.
    pub by: Option<Time>,
    /// What happens to jobs that still run at the deadline.
    pub at_deadline: String,
    /// Reason.
    pub reason: String,
    /// Admin that requested the drain.
    pub who: String,
    /// Time of the request.
    pub since: Time,
}

impl From<&gpool_model::Drain> for Drain {
    fn from(drain: &gpool_model::Drain) -> Self {
        Self {
            by: drain.by.map(Time),
            at_deadline: drain.at_deadline.to_string(),
            reason: drain.reason.to_string(),
            who: drain.who.to_string(),
            since: Time(drain.since),
        }
    }
}

impl From<&gpool_model::Affected> for Affected {
    fn from(affected: &gpool_model::Affected) -> Self {
        let running = |there: &gpool_model::reserve::RunningThere| RunningThere {
            id: there.job.to_string(),
            name: there.name.to_string(),
            user: there.user.to_string(),
            node: there.node.to_string(),
            ends: there.ends.map(Time),
            basis: there.ends.map(|_| {
                let word = if there.by_limit { "limit" } else { "predicted" };
                word.to_owned()
            }),
        };
        Self {
            by: affected.by.map(Time),
            in_time: affected.in_time.iter().map(running).collect(),
            too_long: affected.too_long.iter().map(running).collect(),
            waiting: (affected.waiting.iter())
                .map(|kept| KeptWaiting {
                    id: kept.job.to_string(),
                    name: kept.name.to_string(),
                    user: kept.user.to_string(),
                    later_s: None,
                })
                .collect(),
            n_waiting: affected.n_waiting,
        }
    }
}

/// Returns the index of a device on its node, and its fault.
type FindDevice<'a> =
    dyn Fn(&NodeName, &gpool_model::DeviceUuid) -> (Option<u32>, Option<String>) + 'a;

impl Reservation {
    /// Returns a reservation at one time; `find` returns the index and fault of a device.
    #[must_use]
    pub fn new(it: &gpool_model::Reservation, now: Timestamp, find: &FindDevice<'_>) -> Self {
        let window = it.occurrence(now).unwrap_or(it.window);
        let (whom, beneficiary) = beneficiary_words(&it.beneficiary);
        let mut gpus = Vec::new();
        let mut warnings = Vec::new();
        for (node, uuids) in &it.what.devices {
            for uuid in uuids {
                let (index, wrong) = find(node, uuid);
                if let Some(wrong) = wrong {
                    let what = index.map_or_else(|| uuid.to_string(), |index| index.to_string());
                    warnings.push(format!("GPU {what} of {node} {wrong}"));
                }
                let (node, uuid) = (node.to_string(), uuid.to_string());
                gpus.push(ReservedGpu { node, index, uuid });
            }
        }
        gpus.sort_by(|one, other| (&one.node, one.index).cmp(&(&other.node, other.index)));
        Self {
            name: it.name.to_string(),
            kind: if it.is_maintenance() { "maintenance" } else { "reservation" }.to_owned(),
            state: if it.is_active(now) { "active" } else { "planned" }.to_owned(),
            beneficiary_kind: whom.to_owned(),
            beneficiary,
            from: Time(window.from),
            until: window.until.map(Time),
            every: it.every.map(seconds),
            gpus_asked: it.what.counted.as_ref().map(|counted| counted.gpus.to_string()),
            gpus,
            nodes: it.what.nodes.iter().map(ToString::to_string).collect(),
            at_begin: it.at_begin.to_string(),
            reason: it.reason.to_string(),
            made_by: it.made_by.to_string(),
            made_at: Time(it.made_at),
            warnings,
        }
    }
}

fn seconds(length: Millis) -> f64 {
    // No stored span is longer than ten years.
    f64::from(u32::try_from(length.get() / 1000).unwrap_or(u32::MAX))
}
