//! Flags about when a job starts and is run again that more than one field, or the caller's zone,
//! makes a field of the request of.

use clap::Args;

use super::values::{self, joined};

/// When a job starts, and when it is run again.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "When, and what follows")]
pub struct LifeFlags {
    /// Start after the first of these jobs that ends so: [ok:|fail:|end:]JOB,…
    #[arg(long, value_name = "JOBS")]
    pub after_one: Vec<String>,
    /// Do not start before: 18:00, tomorrow, fri 18:00, now+2h, 2026-11-20T15:30
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    pub begin: Option<String>,
    /// Start only if it can end by then, and end it then
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    pub deadline: Option<String>,
    /// Run it again after a failure, so often at most
    #[arg(long, value_name = "N", value_parser = values::retries)]
    #[arg(allow_negative_numbers = true)]
    pub retry: Option<u32>,
    /// After which ends: fail, timeout, oom, lost
    #[arg(long, value_name = "ENDS", value_delimiter = ',')]
    pub retry_on: Vec<String>,
    /// After which exit codes as well: 33,75
    #[arg(long, value_name = "CODES", value_delimiter = ',', allow_negative_numbers = true)]
    pub retry_exit: Vec<i32>,
    /// Pause before it is run again, doubled each time
    #[arg(long, value_name = "TIME", value_parser = values::span_written)]
    #[arg(allow_hyphen_values = true)]
    pub backoff: Option<String>,
}

impl LifeFlags {
    /// Takes from `other` what is not said here.
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
