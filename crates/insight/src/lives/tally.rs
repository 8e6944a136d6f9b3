//! Counts since the server started: starts, ends, evictions, waiting times, GPU time.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpool_model::job::JobState;
use gpool_model::{TakenBack, Timestamp};
use gpool_wire::digest::units;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::Passage;
use super::settings::Detail;
use crate::usage::minutes::UsageSnapshot;

pub type Labels = Vec<(&'static str, String)>;
/// A counter of seconds or other fractions.
pub type Sum = Counter<f64, AtomicU64>;

/// Projects with labels of their own; the sum of all others is `other`.
const PROJECTS_MOST: usize = 100;
/// Seconds of an hour.
const HOUR: f64 = 3600.0;

pub struct Tally {
    projects: Mutex<BTreeSet<String>>,
    n_projects_most: usize,
    started: Family<Labels, Counter>,
    finished: Family<Labels, Counter>,
    evicted: Family<Labels, Counter>,
    paused: Family<Labels, Counter>,
    retried: Family<Labels, Counter>,
    decisions: Family<Labels, Counter>,
    waits: Family<Labels, Histogram>,
    runs: Family<Labels, Histogram>,
    start_latency: Histogram,
    writes: Histogram,
    steps: Histogram,
    held: Family<Labels, Sum>,
    busy: Family<Labels, Sum>,
    idle: Family<Labels, Sum>,
    cost: Family<Labels, Sum>,
}

impl Tally {
    pub fn new(detail: Option<Detail>) -> Self {
        // From 1 s to 3 days.
        let long = || Histogram::new(exponential_buckets(1.0, 4.0, 10));
        // From 0.1 ms to 6.5 s.
        let short = || Histogram::new(exponential_buckets(0.000_1, 4.0, 9));
        Self {
            projects: Mutex::default(),
            n_projects_most: if detail == Some(Detail::Low) { 0 } else { PROJECTS_MOST },
            started: Family::default(),
            finished: Family::default(),
            evicted: Family::default(),
            paused: Family::default(),
            retried: Family::default(),
            decisions: Family::default(),
            waits: Family::new_with_constructor(long),
            runs: Family::new_with_constructor(long),
            // From 10 ms to 2 min.
            start_latency: Histogram::new(exponential_buckets(0.01, 3.25, 9)),
            writes: short(),
            steps: short(),
            held: Family::default(),
            busy: Family::default(),
            idle: Family::default(),
            cost: Family::default(),
        }
    }

    /// The label of a project: the number of labels is limited.
    fn project(&self, name: &str) -> String {
        let mut known = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(name) {
            if known.len() >= self.n_projects_most {
                return "other".to_owned();
            }
            known.insert(name.to_owned());
        }
        name.to_owned()
    }

    /// Counts a change of state.
    pub fn passed(&self, it: &Passage<'_>) {
        let Passage { spec, from, to, pool, .. } = it;
        if to.is_array {
            return;
        }
        let project = ("project", self.project(spec.project.as_str()));
        let code = to.why.as_ref().map_or("none", |why| why.code).to_owned();
        let before = from.map(|from| (from.state, from.since));
        match (to.state, before) {
            (JobState::Starting, Some((before, since))) => {
                // A released job can start in the same commit: it was not pending.
                let since = if before == JobState::Pending { since } else { to.since };
                let pool = pool.map_or_else(String::new, ToString::to_string);
                let size = ("size_class", size_class(to.milli).to_owned());
                let labels = vec![("pool", pool), project, size];
                self.waits.get_or_create(&labels).observe(seconds(since, to.since));
            }
            (JobState::Running, Some((JobState::Starting, since))) => {
                self.started.get_or_create(&vec![project]).inc();
                self.start_latency.observe(seconds(since, to.since));
            }
            (JobState::Paused, _) => {
                self.paused.get_or_create(&vec![("reason", code)]).inc();
            }
            (state, _) if state.is_end() => {
                let result = ("result", state.as_str().to_owned());
                let labels = vec![result.clone(), ("cause", code), project];
                self.finished.get_or_create(&labels).inc();
                if let Some(started_at) = to.started_at {
                    let ran = seconds(started_at, to.since);
                    self.runs.get_or_create(&vec![result]).observe(ran);
                }
            }
            _ => {}
        }
        if from.is_some_and(|from| from.attempt < to.attempt) {
            let why = to.why.as_ref().map_or("other", |why| why.code);
            self.retried.get_or_create(&vec![("why", why.to_owned())]).inc();
        }
    }

    /// Counts a decision of the scheduler.
    pub fn decided(&self, kind: &'static str) {
        self.decisions.get_or_create(&vec![("kind", kind.to_owned())]).inc();
    }

    pub fn evicted(&self, why: TakenBack) {
        self.evicted.get_or_create(&vec![("reason", why.as_str().to_owned())]).inc();
    }

    /// Counts a commit, with the time until it was durable.
    pub fn committed(&self, took: Duration) {
        self.writes.observe(took.as_secs_f64());
    }

    /// Counts a step of the core.
    pub fn stepped(&self, took: Duration) {
        self.steps.observe(took.as_secs_f64());
    }

    /// Adds the GPU time of a look at the devices, and its cost at the present prices.
    pub fn looked(&self, passed: Duration, look: &UsageSnapshot) {
        let UsageSnapshot { devices, prices, .. } = look;
        for device in devices {
            for held in device.held.iter().filter(|held| held.job.is_some()) {
                let part = f64::from(u32::try_from(held.milli).unwrap_or(1000)) / 1000.0;
                let time = passed.as_secs_f64() * part;
                let project = ("project", self.project(&held.project));
                let labels = vec![project.clone(), ("model", device.model.clone())];
                self.held.get_or_create(&labels).inc_by(time);
                if let Some(price) = prices.of(&device.node, &device.pool, &device.model) {
                    let currency = ("currency", prices.currency.clone());
                    let labels = [&labels[..], &[currency]].concat();
                    self.cost.get_or_create(&labels).inc_by(units(price) * time / HOUR);
                }
                let Some(percent) = held.busy_percent else { continue };
                let busy = time * f64::from(percent.min(100)) / 100.0;
                self.busy.get_or_create(&labels).inc_by(busy);
                let labels = vec![project, ("kind", held.kind.clone())];
                self.idle.get_or_create(&labels).inc_by(time - busy);
            }
        }
    }

    /// Adds the counters to a page.
    pub fn add_to(&self, page: &mut Registry) {
        let counters = [
            ("gpool_jobs_started", "Jobs that started to run", &self.started),
            ("gpool_jobs_finished", "Jobs that ended", &self.finished),
            ("gpool_jobs_evicted", "Evictions, by reason", &self.evicted),
            ("gpool_jobs_paused", "Pauses of jobs, by reason", &self.paused),
            ("gpool_jobs_retried", "New attempts of jobs, by reason", &self.retried),
            ("gpool_decisions", "Decisions of the scheduler", &self.decisions),
        ];
        for (name, help, family) in counters {
            page.register(name, help, family.clone());
        }
        let sums = [
            ("gpool_gpu_held_seconds", "GPU time of jobs", &self.held),
            ("gpool_gpu_busy_seconds", "GPU time of jobs with a running kernel", &self.busy),
            ("gpool_gpu_idle_held_seconds", "GPU time of jobs without a kernel", &self.idle),
            ("gpool_cost", "Cost of the GPU time of jobs, without energy", &self.cost),
        ];
        for (name, help, family) in sums {
            page.register(name, help, family.clone());
        }
        let wait = "Time that a job was pending before it got its GPUs";
        page.register("gpool_wait_seconds", wait, self.waits.clone());
        page.register("gpool_job_run_seconds", "Run time of ended jobs", self.runs.clone());
        let histograms = [
            (
                "gpool_start_latency_seconds",
                "Time from the decision to start a job to the start of its program",
                &self.start_latency,
            ),
            ("gpool_store_write_seconds", "Time until a commit was durable", &self.writes),
            (
                "gpool_step_seconds",
                "Time of a step of the core: events, scheduling, effects",
                &self.steps,
            ),
        ];
        for (name, help, histogram) in histograms {
            page.register(name, help, histogram.clone());
        }
    }
}

/// The class of a job by its GPUs.
fn size_class(milli: u64) -> &'static str {
    match milli {
        0 => "none",
        1..=999 => "fraction",
        1000 => "1",
        1001..=8000 => "2-8",
        _ => "9+",
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    Duration::from_millis(to.since(from).get()).as_secs_f64()
}
