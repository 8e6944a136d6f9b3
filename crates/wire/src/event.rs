//! Events as watchers get them: small, they say what changed and not what it is now.

use std::collections::BTreeMap;

use gpool_model::effect::{Change, Notice};
use gpool_model::job::JobState;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::json::take;
use crate::schema;
use crate::time::Time;

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Event {
    /// The `id` of the server-sent event, to resume after; means something to its server only.
    pub id: String,
    /// The entry of the journal that it belongs to; several events may share one.
    pub seq: u64,
    /// When.
    pub time: Time,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A job came into a state.
    JobState {
        /// Which.
        job: String,
        /// Which state.
        #[schema(schema_with = schema::job_state)]
        state: JobState,
        /// Exit code as a shell gives it, once ended.
        exit_code: Option<i32>,
    },
    /// Something about a node or its devices changed.
    NodeChanged {
        /// Which.
        node: String,
    },
    /// A message about a job was taken by whom it was for, or will not be sent again.
    Notified {
        /// About which job.
        job: String,
        /// Where to, without the path.
        to: String,
        /// Why it was given up; `null` if it was taken.
        given_up: Option<String>,
    },
    /// A project was made, was changed or was taken away.
    ProjectChanged {
        /// Which.
        project: String,
    },
    /// A reservation was made, was changed or is over.
    ReservationChanged {
        /// Which.
        reservation: String,
    },
    /// Events were missed that can't be sent again: read what you need, then go on from here.
    Resync,
    /// Of a newer version; may be ignored.
    Other,
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
            "node_changed" => EventKind::NodeChanged { node: take(fields, "node")? },
            "notified" => EventKind::Notified {
                job: take(fields, "job")?,
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
    /// What watchers are told of a notice, under the server's id for it.
    #[must_use]
    pub fn new(id: String, notice: &Notice) -> Self {
        let kind = match &notice.change {
            Change::JobState { job, state, exit_code } => {
                EventKind::JobState { job: job.to_string(), state: *state, exit_code: *exit_code }
            }
            Change::ReservationChanged { reservation } => {
                EventKind::ReservationChanged { reservation: reservation.to_string() }
            }
            Change::ProjectChanged { project } => {
                EventKind::ProjectChanged { project: project.to_string() }
            }
            Change::NodeChanged { node } => EventKind::NodeChanged { node: node.to_string() },
            Change::Told { job, origin, given_up } => EventKind::Notified {
                job: job.to_string(),
                to: origin.to_string(),
                given_up: given_up.as_deref().map(str::to_owned),
            },
        };
        Self { id, seq: notice.seq.0, time: notice.time.into(), kind }
    }
}
