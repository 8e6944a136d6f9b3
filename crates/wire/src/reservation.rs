//! Reservations, maintenance windows and drains as the API shows them, and whose work they touch.

use gpool_model::{Millis, NodeName, Timestamp, Whom};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Time;

/// Devices or nodes that are kept for somebody, or for nobody, for a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// `reservation`, or `maintenance` where it is for nobody.
    pub kind: String,
    /// `active`, or `planned` while it does not hold.
    pub state: String,
    /// For whom: `user`, `project`, `job` or `nobody`.
    #[serde(rename = "for")]
    pub whom: String,
    /// Which user, project or job.
    pub beneficiary: Option<String>,
    /// When it began or begins; of a recurring one, this time or the next.
    pub from: Time,
    /// When it ends, this time or the next; `null` until it is released.
    pub until: Option<Time>,
    /// Seconds after which it recurs; `null`: once.
    pub every: Option<f64>,
    /// The request by which its devices were chosen; `null` where they were named.
    pub gpus_asked: Option<String>,
    /// Single devices that are kept.
    pub gpus: Vec<ReservedGpu>,
    /// Whole nodes that are kept.
    pub nodes: Vec<String>,
    /// What becomes of work of others that runs there when it begins: `let_finish`, `requeue`,
    /// `cancel`.
    pub at_begin: String,
    /// Why.
    pub reason: String,
    /// The admin who made it.
    pub made_by: String,
    /// When it was made.
    pub made_at: Time,
    /// What is not as it was asked for, a line each: devices that are lost or can't be used.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A device that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservedGpu {
    /// Of which node.
    pub node: String,
    /// The driver's index; `null` if the node no longer has it.
    pub index: Option<u32>,
    /// What the driver calls it.
    pub uuid: String,
}

/// A reservation as it is shown with a node or a device that it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservedHere {
    /// Its name.
    pub name: String,
    /// For whom: `user`, `project`, `job` or `nobody`.
    #[serde(rename = "for")]
    pub whom: String,
    /// Which user, project or job.
    pub beneficiary: Option<String>,
    /// Whether it holds now.
    pub active: bool,
    /// When it began or begins.
    pub from: Time,
    /// When it ends, if that is known.
    pub until: Option<Time>,
}

impl ReservedHere {
    /// What is shown of a reservation at a moment.
    #[must_use]
    pub fn new(it: &gpool_model::Reservation, now: Timestamp) -> Self {
        let window = it.occurrence(now).unwrap_or(it.window);
        let (whom, beneficiary) = whom_words(&it.whom);
        Self {
            name: it.name.to_string(),
            whom: whom.to_owned(),
            beneficiary,
            active: window.holds(now),
            from: Time(window.from),
            until: window.until.map(Time),
        }
    }
}

/// Whose work something touches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Affected {
    /// The moment by which what runs should be gone; `null` sets no time.
    pub by: Option<Time>,
    /// What runs there and ends in time.
    pub in_time: Vec<RunningThere>,
    /// What runs there and does not end in time, or nobody knows when.
    pub too_long: Vec<RunningThere>,
    /// What waits and may no longer start there; the first of them.
    pub waiting: Vec<KeptWaiting>,
    /// How many wait in all that may no longer start there.
    pub n_waiting: u64,
}

/// A job that runs where it should be gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningThere {
    /// Which.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// On which node.
    pub node: String,
    /// When it ends at the latest, or is likely to; `null` if nobody knows.
    pub ends: Option<Time>,
    /// `limit` or `predicted`.
    pub basis: Option<String>,
}

/// A job that waits and may no longer start somewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeptWaiting {
    /// Which.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Seconds by which it is likely to start later; `null` if that can't be told.
    pub later_s: Option<u64>,
}

impl Eq for KeptWaiting {}

/// What came of asking for a reservation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReserveAnswer {
    /// As it is, or would be.
    pub reservation: Reservation,
    /// Whose work it touches.
    pub affected: Affected,
    /// Whether it was done.
    pub done: bool,
}

/// What came of asking for a drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainAnswer {
    /// What is, or would be, drained: `lab2`, `lab1:0`.
    pub targets: Vec<String>,
    /// Whose work it touches.
    pub affected: Affected,
    /// Whether it was done.
    pub done: bool,
}

/// A drain as it is shown with its node or device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drain {
    /// When it is to be empty.
    pub by: Option<Time>,
    /// What becomes of work that still runs then.
    pub at_deadline: String,
    /// Why.
    pub reason: String,
    /// The admin who asked for it.
    pub who: String,
    /// Since when.
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

/// Which index a device of a node has, and what is wrong with it.
type FindDevice<'a> =
    dyn Fn(&NodeName, &gpool_model::DeviceUuid) -> (Option<u32>, Option<String>) + 'a;

impl Reservation {
    /// What is shown of a reservation at a moment; `find` says which index a device has and what
    /// is wrong with it.
    #[must_use]
    pub fn new(it: &gpool_model::Reservation, now: Timestamp, find: &FindDevice<'_>) -> Self {
        let window = it.occurrence(now).unwrap_or(it.window);
        let (whom, beneficiary) = whom_words(&it.whom);
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
            whom: whom.to_owned(),
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
    // No span that is written down is longer than ten years.
    f64::from(u32::try_from(length.get() / 1000).unwrap_or(u32::MAX))
}

/// For whom, in a word, and who that is.
pub(crate) fn whom_words(whom: &Whom) -> (&'static str, Option<String>) {
    match whom {
        Whom::Nobody => ("nobody", None),
        Whom::User { name, .. } => ("user", Some(name.to_string())),
        Whom::Project { name } => ("project", Some(name.to_string())),
        Whom::Job { id } => ("job", Some(id.to_string())),
    }
}
