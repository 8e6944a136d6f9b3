//! Verbs on jobs in the API: a table, and request bodies. The table defines the routes with their
//! documentation, the client's requests, and the texts in the history of a job and in dumps.

use gpool_model::Refusal;
use gpool_model::job::JobState;
use gpool_model::verb::{JobVerb, LimitChange, SignalTo};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::amount::Quantity;
use crate::check::{invalid, time_limit};
use crate::course::span_flag;
use crate::problem::Problem;
use crate::time::Time;
use crate::{json as text, query, signal};

/// A verb on jobs in the API.
#[derive(Debug)]
pub struct VerbRow {
    /// The verb, with its simplest parameters.
    pub verb: JobVerb,
    /// Type of the event that the request adds to a job's history. `None` if only the job's state
    /// changes.
    pub event: Option<&'static str>,
    /// Summary in the API document.
    pub summary: &'static str,
    /// Parameters, if any.
    pub params: Option<Params>,
}

/// The parameters of a verb in requests.
#[derive(Debug)]
pub struct Params {
    /// Example of a body.
    pub example: &'static str,
    /// Reads that body: the jobs and the verb.
    pub read: fn(&[u8]) -> Result<VerbRequest, Problem>,
    /// Where they are in a request for one job, which its path names.
    pub one: One,
}

/// The jobs of a request, by their ids, and the verb.
pub type VerbRequest = (Vec<String>, JobVerb);

/// The names of a query with their texts.
pub type Query = Vec<(String, String)>;

/// Location of the parameters in a request for one job.
#[derive(Debug)]
pub enum One {
    /// In the query string.
    Query {
        /// Reads them.
        read: fn(Query) -> Result<JobVerb, Problem>,
    },
    /// In the body, without `jobs`.
    Body,
}

const fn plain(verb: JobVerb, event: Option<&'static str>, summary: &'static str) -> VerbRow {
    VerbRow { verb, event, summary, params: None }
}

/// Every verb on jobs.
pub const VERBS: &[VerbRow] = &[
    plain(
        JobVerb::Cancel,
        Some("cancelled"),
        "Cancels jobs: waiting jobs leave the queue, running jobs are stopped.",
    ),
    plain(
        JobVerb::Hold,
        Some("held"),
        "Holds waiting jobs: they do not start until they are released.",
    ),
    VerbRow {
        verb: JobVerb::Release { at: None },
        event: Some("released"),
        summary: "Releases held jobs, now or at a given time.",
        params: Some(Params {
            example: r#"{"at": "2027-01-04T08:00:00Z"}"#,
            read: |body| {
                let ReleaseJobs { jobs, at } = text::read(body)?;
                Ok((jobs, JobVerb::Release { at: at.map(|at| at.0) }))
            },
            one: One::Query {
                read: |pairs| {
                    let At { at } = query::read(pairs)?;
                    Ok(JobVerb::Release { at: at.map(|at| at.0) })
                },
            },
        }),
    },
    plain(
        JobVerb::Pause,
        None,
        "Pauses running jobs: their processes are stopped in memory until they are resumed.",
    ),
    plain(JobVerb::Resume, None, "Resumes paused jobs when their GPUs are free."),
    VerbRow {
        verb: JobVerb::Signal { signal: 15, to: SignalTo::Job },
        event: Some("signalled"),
        summary: "Sends a signal to the processes of running jobs.",
        params: Some(Params {
            example: r#"{"signal": "USR1"}"#,
            read: |body| {
                let SignalJobs { signal, to, jobs } = text::read(body)?;
                let to = to.as_deref().map(signal::to).transpose()?.unwrap_or_default();
                Ok((jobs, JobVerb::Signal { signal: signal::number(&signal)?, to }))
            },
            one: One::Body,
        }),
    },
    VerbRow {
        verb: JobVerb::Extend { change: LimitChange::To { limit: None } },
        event: Some("limited"),
        summary: "Changes the time limits of waiting or running jobs. The owner of a running job \
                  can extend it by up to `user_extend_max` of the policy, or shorten it.",
        params: Some(Params {
            example: r#"{"by": "30m"}"#,
            read: |body| {
                let body: ExtendJobs = text::read(body)?;
                let change = body.check()?;
                Ok((body.jobs, JobVerb::Extend { change }))
            },
            one: One::Body,
        }),
    },
    VerbRow {
        verb: JobVerb::Requeue { hold: false },
        event: Some("requeued"),
        summary: "Stops running jobs and queues them again as their next attempt.",
        params: Some(Params {
            example: r#"{"hold": true}"#,
            read: |body| {
                let RequeueJobs { jobs, hold } = text::read(body)?;
                Ok((jobs, JobVerb::Requeue { hold }))
            },
            one: One::Query {
                read: |pairs| {
                    let Hold { hold } = query::read(pairs)?;
                    Ok(JobVerb::Requeue { hold })
                },
            },
        }),
    },
];

impl VerbRow {
    /// Returns the row of a verb.
    ///
    /// # Panics
    /// If the table has no row for it. A test checks that it has.
    #[must_use]
    pub fn of(verb: JobVerb) -> &'static Self {
        let row = VERBS.iter().find(|row| row.verb.name() == verb.name());
        row.expect("every verb has a row")
    }

    /// Reads a body for several jobs.
    ///
    /// # Errors
    /// A [`Problem`] that names the position or the field.
    pub fn read(&self, body: &[u8]) -> Result<VerbRequest, Problem> {
        match &self.params {
            None => text::read(body).map(|Selection { jobs }| (jobs, self.verb)),
            Some(params) => (params.read)(body),
        }
    }
}

