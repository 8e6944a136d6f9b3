//! The scheduling core: a snapshot and a policy make a plan. Infallible and pure: a job that does
//! not fit is a wait with a reason, never an error.
//!
//! Read `pipeline` first: the stages of a cycle in order. Then `capacity` (does a demand fit, and
//! on which devices), `victims` (which jobs leave for it), `quota_state` and [`fairshare`] (the
//! quota and share of each project), [`fragmentation`] and `node_scores` (which node to take),
//! `fit_reason` (why a job waits). [`mig_plan`] plans MIG instances for jobs that wait.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod capacity;
mod caps;
pub mod fairshare;
mod fit_reason;
pub mod fragmentation;
pub mod mig_plan;
mod node_scores;
mod order;
mod pending_report;
mod pipeline;
mod preemption;
mod quota_state;
mod share_report;
mod topology;
mod victims;

pub use caps::user_quota;
pub use pipeline::{
    Explainer, KeptBy, ReasonsByShape, Rivals, Workspace, decide, in_order, plan, would_place,
};
pub use share_report::{Loan, LoanEnd, ProjectShare, project_shares};

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub use capacity::task_spread as testing;
