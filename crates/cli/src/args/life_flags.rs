//! Flags about the start and the retries of a job that do not set a single field directly: they
//! combine several fields, or depend on the caller's time zone.

use clap::Args;

use super::values::{self, joined};

/// When a job starts, and when it is retried.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "When, and what follows")]
pub struct LifeFlags {
    /// Jobs to wait for until the first has ended: [ok:|fail:|end:]JOB,…
    #[arg(long, value_name = "JOBS")]
    pub after_one: Vec<String>,
    /// Earliest start: 18:00, tomorrow, fri 18:00, now+2h, 2026-11-20T15:30
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    pub begin: Option<String>,
    /// Latest end; the job starts only if it can end by then
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    pub deadline: Option<String>,
    /// Most retries after a failure
    #[arg(long, value_name = "N", value_parser = values::retries)]
    #[arg(allow_negative_numbers = true)]
    pub retry: Option<u32>,
    /// Failures to retry after: fail, timeout, oom, lost
    #[arg(long, value_name = "ENDS", value_delimiter = ',')]
    pub retry_on: Vec<String>,
    /// Exit codes to retry after: 33,75
    #[arg(long, value_name = "CODES", value_delimiter = ',', allow_negative_numbers = true)]
    pub retry_exit: Vec<i32>,
    /// Pause before the first retry, e.g. 1m; doubled each time
    #[arg(long, value_name = "TIME", value_parser = values::span_written)]
    #[arg(allow_hyphen_values = true)]
    pub backoff: Option<String>,
}

impl LifeFlags {
    /// Fills in values from `other` where there are none here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            after_one: joined(other.after_one, self.after_one),
            begin: self.begin.or(other.begin),
            deadline: self.deadline.or(other.deadline),
            retry: self.retry.or(other.retry),
            retry_on: or_other(self.retry_on, other.retry_on),
            retry_exit: or_other(self.retry_exit, other.retry_exit),
            backoff: self.backoff.or(other.backoff),
        }
    }
}

fn or_other<T>(own: Vec<T>, other: Vec<T>) -> Vec<T> {
    if own.is_empty() { other } else { own }
}
