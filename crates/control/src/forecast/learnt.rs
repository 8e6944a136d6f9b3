//! What is learnt from how earlier forecasts held: of each job that starts, what was told first is
//! held against when it did. By it the last moment is moved, so that nine of ten jobs start
//! before, and the middle, so that half of them do.

use std::collections::BTreeMap;

use gpool_model::{Eta, JobId, Millis, Timestamp, Version};
use serde::{Deserialize, Serialize};

/// What was learnt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learnt {
    /// By how long before the start it was told.
    pub buckets: Vec<Bucket>,
    /// What was told first of jobs that have not started.
    pub told: BTreeMap<JobId, Told>,
}

/// How forecasts of one lead time held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// From the telling to the middle that was told: so long at least.
    pub lead_from: Millis,
    /// Jobs that have started.
    pub n: u64,
    /// Of those, at their p90 or before.
    pub n_by_p90: u64,
    /// Of those, before their p10.
    pub n_before_p10: u64,
    /// Of those, at their middle or before.
    pub n_by_p50: u64,
    /// Milliseconds by which they started after their middle, together.
    pub late_ms: i64,
    /// By what the way from now to p90 is multiplied, in thousandths.
    pub factor: u64,
    /// The same for the way from now to the middle.
    #[serde(default = "one")]
    pub factor_p50: u64,
}

fn one() -> u64 {
    Learnt::ONE
}

/// What was told of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// When.
    pub at: Timestamp,
    /// The version that the job had: what its user changes since is nobody's error.
    pub version: Version,
    /// From then to the middle as it was before anything learnt moved it.
    #[serde(default)]
    pub lead: Millis,
    /// See [`Eta::p10`].
    pub p10: Timestamp,
    /// See [`Eta::p50`].
    pub p50: Timestamp,
    /// See [`Eta::p90`].
    pub p90: Timestamp,
}

impl Default for Learnt {
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
        Self { buckets: Self::LEADS.map(bucket).to_vec(), told: BTreeMap::new() }
    }
}

impl Learnt {
    /// A factor that changes nothing.
    pub const ONE: u64 = 1000;
    /// What lead times are told apart.
    const LEADS: [Millis; 5] = [
        Millis::ZERO,
        Millis::from_mins(1),
        Millis::from_mins(10),
        Millis::from_hours(1),
        Millis::from_hours(6),
    ];
    /// So many jobs are remembered for what was told of them.
    const TOLD_MAX: usize = 10_000;
    /// A start within this of what was told is on time: the planner and the node need a moment.
    const MOMENT: Millis = Millis::from_secs(2);
    /// By one start after its p90 the factor grows by so many steps, by one before it shrinks by
    /// one. It rests where one in fourteen is late: queues build up faster than starts tell of
    /// it, so that with nine steps, where one in ten is, one in six is late in fact.
    ///
    /// Source: adaptive conformal inference, Gibbs and Candès, 2021.
    const STEP: u64 = 20;
    const STEPS_UP: u64 = 13;
    /// By one start after its middle its factor grows by so much, by one before it shrinks by as
    /// much.
    const STEP_P50: u64 = 4;
    const FACTOR_LEAST: u64 = 250;
    const FACTOR_MOST: u64 = 8000;

    /// Remembers what is told of a job first, since its user changed it last; one that starts at
    /// once is no forecast. `lead` is how far ahead its middle was before it was corrected.
    pub fn tell(
        &mut self,
        (job, version): (JobId, Version),
        (eta, lead): (&Eta, Millis),
        at: Timestamp,
    ) {
        let (Some(p10), Some(p50), Some(p90)) = (eta.p10, eta.p50, eta.p90) else { return };
        if p90.since(at) <= Self::MOMENT {
            return;
        }
        if self.told.get(&job).is_some_and(|told| told.version == version) {
            return;
        }
        if self.told.len() < Self::TOLD_MAX || self.told.contains_key(&job) {
            self.told.insert(job, Told { at, version, lead, p10, p50, p90 });
        }
    }

    /// Holds a start against what was told; true if anything was.
    pub fn started(&mut self, job: JobId, at: Timestamp) -> bool {
        let Some(told) = self.told.remove(&job) else { return false };
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

    /// Forgets jobs that will not be held against anything: those that no longer wait.
    pub fn keep_told(&mut self, still_waits: impl Fn(JobId) -> bool) {
        self.told.retain(|job, _| still_waits(*job));
    }

    /// The estimate with its middle and its last moment moved by what was learnt; neither is before
    /// the one before it.
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

    /// Whether it is as this version writes it; another one's is not used.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.buckets.iter().map(|bucket| bucket.lead_from).eq(Self::LEADS)
            && self
                .buckets
                .iter()
                .all(|bucket| (Self::FACTOR_LEAST..=Self::FACTOR_MOST).contains(&bucket.factor))
    }
}
