//! GPU-hours and CPU-hours as text.

use gpool_wire::Job;

use super::words::grouped;

/// Allocated GPUs times hours of a job; `None` before it has started.
#[must_use]
pub fn gpu_hours(job: &Job) -> Option<f64> {
    job.run.started_at.map(|_| job.usage.gpu_hours)
}

/// Hours, rounded to the significant digits: `0.05`, `1.4`, `812`.
#[must_use]
pub fn figure(hours: f64) -> String {
    match hours {
        hours if hours >= 99.95 => grouped(whole(hours)),
        hours if hours >= 9.95 => format!("{hours:.1}"),
        hours => format!("{hours:.2}"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn whole(hours: f64) -> u64 {
    hours.round().clamp(0.0, 1e15) as u64
}
