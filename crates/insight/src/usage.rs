//! Utilization over time, in a store of its own. No decision reads it, and if it fails, jobs and
//! scheduling are unaffected.

pub mod cost;
pub mod course;
pub mod grid;
pub mod hosts;
pub mod idle;
pub mod minutes;
pub mod nodes;
pub mod tenure;
pub mod wasted;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gpool_history::{
    Chart, DeviceSeries, Dimension, History, JobSeries, Minute, Reader, ReportQuery, ReportRow,
    Settings, Span, Step, Totals,
};
use gpool_model::{Refusal, Timestamp};

use self::idle::{IdleParts, JobOutcome};
use self::minutes::Collected;
use crate::internal;
use crate::now;

/// Points of a job's utilization that are read to find its idle time: a week of minutes.
const IDLE_POINTS: usize = 7 * 24 * 60;

/// The history store, for readers.
#[derive(Debug)]
pub struct UsageHistory {
    path: PathBuf,
    fault: Mutex<Option<String>>,
}

impl UsageHistory {
    /// The store in a state directory; it may not exist yet.
    pub fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join("usage").join("history.db"), fault: Mutex::default() }
    }

    /// Why minutes are lost now; `None` while all is well.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sums of GPU time; no rows before the first minute.
    ///
    /// # Errors
    /// The store cannot be read, or the report is too large.
    pub fn report(&self, report: &ReportQuery<'_>) -> Result<Vec<ReportRow>, Refusal> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let mut rows = Reader::new(&self.path).report(report).map_err(internal)?;
        // Guarantees are those of projects, and no part of a user or model has one.
        if report.by.iter().any(|by| *by != Dimension::Project) {
            rows.retain(|ReportRow { totals, .. }| {
                let guaranteed_ms = totals.guaranteed_ms;
                *totals != Totals { guaranteed_ms, ..Totals::default() }
            });
        }
        Ok(rows)
    }

    /// Series of devices, a line of each series for each device; `None` before the first minute.
    ///
    /// # Errors
    /// The store cannot be read, or the chart is too large.
    pub fn devices(
        &self,
        devices: &[&str],
        series: &[DeviceSeries],
        span: Span,
        step: Step,
    ) -> Result<Option<Chart>, Refusal> {
        if !self.path.exists() {
            return Ok(None);
        }
        Reader::new(&self.path).devices(devices, series, span, step).map(Some).map_err(internal)
    }

    /// All series of a job, and its metrics; `None` before the first minute.
    ///
    /// # Errors
    /// The store cannot be read, or the chart is too large.
    pub fn job(&self, job: &str, span: Span, step: Step) -> Result<Option<[Chart; 2]>, Refusal> {
        if !self.path.exists() {
            return Ok(None);
        }
        let reader = Reader::new(&self.path);
        let series = reader.jobs(&[job], &JobSeries::ALL, span, step).map_err(internal)?;
        Ok(Some([series, reader.metrics(job, span, step).map_err(internal)?]))
    }

    /// The last recorded value of each metric of a job, with its minute, by name. A job is also
    /// shown if the store cannot be read.
    pub fn last_metrics(&self, job: &str) -> BTreeMap<String, (Minute, f64)> {
        if !self.path.exists() {
            return BTreeMap::new();
        }
        Reader::new(&self.path).last_metrics(job).unwrap_or_default()
    }

    /// The same for each element of an array that has metrics, by element and name.
    pub fn last_metrics_of_elements(
        &self,
        array: &str,
    ) -> BTreeMap<(String, String), (Minute, f64)> {
        if !self.path.exists() {
            return BTreeMap::new();
        }
        Reader::new(&self.path).last_metrics_of_elements(array).unwrap_or_default()
    }

    /// The mean utilization of jobs over the recorded minutes of a range, in the order of the jobs;
    /// `None` for a job without any.
    ///
    /// # Errors
    /// The store cannot be read, or the range is too large.
    pub fn utilization_of_jobs(
        &self,
        jobs: &[&str],
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<Option<f64>>, Refusal> {
        if !self.path.exists() {
            return Ok(vec![None; jobs.len()]);
        }
        let span = Span { from: minute_of(from), to: minute_of(to).after(1) };
        let step = Step::fitting(span, 1);
        let series = [JobSeries::GpuUtilization];
        let chart = Reader::new(&self.path).jobs(jobs, &series, span, step).map_err(internal)?;
        Ok(chart.lines.iter().map(nodes::mean).collect())
    }

    /// The GPU time of a job on each node.
    ///
    /// # Errors
    /// The store cannot be read, or the range is too large.
    pub fn nodes_of_job(
        &self,
        job: &str,
        (from, to): (Timestamp, Timestamp),
    ) -> Result<Vec<(String, Totals)>, Refusal> {
        let rows = self.report(&ReportQuery {
            span: Span { from: minute_of(from), to: minute_of(to).after(1) },
            step: None,
            by: &[Dimension::Node],
            only: &[(Dimension::Job, job)],
            n_groups: usize::MAX,
        })?;
        let named = |row: ReportRow| Some((row.names?.pop()?, row.totals));
        let mut nodes: Vec<_> = rows.into_iter().filter_map(named).collect();
        nodes.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(nodes)
    }

    /// When a job did not use its GPUs; `None` if that was not recorded.
    pub fn idle_of_job(
        &self,
        job: &str,
        (from, to): (Timestamp, Timestamp),
        ended: JobOutcome,
    ) -> Result<Option<IdleParts>, Refusal> {
        if !self.path.exists() {
            return Ok(None);
        }
        let span = Span { from: minute_of(from), to: minute_of(to).after(1) };
        let step = Step::fitting(span, IDLE_POINTS);
        let series = [JobSeries::GpuUtilization];
        let chart = Reader::new(&self.path).jobs(&[job], &series, span, step);
        let chart = chart.map_err(internal)?;
        Ok(chart.lines.first().and_then(|line| idle::parts(&line.points, ended)))
    }

    /// Writes a minute. A store that fails is opened again for the next minute.
    pub fn write(&self, store: &mut Option<History>, minute: &Collected) {
        let written = self.try_write(store, minute);
        let fault = written.err().map(|error| format!("utilization is not recorded: {error}"));
        if fault.is_some() {
            *store = None;
        }
        let mut known = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != fault {
            match &fault {
                Some(why) => tracing::warn!("{why}"),
                None => tracing::info!("utilization is recorded again"),
            }
            *known = fault;
        }
    }

    fn try_write(
        &self,
        store: &mut Option<History>,
        minute: &Collected,
    ) -> Result<(), gpool_history::Error> {
        let history = match store {
            Some(history) => history,
            None => {
                let (history, damage) = History::open(&self.path, Settings::default())?;
                if let Some(why) = damage {
                    tracing::warn!(why, "the history of utilization was damaged; began a new one");
                }
                store.insert(history)
            }
        };
        let now = this_minute();
        let appended = minute.with_batch(|batch| history.append(now, minute.minute, batch))?;
        if let Some(why) = appended.recreated {
            tracing::warn!(why, "the history of utilization was lost; began a new one");
        }
        while history.maintain(now)?.n_sealed > 0 {}
        Ok(())
    }
}

/// The minute of the wall clock.
pub fn this_minute() -> Minute {
    minute_of(now())
}

pub fn minute_of(at: Timestamp) -> Minute {
    Minute::from_unix_seconds(i64::try_from(at.get() / 1000).unwrap_or(i64::MAX))
}