/// Returns the body of a request for several jobs.
#[must_use]
pub fn body(verb: JobVerb, jobs: Vec<String>) -> Value {
    match verb {
        JobVerb::Release { at } => json!(ReleaseJobs { jobs, at: at.map(Time) }),
        JobVerb::Signal { signal, to } => {
            let to = (to != SignalTo::Job).then(|| to.as_str().to_owned());
            json!(SignalJobs { jobs, signal: Quantity::from(signal.to_string()), to })
        }
        JobVerb::Extend { change } => json!(ExtendJobs { jobs, ..change.into() }),
        JobVerb::Requeue { hold } => json!(RequeueJobs { jobs, hold }),
        _ => json!(Selection { jobs }),
    }
}

/// Describes the result of a request: `time limit: 30m longer`.
#[must_use]
pub fn done(verb: JobVerb) -> String {
    match verb {
        JobVerb::Release { at: Some(at) } => {
            format!("released, to start from {}", Time(at).short())
        }
        JobVerb::Signal { signal, to } => {
            let name = signal::word(signal);
            match to {
                SignalTo::Job => format!("sent signal {name}"),
                SignalTo::Program => format!("sent signal {name} to the program alone"),
                SignalTo::Steps => format!("sent signal {name} to the steps"),
            }
        }
        JobVerb::Extend { change } => format!("time limit: {change}"),
        JobVerb::Requeue { .. } => "stopped and queued again".to_owned(),
        plain => VerbRow::of(plain).event.unwrap_or(plain.name()).to_owned(),
    }
}

/// Query parameter with a time.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct At {
    /// Start time. Default: now.
    #[serde(default)]
    #[param(value_type = Option<String>, format = DateTime)]
    at: Option<Time>,
}

/// Query parameter with a hold.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Hold {
    /// If true, holds the job afterwards.
    #[serde(default)]
    hold: bool,
}

/// Jobs to act on. The request applies to all of them or to none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// IDs of the jobs.
    #[schema(schema_with = crate::schema::job_ids)]
    pub jobs: Vec<String>,
}

/// A signal to the processes of running jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalJobs {
    /// Name or number of the signal: `"USR1"`, `"SIGUSR1"`, `10`.
    pub signal: Quantity,
    /// Processes that get it: `job` (the default: the program and its process group), `program`
    /// (the program alone), or `steps` (those that `srun` started; a job without a script is a step
    /// itself).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// IDs of the jobs. Empty if the path contains the job ID.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = crate::schema::job_ids)]
    pub jobs: Vec<String>,
}

/// The result for one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobChanged {
    /// Its ID.
    pub id: String,
    /// Its state now.
    #[schema(schema_with = crate::schema::job_state)]
    pub state: JobState,
}

/// A change to time limits. Set either `by` or `to`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"jobs": ["17"], "by": "30m"}))]
pub struct ExtendJobs {
    /// Extension of the limit; negative values shorten it: `"30m"`, `"-10m"`. A number is in
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Quantity>,
    /// New limit, counted from the start: `"4h"`; `"none"` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Quantity>,
    /// IDs of the jobs. Empty if the path contains the job ID.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = crate::schema::job_ids)]
    pub jobs: Vec<String>,
}

impl ExtendJobs {
    /// Checks the request and returns the change.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if the request has neither field or both, or the text is no time span.
    pub fn check(&self) -> Result<LimitChange, Refusal> {
        match (&self.by, &self.to) {
            (None, Some(Quantity::Text(word))) if word == "none" => {
                Ok(LimitChange::To { limit: None })
            }
            (None, Some(to)) => Ok(LimitChange::To { limit: Some(time_limit(to)?) }),
            (Some(by), None) => {
                let text = by.to_string();
                let less = text.strip_prefix('-');
                let more = less.unwrap_or(text.strip_prefix('+').unwrap_or(&text));
                let by = match by {
                    Quantity::Text(_) => time_limit(&Quantity::from(more))?,
                    Quantity::Whole(_) | Quantity::Decimal(_) if less.is_none() => time_limit(by)?,
                    Quantity::Whole(_) | Quantity::Decimal(_) => {
                        return Err(invalid("by", "a negative time must be text: \"-10m\""));
                    }
                };
                Ok(match less {
                    Some(_) => LimitChange::Shorter { by },
                    None => LimitChange::Longer { by },
                })
            }
            _ => Err(invalid("by", "give either by (\"30m\") or to (\"4h\", \"none\")")),
        }
    }
}

impl From<LimitChange> for ExtendJobs {
    /// Returns a request with this change and without jobs.
    fn from(change: LimitChange) -> Self {
        let (by, to) = match change {
            LimitChange::Longer { by } => (Some(span_flag(by)), None),
            LimitChange::Shorter { by } => (Some(format!("-{}", span_flag(by))), None),
            LimitChange::To { limit } => (None, Some(limit.map_or("none".to_owned(), span_flag))),
        };
        Self { by: by.map(Quantity::Text), to: to.map(Quantity::Text), jobs: Vec::new() }
    }
}

/// Jobs to requeue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequeueJobs {
    /// IDs of the jobs. Empty if the path contains the job ID.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = crate::schema::job_ids)]
    pub jobs: Vec<String>,
    /// If true, holds the jobs afterwards.
    #[serde(default)]
    pub hold: bool,
}

/// Jobs to release.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseJobs {
    /// IDs of the jobs.
    #[schema(schema_with = crate::schema::job_ids)]
    pub jobs: Vec<String>,
    /// Earliest start time. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}
