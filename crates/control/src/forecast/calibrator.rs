//! Calibration of forecasts. For each job that starts, the first forecast is compared with the
//! actual start. The results move later p90s so that nine of ten jobs start before them, and p50s
//! so that half of the jobs do.

use std::collections::BTreeMap;

use gpool_model::{Eta, JobId, Millis, Timestamp, Version};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibrator {
    /// By how long before the start the forecast was made.
    pub buckets: Vec<Bucket>,
    /// The first forecasts of jobs that have not started.
    #[serde(rename = "told")]
    pub first_forecasts: BTreeMap<JobId, FirstForecast>,
}

/// Results of forecasts with one lead time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The least time from the forecast to its median.
    pub lead_from: Millis,
    /// Jobs that have started.
    pub n: u64,
    /// How many of these started at their p90 or before.
    pub n_by_p90: u64,
    /// How many of these started before their p10.
    pub n_before_p10: u64,
    /// How many of these started at their median or before.
    pub n_by_p50: u64,
    /// The sum of milliseconds by which they started after their median.
    pub late_ms: i64,
    /// The factor on the time from now to the p90, in thousandths.
    pub factor: u64,
    /// The factor on the time from now to the median.
    #[serde(default = "one")]
    pub factor_p50: u64,
}

fn one() -> u64 {
    Calibrator::ONE
}

/// The first forecast of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstForecast {
    pub at: Timestamp,
    /// The job's version: an edit by its user is not an error of the forecast.
    pub version: Version,
    /// The time from the forecast to its median, before any correction.
    #[serde(default)]
    pub lead: Millis,
    /// See [`Eta::p10`].
    pub p10: Timestamp,
    /// See [`Eta::p50`].
    pub p50: Timestamp,
    /// See [`Eta::p90`].
    pub p90: Timestamp,
}

impl FirstForecast {
    /// After this time, a job that has not started missed its forecast.
    #[must_use]
    pub fn is_missed_after(&self) -> Timestamp {
        self.p90.after(Calibrator::MOMENT)
    }
}

impl Default for Calibrator {
    fn default() -> Self {
        let bucket = |lead_from| Bucket {
            lead_from,
            n: 0,
            n_by_p90: 0,
            n_before_p10: 0,
            n_by_p50: 0,
            late_ms: 0,
            factor: Self::ONE,
            factor_p50: Self::ONE,
        };
        Self { buckets: Self::LEADS.map(bucket).to_vec(), first_forecasts: BTreeMap::new() }
    }
}

impl Calibrator {
    /// A factor that changes nothing.
    pub const ONE: u64 = 1000;
    /// The bounds between lead times.
    const LEADS: [Millis; 5] = [
        Millis::ZERO,
        Millis::from_mins(1),
        Millis::from_mins(10),
        Millis::from_hours(1),
        Millis::from_hours(6),
    ];
    /// The largest number of jobs with remembered forecasts.
    const FORECASTS_MAX: usize = 10_000;
    /// A start within this of its forecast is on time: the planner and the node take a moment.
    const MOMENT: Millis = Millis::from_secs(2);
    /// A start after its p90 raises the factor by this many steps; a start before it lowers the
    /// factor by one step. The factor settles where one start in fourteen is late. Queues build up
    /// faster than starts show it: with nine steps, meant for one in ten, one in six is late in
    /// fact.
    ///
    /// Source: adaptive conformal inference, Gibbs and Candès, 2021.
    const STEP: u64 = 20;
    const STEPS_UP: u64 = 13;
    /// A start after its median raises the factor by this, and a start before it lowers the factor
    /// by the same.
    const STEP_P50: u64 = 4;
    const FACTOR_LEAST: u64 = 250;
    const FACTOR_MOST: u64 = 8000;

