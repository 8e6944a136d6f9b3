//! When waiting jobs will likely start, as the API says it, and how well it was said before.

use gpool_model::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Time;

/// When a job will likely start: three moments, each at most the next. `null` for one that lies
/// beyond `later_than`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "p10": "2026-11-20T15:30:00.000Z", "p50": "2026-11-20T15:52:00.000Z",
    "p90": "2026-11-20T16:09:00.000Z", "basis": "limit", "as_of": "2026-11-20T14:50:02.000Z",
    "later_than": null, "planned_at": null
}))]
pub struct Eta {
    /// Hardly earlier.
    pub p10: Option<Time>,
    /// As likely earlier as later.
    pub p50: Option<Time>,
    /// Hardly later.
    pub p90: Option<Time>,
    /// What the ends of other jobs were taken from: `limit`, `predicted` or `mixed`.
    pub basis: String,
    /// When this was worked out.
    pub as_of: Time,
    /// As far as was looked, where one of the moments lies beyond.
    pub later_than: Option<Time>,
    /// Its planned start: later jobs never delay it. `null` where the moments are a forecast alone,
    /// which jobs that come later may change.
    #[serde(default)]
    pub planned_at: Option<Time>,
}

impl Eta {
    /// An estimate of the model, worked out at that moment.
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

/// The last forecast, and how well earlier ones held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForecastState {
    /// Grows with each forecast since the server started; 0 before the first.
    pub version: u64,
    /// When it was made.
    pub as_of: Option<Time>,
    /// As far as it looks.
    pub horizon: Option<Time>,
    /// Jobs of which it says when they start.
    pub n_jobs: u64,
    /// Jobs that wait and that it does not reach.
    pub n_beyond: u64,
    /// Seconds that it took.
    pub took_s: f64,
    /// Forecasts that failed since the server started; the last one before stays.
    pub n_failed: u64,
    /// Jobs whose start is still to be held against what was told.
    pub n_told: u64,
    /// How well it held, by how long before the start it was told.
    pub calibration: Vec<Calibration>,
}

/// How well what was told first held for the jobs of one lead time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Calibration {
    /// Seconds from the telling to the middle that was told, at least.
    pub lead_from_s: f64,
    /// Seconds, below; `null` for the last.
    pub lead_below_s: Option<f64>,
    /// Jobs that have started.
    pub n: u64,
    /// Of those, the ones that started at their p90 or before.
    pub n_by_p90: u64,
    /// Of those, the ones that started before their p10.
    pub n_before_p10: u64,
    /// Of those, the ones that started at their middle or before; half of them, if it is right.
    pub n_by_p50: u64,
    /// Seconds by which they started after their middle, on average; below 0 is before.
    pub bias_s: f64,
    /// By what the way from now to p90 is multiplied, from what was learnt.
    pub factor: f64,
    /// The same for the way from now to the middle.
    pub factor_p50: f64,
}
