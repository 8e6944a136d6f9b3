//! Flags about the start and the retries of a job that do not set a single field directly: they
//! combine several fields, or depend on the caller's time zone.

use clap::Args;
use gpool_wire::field::heading;

use super::values::{self, join_lists};

/// When a job starts, and when it is retried.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct LifeFlags {
    /// Jobs to wait for until the first has ended, as [ok:|fail:|end:]JOB,…
    #[arg(long, value_name = "JOBS", help_heading = heading::TIME)]
    pub after_one: Vec<String>,
    /// Earliest start, e.g. 18:00, tomorrow, 'fri 18:00', now+2h or 2026-11-20T15:30
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    #[arg(help_heading = heading::TIME)]
    pub begin: Option<String>,
    /// Latest end, e.g. 'fri 18:00'; the job starts only if it can end by then
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    #[arg(help_heading = heading::TIME)]
    pub deadline: Option<String>,
    /// Maximum number of retries after a failure (default: 0), e.g. 3
    #[arg(long, value_name = "N", value_parser = values::retries)]
    #[arg(allow_negative_numbers = true, help_heading = heading::PREEMPTION)]
    pub retry: Option<u32>,
    /// Failures to retry after: fail, timeout, oom, lost
    #[arg(long, value_name = "ENDS", value_delimiter = ',')]
    #[arg(help_heading = heading::PREEMPTION)]
    pub retry_on: Vec<String>,
    /// Exit codes to retry after, e.g. 33,75
    #[arg(long, value_name = "CODES", value_delimiter = ',', allow_negative_numbers = true)]
    #[arg(help_heading = heading::PREEMPTION)]
    pub retry_exit: Vec<i32>,
    /// Pause before the first retry, e.g. 1m; doubled each time
    #[arg(long, value_name = "TIME", value_parser = values::time_span)]
    #[arg(allow_hyphen_values = true, help_heading = heading::PREEMPTION)]
    pub backoff: Option<String>,
}

impl LifeFlags {
    /// Fills in values from `other` where there are none here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            after_one: join_lists(other.after_one, self.after_one),
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
