//! The input of `gpool simulate queue`: the jobs of a file on equal nodes, or the jobs of a store
//! on its own cluster.

use std::path::{Path, PathBuf};

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::words::count;
use gpool_cli::session::Session;
use gpool_cli::store_file::{fault, is_store};
use gpool_insight::history::{Extent as Read, History};
use gpool_model::{Command, Record, Refusal, Timestamp};
use gpool_store::Reader;
use gpool_trace::jobs::{Jobs, TraceJob};
use gpool_trace::look::Look;
use gpool_trace::queue::{self, Outcome, PlayError, Terms};
use gpool_trace::{Cluster, Coming, Layout, Nodes, TraceError};
use gpool_wire::{Problem, Time, catalogue};
use serde_json::{Value, json};

use crate::simulate::policy::{AS_IS, NamedPolicy};
use crate::simulate::progress::Extent;

/// The requested simulation.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// A file of jobs, a state folder or a backup.
    pub trace: &'a Path,
    /// Nodes that replace those of the store.
    pub cluster: Option<Nodes>,
    /// Changes to assume, as text.
    pub supposed: &'a [String],
    /// Earliest submission of the jobs.
    pub since: Option<&'a str>,
    /// The policies to compare.
    pub policies: &'a [NamedPolicy],
}

/// The jobs and their cluster.
pub struct Trace {
    path: PathBuf,
    of: Of,
    /// The number and the times of the jobs.
    pub extent: Extent,
    /// The nodes.
    pub layout: Layout,
}

enum Of {
    File(Nodes),
    Store(Box<Past>),
}

/// The contents of a store for a simulation.
struct Past {
    records: Vec<Record>,
    commands: Vec<Command>,
    jobs: Vec<Coming>,
    left_out: LeftOut,
}

/// Numbers of jobs of a store that are not played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// Ended without a run.
    pub never_ran: u64,
    /// Not ended yet.
    pub not_ended: u64,
    /// Submitted before the first simulated job.
    pub before: u64,
}

impl Trace {
    /// Reads the whole input, so that errors appear at once and the progress is known.
    ///
    /// # Errors
    /// It can't be read, has no jobs, or does not support a requested option.
    pub fn open(asked: Asked<'_>, session: &Session) -> Result<Self> {
        // The function that reads a file reports a missing one.
        match is_store(asked.trace).unwrap_or(false) {
            true => Self::of_store(asked, session),
            false => Self::of_file(asked),
        }
    }

    fn of_file(asked: Asked<'_>) -> Result<Self> {
        let only_of_store = |what: &str| {
            let what = format!("{what} needs a store, and this is a file of jobs");
            let tip = "gpool simulate queue --trace STATE-FOLDER";
            Err(Failure::new(errors::USAGE, what).tip(tip))
        };
        if asked.since.is_some() {
            return only_of_store("--since");
        }
        if !asked.supposed.is_empty() {
            return only_of_store("--if");
        }
        if asked.policies.iter().any(NamedPolicy::is_as_is) {
            return only_of_store(AS_IS);
        }
        let mut extent = None;
        for job in Jobs::open(asked.trace).map_err(|error| refused(&error))? {
            let job = job.map_err(|error| refused(&error))?;
            extent = Some(Extent::with(extent, job.came_at(), TraceJob::ZERO));
        }
        let Some(extent) = extent else { return Err(empty(asked.trace, "has no jobs")) };
        let Some(nodes) = asked.cluster else {
            let what = "a file of jobs needs the size of a cluster";
            let tip = "gpool simulate queue --trace jobs.csv --cluster 80x8";
            return Err(Failure::new(errors::USAGE, what).tip(tip));
        };
        let path = asked.trace.to_owned();
        Ok(Self { path, of: Of::File(nodes), extent, layout: Layout::from(nodes) })
    }

