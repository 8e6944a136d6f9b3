//! GPU time that jobs held without running kernels.

use gpool_model::record::EndedJob;
use gpool_model::{GpuTime, JobId, Phase, Refusal, Timestamp};
use gpool_world::JobRow;

use crate::now;
use crate::usage::UsageHistory;

/// The utilization of this many running jobs is read: those with the most GPU time.
const RUNNING_MAX: usize = 500;

/// A job with its GPU time and the part of it without running kernels.
#[derive(Debug, Clone, Copy)]
pub struct Wasted {
    pub job: JobId,
    /// The GPU time that it held.
    pub time: GpuTime,
    /// The part of the time with running kernels, 0 to 1.
    pub utilization: f64,
    /// The GPU time without running kernels, in the unit of [`GpuTime`].
    pub idle: f64,
}

impl Wasted {
    fn new(job: JobId, time: GpuTime, utilization: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "it only sorts the list")]
        let idle = time.get() as f64 * (1.0 - utilization);
        Self { job, time, utilization, idle }
    }

    /// An ended job; `None` if its utilization was not measured.
    pub fn of_ended(ended: &EndedJob) -> Option<Self> {
        let Phase::Ended(end) = &ended.job.phase else { return None };
        let gpu = end.usage.gpu.filter(|gpu| !gpu.measured.is_zero())?;
        let time = ended.job.array.as_ref().map_or_else(|| (&**end).into(), |it| it.totals);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let utilization = gpu.busy.get() as f64 / gpu.measured.get() as f64;
        Some(Self::new(ended.job.id, time.gpu_time, utilization.min(1.0)))
    }
}

/// A running job: its ID, its GPU time up to now, and its start.
pub type Runs = (JobId, GpuTime, Timestamp);

/// The jobs with the most GPU time among those that run.
pub fn running<'a>(rows: impl Iterator<Item = &'a JobRow>, now: Timestamp) -> Vec<Runs> {
    let runs = rows.filter(|row| !row.job.phase.allocations().is_empty());
    let mut all: Vec<Runs> = runs
        .filter_map(|row| Some((row.job.id, row.job.attained(now), row.job.started_at()?)))
        .collect();
    all.sort_by_key(|(job, time, _)| (std::cmp::Reverse(*time), *job));
    all.truncate(RUNNING_MAX);
    all
}

/// The mean utilization of running jobs, from the recorded minutes.
pub fn measured(store: &UsageHistory, running: Vec<Runs>) -> Result<Vec<Wasted>, Refusal> {
    let Some(first) = running.iter().map(|(_, _, started)| *started).min() else {
        return Ok(Vec::new());
    };
    let ids: Vec<String> = running.iter().map(|(job, _, _)| job.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let means = store.utilization_of_jobs(&ids, first, now())?;
    let rows = running.into_iter().zip(means);
    Ok(rows.filter_map(|((job, time, _), mean)| Some(Wasted::new(job, time, mean?))).collect())
}

/// Keeps the jobs with the most idle time, most first.
pub fn largest(all: &mut Vec<Wasted>, n_rows: usize) {
    all.sort_by(|one, other| other.idle.total_cmp(&one.idle).then(one.job.cmp(&other.job)));
    all.truncate(n_rows);
}