    /// Remembers the first forecast of a job since its user's last edit, unless the job starts at
    /// once. `lead` is the time to the median before its correction.
    pub fn record_forecast(
        &mut self,
        (job, version): (JobId, Version),
        (eta, lead): (&Eta, Millis),
        at: Timestamp,
    ) {
        let (Some(p10), Some(p50), Some(p90)) = (eta.p10, eta.p50, eta.p90) else { return };
        if p90.since(at) <= Self::MOMENT {
            return;
        }
        if self.first_forecasts.get(&job).is_some_and(|told| told.version == version) {
            return;
        }
        if self.first_forecasts.len() < Self::FORECASTS_MAX
            || self.first_forecasts.contains_key(&job)
        {
            self.first_forecasts.insert(job, FirstForecast { at, version, lead, p10, p50, p90 });
        }
    }

    /// Compares a start with its forecast; returns true if there was one.
    pub fn started(&mut self, job: JobId, at: Timestamp) -> bool {
        let Some(told) = self.first_forecasts.remove(&job) else { return false };
        let Some(bucket) = self.bucket_mut(told.lead) else { return false };
        bucket.n += 1;
        bucket.n_before_p10 += u64::from(at.after(Self::MOMENT) < told.p10);
        let is_by_p50 = at <= told.p50.after(Self::MOMENT);
        bucket.n_by_p50 += u64::from(is_by_p50);
        bucket.factor_p50 = match is_by_p50 {
            true => bucket.factor_p50.saturating_sub(Self::STEP_P50).max(Self::FACTOR_LEAST),
            false => bucket.factor_p50.saturating_add(Self::STEP_P50).min(Self::FACTOR_MOST),
        };
        let (at_ms, middle) = (at.get(), told.p50.get());
        let late = i64::try_from(at_ms.abs_diff(middle)).unwrap_or(i64::MAX);
        let late = if at_ms >= middle { late } else { late.saturating_neg() };
        bucket.late_ms = bucket.late_ms.saturating_add(late);
        if at <= told.p90.after(Self::MOMENT) {
            bucket.n_by_p90 += 1;
            bucket.factor = bucket.factor.saturating_sub(Self::STEP).max(Self::FACTOR_LEAST);
        } else {
            let more = bucket.factor.saturating_add(Self::STEPS_UP * Self::STEP);
            bucket.factor = more.min(Self::FACTOR_MOST);
        }
        true
    }

    /// Forgets the forecasts of jobs that no longer wait.
    pub fn retain_forecasts(&mut self, still_waits: impl Fn(JobId) -> bool) {
        self.first_forecasts.retain(|job, _| still_waits(*job));
    }

    /// Returns the estimate with its median and p90 corrected and kept in order.
    #[must_use]
    pub fn corrected(&self, eta: Eta, now: Timestamp) -> Eta {
        let Some(p50) = eta.p50 else { return eta };
        let bucket = self.bucket(p50.since(now));
        let (factor, factor_p50) =
            bucket.map_or((Self::ONE, Self::ONE), |bucket| (bucket.factor, bucket.factor_p50));
        let moved = |at: Timestamp, factor: u64| {
            let way = at.since(now);
            let way = way.checked_mul(factor).map_or(way, |way| way.div_ceil(Self::ONE));
            now.after(way)
        };
        let within = |at: Timestamp| Some(at).filter(|at| *at <= eta.horizon);
        let p10 = eta.p10.unwrap_or(now);
        let p50 = moved(p50, factor_p50).max(p10);
        let p90 = eta.p90.and_then(|p90| within(moved(p90, factor).max(p50)));
        Eta { p50: within(p50), p90, ..eta }
    }

    fn bucket(&self, lead: Millis) -> Option<&Bucket> {
        self.buckets.iter().rev().find(|bucket| bucket.lead_from <= lead)
    }

    fn bucket_mut(&mut self, lead: Millis) -> Option<&mut Bucket> {
        self.buckets.iter_mut().rev().find(|bucket| bucket.lead_from <= lead)
    }

    /// Whether this version wrote the state; the state of another version is not used.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.buckets.iter().map(|bucket| bucket.lead_from).eq(Self::LEADS)
            && self
                .buckets
                .iter()
                .all(|bucket| (Self::FACTOR_LEAST..=Self::FACTOR_MOST).contains(&bucket.factor))
    }
}
