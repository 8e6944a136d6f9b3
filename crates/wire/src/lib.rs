//! The types of the API: the JSON of requests and answers, the texts of all refusals and reasons,
//! and conversions from the model. The crate has no I/O and no state. Server and client both use
//! it, so that they always agree.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(
    clippy::result_large_err,
    reason = "refusals carry their facts, and refusing is no hot path"
)]

// In builds without the API document, its macros generate nothing.
#[cfg(not(feature = "openapi"))]
extern crate gpool_schema_off as utoipa;

pub mod access;
pub mod action;
pub mod alternative;
pub mod amount;
pub mod array;
mod array_check;
pub mod attach;
pub mod audit;
pub mod budget;
pub mod check;
mod check_gpus;
pub mod checked;
mod compat;
mod container;
pub mod cost;
pub mod course;
pub mod create;
pub mod device_words;
pub mod digest;
#[cfg(feature = "openapi")]
pub mod documented;
pub mod envelope;
pub mod eta;
pub mod event;
pub mod exits;
pub mod field;
pub mod files;
pub mod frame;
pub mod gang;
pub mod gpu;
mod group;
mod hint;
pub mod job;
mod job_history;
pub mod job_metrics;
pub mod join;
pub mod json;
pub mod keys;
pub mod launch;
pub mod life;
pub mod live;
pub mod live_usage;
mod log;
pub mod message;
pub mod metrics;
pub mod mig;
mod misfit;
pub mod node;
mod node_filter;
mod node_use;
pub mod notify;
mod parts;
pub mod patch;
mod placed;
pub mod pool;
pub mod project;
pub mod project_amount;
pub mod project_parts;
pub mod project_view;
pub mod query;
pub mod quota;
pub mod recovery;
pub mod report;
pub mod reservation;
pub mod reserve;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod secret;
pub mod show;
pub mod signal;
pub mod simulate;
pub mod status;
pub mod strict;
pub mod subscription;
pub mod usage;
pub mod user;
pub mod verb;
pub mod waste;
pub mod why;

pub use gpool_model::budget::Payer;
pub use gpool_model::escape::repeated;
pub use gpool_model::verb::JobVerb;
pub use gpool_texts::{
    Problem, Reason, Time, catalogue, cause, kind, problem, project_words, reason, time,
};

pub use access::{
    Authority, DeviceAnswer, DeviceSignIn, EndedSessions, MapUser, Me, NetworkUser, NewToken,
    Scope, Token, TokenCreate,
};
pub use action::{AllowDevices, BulkAnswer, PolicyPatch, Shutdown};
pub use amount::Quantity;
pub use array::{ArrayElement, ArrayStatus, Param, ParamTable};
pub use attach::{AttachJob, ExecInJob, ForwardToJob};
pub use audit::AuditEntry;
pub use checked::{CheckedJob, Script};
pub use course::{Attempted, RetryPolicy};
pub use create::{JobCreate, JobScript, Origin, ScriptText};
pub use digest::{Digest, DigestJob, MessageBudget, MonthBudget};
pub use envelope::{Document, List};
pub use eta::{Calibration, Eta, ForecastState};
pub use event::{Event, EventKind};
pub use gang::{GangStatus, TaskStatus};
pub use gpu::{Gpu, GpuProcess, GpuShare};
pub use group::GroupStatus;
pub use hint::Hint;
pub use job::{Job, JobForecast, JobRun, JobStep, JobUsage, JobWait, PlacedOn, Usage};
pub use launch::{Activate, Modules, Setup, Window};
pub use life::JobEvent;
pub use log::LogFiles;
pub use message::{Message, MessageData, MessageJob};
pub use mig::{CreateInstance, MigAnswer, MigInstance, MigProfile, MigRequest, MigStep};
pub use node::Node;
pub use node_filter::LabelNodes;
pub use node_use::{DeviceUse, NodeUse};
pub use notify::{Notification, NotifyCounts, NotifySecret};
pub use patch::{CheckedPatch, JobPatch};
pub use pool::{MoveNodes, Pool};
pub use project::{ProjectSet, ProjectSettings};
pub use project_view::{Project, ProjectChanged, ProjectFacts, ProjectsAnswer, SettingChanged};
pub use quota::{QuotaLoan, QuotaOverview, QuotaPart, QuotaReturn, QuotaRow, ReturnedGpu};
pub use recovery::{Became, Before, RecoveredJob, Recovery};
pub use report::{Report, Totals};
pub use reservation::{Affected, DrainAnswer, Reservation, ReserveAnswer};
pub use reserve::{DrainRequest, ReserveRequest, UndrainRequest};
pub use secret::Secret;
pub use simulate::{
    SimulateAsk, SimulatedCourse, SimulatedFate, SimulatedFigures, SimulatedJob, SimulatedPairs,
    SimulatedProject, SimulatedShare, Simulation,
};
pub use status::{Login, PolicyInfo, StartChange, Status, Version};
pub use subscription::{Subscription, SubscriptionPatch};
pub use user::{UserCapsPatch, UserLimits};
pub use verb::{ExtendJobs, JobChanged, Selection, SignalJobs, VERBS, VerbRow};
pub use why::{
    Ahead, Alternative, Delayed, Forecast, Frees, Place, Why, WhyDevice, WhyNode, WhyReserved,
};

/// The version in every document.
pub const API_VERSION: &str = "gpool/v1";

/// The prefix of every path of the API.
pub const API_PREFIX: &str = "/api/v1";

/// Maximum size of a request body in bytes, except bulk submissions. The request for an array
/// contains a value per element: 100,000 lines of a file are more than 1 MiB.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// Maximum size of the body of a bulk submission in bytes.
pub const BULK_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of jobs in a bulk submission.
pub const BULK_JOBS_MAX: u64 = 1_000_000;

/// The header with the idempotency key of a create request. The server answers a repeated request
/// without repeating the action.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The header with the position in the log of the answer's first byte.
pub const LOG_OFFSET: &str = "gpool-log-offset";
