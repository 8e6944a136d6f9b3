//! Forecasts of start times in the API, and how accurate earlier forecasts were.

use gpool_model::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Time;

/// Forecast start of a waiting job: three percentiles in ascending order. `null` for a percentile
/// after `later_than`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "p10": "2026-11-20T15:30:00.000Z", "p50": "2026-11-20T15:52:00.000Z",
    "p90": "2026-11-20T16:09:00.000Z", "basis": "limit", "as_of": "2026-11-20T14:50:02.000Z",
    "later_than": null, "planned_at": null
}))]
pub struct Eta {
    /// 10th percentile of the start time.
    pub p10: Option<Time>,
    /// Median of the start time.
    pub p50: Option<Time>,
    /// 90th percentile of the start time.
    pub p90: Option<Time>,
    /// Source of the end times of running jobs: `limit`, `predicted` or `mixed`.
    pub basis: String,
    /// Time at which the server computed the forecast.
    pub as_of: Time,
    /// Horizon of the forecast, if a percentile lies after it.
    pub later_than: Option<Time>,
    /// Planned start: later jobs never delay it. `null` if there is only a forecast, which later
    /// jobs may change.
    #[serde(default)]
    pub planned_at: Option<Time>,
}

impl Eta {
    /// Converts an estimate of the model, computed at `as_of`.
    #[must_use]
    pub fn new(eta: gpool_model::Eta, as_of: Timestamp) -> Self {
        let is_whole = eta.p10.is_some() && eta.p50.is_some() && eta.p90.is_some();
        Self {
            p10: eta.p10.map(Time),
            p50: eta.p50.map(Time),
            p90: eta.p90.map(Time),
            basis: eta.basis.as_str().to_owned(),
            as_of: Time(as_of),
            later_than: (!is_whole).then_some(Time(eta.horizon)),
            planned_at: None,
        }
    }
}

/// The last forecast, and the accuracy of earlier ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForecastState {
    /// Version of the forecast: grows with each forecast since the server started. 0 before the
    /// first.
    pub version: u64,
    /// Time at which the server computed the forecast.
    pub as_of: Option<Time>,
    /// Horizon of the forecast.
    pub horizon: Option<Time>,
    /// Number of jobs with a forecast start.
    pub n_jobs: u64,
    /// Number of waiting jobs that the forecast does not cover.
    pub n_beyond: u64,
    /// Run time of the forecast in seconds.
    pub took_s: f64,
    /// Number of failed forecasts since the server started. The last successful one stays valid.
    pub n_failed: u64,
    /// Number of jobs with a published forecast that have not started yet.
    pub n_told: u64,
    /// Accuracy of the forecasts, by lead time.
    pub calibration: Vec<Calibration>,
}

/// Accuracy of the first forecasts of the jobs with one lead time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Calibration {
    /// Lower bound of the lead time, from the forecast to the forecast median, in seconds.
    pub lead_from_s: f64,
    /// Upper bound of the lead time (exclusive) in seconds. `null` for the last row.
    pub lead_below_s: Option<f64>,
    /// Number of jobs that have started.
    pub n: u64,
    /// Number of these jobs that started at or before their p90.
    pub n_by_p90: u64,
    /// Number of these jobs that started before their p10.
    pub n_before_p10: u64,
    /// Number of these jobs that started at or before their median. Half of them in a correct
    /// forecast.
    pub n_by_p50: u64,
    /// Average difference between start and forecast median, in seconds. Negative if jobs start
    /// early.
    pub bias_s: f64,
    /// Learned correction: the time from now to p90 is multiplied by this factor.
    pub factor: f64,
    /// Learned correction of the time from now to the median.
    pub factor_p50: f64,
}
