//! The question for the use of a job's devices over time.

use gpool_model::Timestamp;

use crate::job::Job;
use crate::time::Time;
use crate::usage::GpuHistoryParams;

impl GpuHistoryParams {
    /// The use of a job's devices while it ran, without minutes that it did not fill: these belong
    /// to other jobs too, or are not recorded yet. `None` before the job has devices.
    #[must_use]
    pub fn of_job(job: &Job, now: Time, points: u32) -> Option<Self> {
        const MINUTE: u64 = 60_000;
        let uuids = job.placement.iter().flat_map(|task| &task.uuids);
        let uuids: Vec<&str> = uuids.map(String::as_str).collect();
        let since = job.started_at.filter(|_| !uuids.is_empty())?;
        let (mut first, mut last) = (since.0.get(), job.ended_at.unwrap_or(now).0.get());
        if last.saturating_sub(first) > 3 * MINUTE {
            (first, last) = (first + MINUTE - 1, last - MINUTE);
        }
        let [since, until] = [first, last].map(|at| Some(Time(Timestamp::new(at))));
        let series = Some("utilization,memory_used,power".to_owned());
        Some(Self { since, until, points: Some(points), gpus: Some(uuids.join(",")), series })
    }
}
