//! Events for watchers. They are small: they name the changed object and do not contain it.

use std::collections::BTreeMap;

use gpool_model::effect::{Change, Notice};
use gpool_model::job::JobState;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::time::Time;
use gpool_texts::words::take;

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Event {
    /// The `id` of the server-sent event, to resume after it. Valid on one server only.
    pub id: String,
    /// Number of the journal entry. Several events can have the same one.
    pub seq: u64,
    /// Time of the event.
    pub time: Time,
    /// The change.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The change that an event reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A job changed its state.
    JobState {
        /// ID of the job.
        job: String,
        /// The new state.
        #[schema(schema_with = crate::schema::job_state)]
        state: JobState,
        /// Exit code as a shell reports it. `null` before the job has ended.
        exit_code: Option<i32>,
    },
    /// A running job counts as idle, or no longer.
    JobIdle {
        /// ID of the job.
        job: String,
        /// Time since which the job has not used its GPUs. `null` if it uses them again.
        since: Option<Time>,
    },
    /// The node moved a running job to other GPUs.
    JobMoved {
        /// ID of the job.
        job: String,
        /// Name of the node.
        node: String,
        /// Indexes of the GPUs that the job left.
        from: Vec<u32>,
        /// Indexes of the GPUs in their place.
        to: Vec<u32>,
    },
    /// A node or its devices changed.
    NodeChanged {
        /// Name of the node.
        node: String,
    },
    /// A node joins the cluster, or its agent is connected, silent or lost.
    NodeMembership {
        /// Name of the node.
        node: String,
        /// `joining`, `connected`, `silent` or `lost`.
        membership: String,
    },
    /// The server delivered a message about a job, or gave up.
    Notified {
        /// ID of the job.
        job: String,
        /// Address without its path.
        to: String,
        /// Why the server gave up. `null` if the message was delivered.
        given_up: Option<String>,
    },
    /// The server delivered a message about a project or user, or gave up.
    PayerNotified {
        /// The project or user: `project nlp`, `user ana`.
        payer: String,
        /// Address without its path.
        to: String,
        /// Why the server gave up. `null` if the message was delivered.
        given_up: Option<String>,
    },
    /// A project was created, changed or deleted.
    ProjectChanged {
        /// Name of the project.
        project: String,
    },
    /// A reservation was created or changed, or has ended.
    ReservationChanged {
        /// Name of the reservation.
        reservation: String,
    },
    /// The server cannot resend missed events: read the current state, then continue from here.
    Resync,
    /// An event of a newer version. Ignore it.
    Other,
}

impl EventKind {
    /// Whether the state of a job may have changed. Elements of an array that end before they start
    /// have no event of their own, only one of their array.
    #[must_use]
    pub fn may_concern(&self, id: &str) -> bool {
        match self {
            Self::JobState { job, .. } => {
                job == id || id.split_once('.').is_some_and(|(array, _)| array == job)
            }
            Self::Resync => true,
            Self::JobIdle { .. }
            | Self::JobMoved { .. }
            | Self::NodeChanged { .. }
            | Self::NodeMembership { .. }
            | Self::ReservationChanged { .. }
            | Self::ProjectChanged { .. }
            | Self::PayerNotified { .. }
            | Self::Notified { .. }
            | Self::Other => false,
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = &mut BTreeMap::deserialize(deserializer)?;
        let kind: String = take(fields, "type")?;
        let kind = match kind.as_str() {
            "job_state" => EventKind::JobState {
                job: take(fields, "job")?,
                state: take(fields, "state")?,
                exit_code: take(fields, "exit_code")?,
            },
            "job_idle" => {
                EventKind::JobIdle { job: take(fields, "job")?, since: take(fields, "since")? }
            }
            "job_moved" => EventKind::JobMoved {
                job: take(fields, "job")?,
                node: take(fields, "node")?,
                from: take(fields, "from")?,
                to: take(fields, "to")?,
            },
            "node_changed" => EventKind::NodeChanged { node: take(fields, "node")? },
            "node_membership" => EventKind::NodeMembership {
                node: take(fields, "node")?,
                membership: take(fields, "membership")?,
            },
            "notified" => EventKind::Notified {
                job: take(fields, "job")?,
                to: take(fields, "to")?,
                given_up: take(fields, "given_up")?,
            },
            "payer_notified" => EventKind::PayerNotified {
                payer: take(fields, "payer")?,
                to: take(fields, "to")?,
                given_up: take(fields, "given_up")?,
            },
            "project_changed" => EventKind::ProjectChanged { project: take(fields, "project")? },
            "reservation_changed" => {
                EventKind::ReservationChanged { reservation: take(fields, "reservation")? }
            }
            "resync" => EventKind::Resync,
            _ => EventKind::Other,
        };
        let (id, seq, time) = (take(fields, "id")?, take(fields, "seq")?, take(fields, "time")?);
        Ok(Self { id, seq, time, kind })
    }
}

impl Event {
    /// Returns the event for a notice, with the server's ID for it.
    #[must_use]
    pub fn new(id: String, notice: &Notice) -> Self {
        let kind = match &notice.change {
            Change::JobState { job, state, exit_code } => {
                EventKind::JobState { job: job.to_string(), state: *state, exit_code: *exit_code }
            }
            Change::JobIdle { job, since } => {
                EventKind::JobIdle { job: job.to_string(), since: since.map(Time) }
            }
            Change::JobMoved { job, node, from, to } => EventKind::JobMoved {
                job: job.to_string(),
                node: node.to_string(),
                from: from.clone(),
                to: to.clone(),
            },
            Change::ReservationChanged { reservation } => {
                EventKind::ReservationChanged { reservation: reservation.to_string() }
            }
            Change::ProjectChanged { project } => {
                EventKind::ProjectChanged { project: project.to_string() }
            }
            Change::NodeChanged { node } => EventKind::NodeChanged { node: node.to_string() },
            Change::NodeMembership { node, is } => EventKind::NodeMembership {
                node: node.to_string(),
                membership: is.as_str().to_owned(),
            },
            Change::Told { job, origin, given_up } => EventKind::Notified {
                job: job.to_string(),
                to: origin.to_string(),
                given_up: given_up.as_deref().map(str::to_owned),
            },
            Change::ToldOfPayer { payer, origin, given_up } => EventKind::PayerNotified {
                payer: payer.to_string(),
                to: origin.to_string(),
                given_up: given_up.as_deref().map(str::to_owned),
            },
        };
        Self { id, seq: notice.seq.0, time: notice.time.into(), kind }
    }
}
