//! The progress of a simulation of several policies, and its remaining time.

use std::time::{Duration, Instant};

use gpool_cli::session::Session;
use gpool_model::{Millis, Timestamp};

/// The length of a day of the trace.
const DAY: Millis = Millis::from_hours(24);
/// Shortest time between two updates of the display.
const FRAME: Duration = Duration::from_millis(100);
/// Time before the remaining time is estimated.
const WARM: Duration = Duration::from_secs(2);
/// Smallest progress of a policy that an estimate uses.
const LEAST: f64 = 0.02;

/// The time range and the number of jobs of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Number of jobs.
    pub n_jobs: u64,
    /// The first submission.
    pub first: Timestamp,
    /// The last submission.
    pub last: Timestamp,
    /// The begin of the day with the first submission.
    zero: Timestamp,
}

impl Extent {
    /// Adds a job, which is submitted at `comes`, after all others; `midnight` is the begin of any
    /// day.
    #[must_use]
    pub fn with(before: Option<Self>, comes: Timestamp, midnight: Timestamp) -> Self {
        let into_day = Millis::new(comes.since(midnight).get() % DAY.get());
        let first = Self {
            n_jobs: 0,
            first: comes,
            last: comes,
            zero: Timestamp::new(comes.get().saturating_sub(into_day.get())),
        };
        let before = before.unwrap_or(first);
        Self { n_jobs: before.n_jobs + 1, last: comes, ..before }
    }

    /// The day with the number of days, while jobs arrive; afterwards only the day.
    #[must_use]
    pub fn day(&self, at: Timestamp) -> String {
        let day = |at: Timestamp| at.since(self.zero).get() / DAY.get() + 1;
        match (day(at), day(self.last)) {
            (day, last) if day <= last => format!("day {day} of {last}"),
            (day, _) => format!("day {day}"),
        }
    }

    /// The completed fraction of a policy, from the jobs that arrived and those that have not
    /// ended. It counts events, since simulated time without events takes no time.
    #[must_use]
    pub fn part(&self, n_come: u64, n_live: usize) -> f64 {
        let n_ended = n_come.saturating_sub(n_live as u64);
        (n_come + n_ended) as f64 / (self.n_jobs * 2).max(1) as f64
    }
}

/// The progress over all policies. Times are relative to its begin.
#[derive(Debug, Clone)]
pub struct Progress {
    n_policies: usize,
    /// The times that completed policies took.
    done: Vec<Duration>,
    /// The begin of the current policy.
    began: Duration,
}

impl Progress {
    /// Starts without completed policies.
    #[must_use]
    pub fn new(n_policies: usize) -> Self {
        Self { n_policies, done: Vec::new(), began: Duration::ZERO }
    }

    /// Completes the current policy.
    pub fn next(&mut self, at: Duration) {
        self.done.push(at.saturating_sub(self.began));
        self.began = at;
    }

    /// The number of the current policy and of all, in words.
    #[must_use]
    pub fn place(&self) -> String {
        match self.n_policies {
            1 => String::new(),
            n => format!(" ({} of {n})", (self.done.len() + 1).min(n)),
        }
    }

    /// The number of policies after the current one.
    fn n_after(&self) -> usize {
        self.n_policies.saturating_sub(self.done.len() + 1)
    }

    /// The completed fraction of all, for a completed fraction of the current policy.
    #[must_use]
    pub fn part(&self, part: f64) -> f64 {
        (self.done.len() as f64 + part.clamp(0.0, 1.0)) / self.n_policies.max(1) as f64
    }

    /// The estimated remaining time of all policies; `None` if it is too early. Further policies
    /// are expected to take as long as those before.
    #[must_use]
    pub fn left(&self, at: Duration, part: f64) -> Option<Duration> {
        if at < WARM {
            return None;
        }
        let took = at.saturating_sub(self.began).as_secs_f64();
        let before: f64 = self.done.iter().map(Duration::as_secs_f64).sum();
        let n_before = self.done.len() as f64;
        let whole = if part >= LEAST {
            took / part.min(1.0)
        } else if self.done.is_empty() {
            return None;
        } else {
            took.max(before / n_before)
        };
        let each = (before + whole) / (n_before + 1.0);
        let left = whole - took + each * self.n_after() as f64;
        Duration::try_from_secs_f64(left.max(0.0)).ok()
    }
}

/// The progress in words.
#[must_use]
pub fn words(part: f64, left: Option<Duration>) -> String {
    let percent = format!("{:.0}%", (part * 100.0).floor());
    match left.map(|left| left.as_secs()).filter(|seconds| *seconds > 0) {
        Some(seconds) => format!("{percent}, {} left", Millis::new(seconds.saturating_mul(1000))),
        None => percent,
    }
}

/// The line that shows the progress of traces.
pub struct Line<'s> {
    session: &'s Session,
    extent: Extent,
    progress: Progress,
    policy: String,
    began: Instant,
    shown_at: Duration,
}

impl<'s> Line<'s> {
    /// Starts without output.
    #[must_use]
    pub fn new(session: &'s Session, extent: Extent, n_policies: usize) -> Self {
        Self {
            session,
            extent,
            progress: Progress::new(n_policies),
            policy: String::new(),
            began: Instant::now(),
            shown_at: Duration::ZERO,
        }
    }

    /// Starts a policy.
    pub fn begin(&mut self, policy: &str) {
        policy.clone_into(&mut self.policy);
    }

    /// Updates the line before an event.
    pub fn look(&mut self, n_live: usize, until: Timestamp, n_come: u64) {
        let at = self.began.elapsed();
        if at < self.shown_at + FRAME {
            return;
        }
        self.shown_at = at;
        let part = self.extent.part(n_come, n_live);
        let place = self.progress.place();
        let so_far = words(self.progress.part(part), self.progress.left(at, part));
        let (policy, day) = (&self.policy, self.extent.day(until));
        let shown = format!("{policy}{place}: {day}, {n_live} jobs run or wait; {so_far}");
        self.session.screen.progress(&shown);
    }

    /// Completes the policy.
    pub fn end(&mut self) {
        self.progress.next(self.began.elapsed());
        self.session.screen.progress("");
    }
}