    fn of_store(asked: Asked<'_>, session: &Session) -> Result<Self> {
        if let Some(baseline) = asked.policies.iter().find(|policy| policy.is_baseline()) {
            let what = format!(
                "baseline {} supports neither projects nor GPU models, and a store has both",
                baseline.text
            );
            return Err(Failure::new(errors::USAGE, what).tip("--policy as-is --policy fair"));
        }
        let reader = Reader::open(asked.trace).map_err(|error| fault(&error))?;
        let mut history = History::read(&reader, Read::ALL)
            .map_err(|why| Failure::new(errors::STORE_FAULT, why).tip("gpool verify"))?;
        if let Some(nodes) = asked.cluster {
            history.replace_nodes(nodes.n, nodes.n_gpus).map_err(|it| not_so(&it))?;
        }
        let commands = history.suppose(asked.supposed).map_err(|it| not_so(&it))?;
        let last = history.jobs.last().map(|job| Time(job.came_at));
        let Some(last) = last else {
            let tip = "gpool simulate queue --trace jobs.csv --cluster 80x8";
            return Err(empty(asked.trace, "has no job that ran and has ended").tip(tip));
        };
        // Relative to the last job and not to now, so that a store always gives the same result.
        let since = asked.since.map(|text| session.screen.clock.read(text, last)).transpose();
        let since = since
            .map_err(|why| Failure::new(catalogue::INVALID, format!("--since: {why}")))?
            .map_or(Timestamp::ZERO, |since| since.0);
        let n_all = history.jobs.len();
        history.jobs.retain(|job| job.came_at >= since);
        let left_out = LeftOut {
            never_ran: history.n_never_ran,
            not_ended: history.n_not_ended,
            before: (n_all - history.jobs.len()) as u64,
        };
        let jobs = history.take_jobs();
        let records = history.records;
        let extent = jobs
            .iter()
            .fold(None, |extent, job| Some(Extent::with(extent, job.at, Timestamp::ZERO)));
        let Some(extent) = extent else {
            let what = "has no job that was submitted since then";
            return Err(empty(asked.trace, what));
        };
        let path = asked.trace.to_owned();
        let past = Box::new(Past { records, commands, jobs, left_out });
        let layout = past.cluster(None, extent.first)?.layout();
        let trace = Self { path, of: Of::Store(past), extent, layout };
        if let Some(words) = left_out.words() {
            session.screen.warn(&words);
        }
        Ok(trace)
    }

    /// Whether it is a store.
    #[must_use]
    pub fn is_store(&self) -> bool {
        matches!(self.of, Of::Store(_))
    }

    /// Numbers of jobs that are not played, by reason; `None` for a file.
    #[must_use]
    pub fn left_out(&self) -> Option<Value> {
        match &self.of {
            Of::File(_) => None,
            Of::Store(past) => Some(json!({
                "never_ran": past.left_out.never_ran,
                "not_ended": past.left_out.not_ended,
                "before": past.left_out.before,
            })),
        }
    }

    /// Plays the jobs under a policy. `comes` decides for each job whether it and all later ones
    /// arrive; `look` is called before each event.
    ///
    /// # Errors
    /// The trace can't be read to its end, or the scheduler's plan is invalid.
    pub fn play(
        &self,
        policy: &NamedPolicy,
        terms: Terms,
        comes: &dyn Fn() -> bool,
        look: &mut Look<'_>,
    ) -> Result<Outcome> {
        let outcome = match &self.of {
            Of::File(nodes) => {
                let jobs = Jobs::open(&self.path).map_err(|error| refused(&error))?;
                policy.play(jobs.take_while(|_| comes()), *nodes, terms, look)
            }
            Of::Store(past) => {
                let cluster = past.cluster(policy.to_set().as_ref(), self.extent.first)?;
                let jobs = past.jobs.iter().take_while(|_| comes()).cloned().map(Ok);
                queue::play_on(cluster, jobs, terms, look)
            }
        };
        outcome.map_err(|error| match error {
            PlayError::Trace(error) => refused(&error),
            error @ (PlayError::Violation(_) | PlayError::Stuck { .. }) => {
                let what = format!("{}: the trace can't be simulated", policy.text);
                Failure::new(errors::NOT_PLAYED, what).why(error.to_string())
            }
        })
    }
}

impl Past {
    /// The cluster before the first job, with a policy and all assumed changes.
    fn cluster(&self, policy: Option<&Command>, began: Timestamp) -> Result<Cluster> {
        let mut cluster = Cluster::of_records(self.records.clone(), began)
            .map_err(|error| Failure::new(errors::STORE_FAULT, error.to_string()))?;
        for command in policy.into_iter().chain(&self.commands) {
            cluster.ask(command.clone()).map_err(|refusal| not_so(&refusal))?;
        }
        Ok(cluster)
    }
}

impl LeftOut {
    /// The numbers in words; `None` if there are none.
    pub fn words(self) -> Option<String> {
        let parts = [
            (self.never_ran, "never ran"),
            (self.not_ended, "not ended yet"),
            (self.before, "submitted before --since"),
        ];
        let n_all = parts.iter().map(|(n, _)| n).sum();
        let said = parts.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}"));
        let said: Vec<String> = said.collect();
        let are = if n_all == 1 { "is" } else { "are" };
        (n_all > 0).then(|| format!("{} {are} left out: {}", count(n_all, "job"), said.join(", ")))
    }
}

fn empty(path: &Path, what: &str) -> Failure {
    Failure::new(errors::BAD_TRACE, format!("{} {what}", path.display()))
}

fn not_so(refusal: &Refusal) -> Failure {
    Failure::from(Problem::from(refusal))
}

fn refused(error: &TraceError) -> Failure {
    Failure::new(errors::BAD_TRACE, error.to_string()).tip("gpool simulate queue --help")
}
