//! Flags that say when a job starts, how long it may go on, and what follows its end. Moments are
//! read when the job is made, in the caller's zone.

use clap::Args;

use super::values;

/// When a job starts, how long it may go on, and what follows its end.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "When, and what follows")]
pub struct LifeFlags {
    /// Start after the first of these jobs that ends so: [ok:|fail:|end:]JOB,…
    #[arg(long, value_name = "JOBS")]
    pub after_one: Vec<String>,
    /// If what it waits for can never be: cancel or keep it
    #[arg(long, value_name = "WHAT", value_parser = ["cancel", "keep"])]
    pub on_unmet: Option<String>,
    /// Do not start before: 18:00, tomorrow, fri 18:00, now+2h, 2026-11-20T15:30
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    pub begin: Option<String>,
    /// Start only if it can end by then, and end it then
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    pub deadline: Option<String>,
    /// Signal that long before its time is over: 90s (USR1), TERM@5m; B:TERM@5m to its command
    /// alone, S:TERM@5m to all but that
    #[arg(long, value_name = "[B:|S:][SIGNAL@]TIME", value_parser = values::warning)]
    pub signal_before: Option<String>,
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
    /// Run it again after its node has failed
    #[arg(long, overrides_with = "no_requeue")]
    pub requeue: bool,
    /// Never run it again, even if somebody asks for it
    #[arg(long, overrides_with = "requeue")]
    pub no_requeue: bool,
    /// Let it be taken back for others and run again: so it may use GPUs that its project borrows
    #[arg(long, overrides_with = "no_preemptible")]
    pub preemptible: bool,
    /// Never take it back, whatever its project says
    #[arg(long, overrides_with = "preemptible")]
    pub no_preemptible: bool,
    /// How it may be taken back, the best that is possible: pause, checkpoint, requeue, kill
    #[arg(long, value_name = "EXITS", value_delimiter = ',', value_parser = values::exit)]
    pub exits: Vec<String>,
    /// Before it is taken back, signal it to save what it has: TERM, USR1, USR1@2m
    #[arg(long, value_name = "SIGNAL[@TIME]", value_parser = values::checkpoint)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "TERM")]
    pub checkpointable: Option<String>,
}

impl LifeFlags {
    /// Takes from `other` what is not said here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let says_requeue = self.requeue || self.no_requeue;
        let says_preemptible = self.preemptible || self.no_preemptible;
        Self {
            after_one: super::job_flags::joined(other.after_one, self.after_one),
            on_unmet: self.on_unmet.or(other.on_unmet),
            begin: self.begin.or(other.begin),
            deadline: self.deadline.or(other.deadline),
            signal_before: self.signal_before.or(other.signal_before),
            retry: self.retry.or(other.retry),
            retry_on: or_other(self.retry_on, other.retry_on),
            retry_exit: or_other(self.retry_exit, other.retry_exit),
            backoff: self.backoff.or(other.backoff),
            requeue: if says_requeue { self.requeue } else { other.requeue },
            no_requeue: if says_requeue { self.no_requeue } else { other.no_requeue },
            preemptible: if says_preemptible { self.preemptible } else { other.preemptible },
            no_preemptible: match says_preemptible {
                true => self.no_preemptible,
                false => other.no_preemptible,
            },
            exits: or_other(self.exits, other.exits),
            checkpointable: self.checkpointable.or(other.checkpointable),
        }
    }

    /// Whether it may be put back; `None` if nothing was said.
    #[must_use]
    pub fn may_requeue(&self) -> Option<bool> {
        said(self.requeue, self.no_requeue)
    }

    /// Whether it may be taken back; `None` if nothing was said.
    #[must_use]
    pub fn may_be_taken_back(&self) -> Option<bool> {
        said(self.preemptible, self.no_preemptible)
    }
}

fn said(yes: bool, no: bool) -> Option<bool> {
    match (yes, no) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

fn or_other<T>(own: Vec<T>, other: Vec<T>) -> Vec<T> {
    if own.is_empty() { other } else { own }
}
