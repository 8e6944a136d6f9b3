//! The English of gpool: the texts of refusals, reasons and causes, and the catalogue of errors.
//! Each text is made of facts that the model holds.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(
    clippy::result_large_err,
    reason = "refusals carry their facts, and refusing is no hot path"
)]

// In builds without the API document, its macros generate nothing.
#[cfg(not(feature = "openapi"))]
extern crate gpool_schema_off as utoipa;

pub mod catalogue;
pub mod cause;
pub mod hold;
pub mod kind;
pub mod pause;
pub mod problem;
pub mod project_words;
pub mod reason;
mod refusal;
pub mod request_words;
pub mod signal;
pub mod time;
pub mod touched;
pub mod words;

pub use problem::Problem;
pub use reason::Reason;
pub use time::Time;
