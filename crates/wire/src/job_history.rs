//! The question for the use of a job's devices over time.

use crate::job::Job;
use crate::usage::GpuHistoryParams;

impl GpuHistoryParams {
    /// The use of a job's devices while it had them alone. `None` before the job has devices.
    #[must_use]
    pub fn of_job(job: &Job, points: u32) -> Option<Self> {
        let has_devices = job.placement.iter().any(|task| !task.uuids.is_empty());
        (job.run.started_at.is_some() && has_devices).then(|| Self {
            job: Some(job.id.clone()),
            points: Some(points),
            series: Some("utilization,memory_used,power".to_owned()),
            ..Self::default()
        })
    }
}
