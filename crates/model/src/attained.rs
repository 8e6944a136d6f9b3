//! The GPU time that a job has attained, and its level in the queue order by attained GPU time.

use crate::job::{Job, JobSpec, Phase};
use crate::policy::{OrderKey, Policy};
use crate::resource::ResourceKind;
use crate::unit::{GpuTime, MilliGpu, Millis, Timestamp};

/// A level in the queue order by attained GPU time: jobs with less are at a lower level and go
/// first.
pub type Level = u8;

impl Job {
    /// The GPUs that it holds now.
    #[must_use]
    pub fn gpus_held(&self) -> MilliGpu {
        let gpus = self.phase.allocations().iter().map(|it| it.resources.get(&ResourceKind::Gpu));
        MilliGpu::new(gpus.fold(0, u64::saturating_add))
    }

    /// The GPUs that it was given; a paused job holds none of them now.
    #[must_use]
    pub fn allocated_gpus(&self) -> MilliGpu {
        let slots = self.phase.allocations().iter().flat_map(|it| &it.slots);
        let charges = slots.map(|slot| slot.part.charge().get());
        MilliGpu::new(charges.fold(0, u64::saturating_add))
    }

    /// When its present attempt started; `None` if it has not.
    #[must_use]
    pub fn started_at(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Running { started_at, .. } | Phase::Paused { started_at, .. } => {
                Some(*started_at)
            }
            Phase::Stopping { started_at, .. } => *started_at,
            _ => None,
        }
    }

    /// The GPU time attained by `now` in all attempts.
    #[must_use]
    pub fn attained(&self, now: Timestamp) -> GpuTime {
        let held = self.started_at().map(|at| {
            let ran = match &self.phase {
                Phase::Paused { .. } => self.ran(now),
                _ => now.since(at).saturating_sub(self.course.paused),
            };
            GpuTime::of(self.allocated_gpus(), ran).corrected(self.course.resized)
        });
        self.course.attained.saturating_add(held.unwrap_or_default())
    }

    /// The part of the attained GPU time that counts in the queue order.
    #[must_use]
    pub fn net_gpu_time(&self, now: Timestamp) -> GpuTime {
        self.attained(now).saturating_sub(self.course.forgiven)
    }
}

impl Policy {
    /// The most levels of a policy.
    pub const LEVELS_MOST: usize = 8;

    /// Whether the queue order uses attained GPU time.
    #[must_use]
    pub fn asks_attained(&self) -> bool {
        self.order.contains(&OrderKey::Attained)
    }

    /// The level of a job with the given attained GPU time: the number of bounds that it has
    /// reached.
    #[must_use]
    pub fn level(&self, had: GpuTime) -> Level {
        let n_reached = self.attained_levels.iter().filter(|bound| **bound <= had).count();
        Level::try_from(n_reached).unwrap_or(Level::MAX)
    }

    /// How much later than others a job is escalated because it has already run: twice its past run
    /// time, so a job that is requeued repeatedly waits longer each time.
    #[must_use]
    pub fn escalates_later_by(&self, had: GpuTime, gpus: MilliGpu) -> Millis {
        match self.asks_attained() && !had.is_zero() {
            true => Millis::new(had.lasts(gpus).get().saturating_mul(2)),
            false => Millis::ZERO,
        }
    }

    /// The most victims that consolidation may stop for a waiting job. It grows by one each time
    /// the job has waited for twice the minimum run time: capacity may become free by itself, and a
    /// job that pays by waiting first costs others no more than that (ski rental; Karlin et al.,
    /// Competitive Snoopy Caching, 1988).
    #[must_use]
    pub fn n_moved_for(&self, job: &Job, spec: &JobSpec, now: Timestamp) -> u64 {
        let waited = self.may_wait_for_moves(job, spec).map(|(since, _)| now.since(since));
        let wait = self.wait_for_a_move().get();
        waited.map_or(0, |it| it.get().checked_div(wait).unwrap_or(u64::MAX))
    }

    /// The times at which that number grows, as far as it matters.
    pub fn moments_of_moves(&self, job: &Job, spec: &JobSpec) -> impl Iterator<Item = Timestamp> {
        let wait = self.wait_for_a_move();
        let waits = self.may_wait_for_moves(job, spec).into_iter();
        waits.flat_map(move |(since, n_devices)| {
            let n = if wait.is_zero() { 1 } else { u64::from(n_devices) };
            (1..=n).map(move |n| since.after(Millis::new(wait.get().saturating_mul(n))))
        })
    }

    /// Since when a job waits for consolidation, and for how many devices.
    fn may_wait_for_moves(&self, job: &Job, spec: &JobSpec) -> Option<(Timestamp, u32)> {
        let whole = spec.shapes().filter(|(gpus, _)| gpus.share().is_none());
        let n_devices = whole.map(|(gpus, gang)| gpus.n_devices().saturating_mul(gang.nodes));
        let n_devices = n_devices.fold(0, u32::saturating_add);
        let may_help = self.consolidate && n_devices > 0;
        match &job.phase {
            Phase::Pending { since } if may_help => Some((*since, n_devices)),
            _ => None,
        }
    }

    /// How long a job waits for each victim of consolidation.
    #[must_use]
    pub fn wait_for_a_move(&self) -> Millis {
        Millis::new(self.min_run.get().saturating_mul(2))
    }

    /// When a job with less attained GPU time may first preempt a running job, and when the running
    /// job reaches each further level.
    pub fn rotation_moments(&self, job: &Job) -> impl Iterator<Item = Timestamp> {
        let since = match &job.phase {
            Phase::Starting { since, .. } => Some((*since, false)),
            Phase::Running { started_at, .. } => Some((*started_at, true)),
            _ => None,
        };
        let (gpus, before) = (job.gpus_held(), job.net_gpu_time(Timestamp::ZERO));
        let since = since.filter(|_| self.asks_attained() && !gpus.is_zero());
        let rested = since.map(|(at, _)| at.after(self.min_run));
        let bounds = self.attained_levels.iter().filter(move |bound| **bound > before);
        let reached = move |bound: &GpuTime| {
            let (at, _) = since.filter(|(_, runs)| *runs)?;
            Some(at.after(bound.saturating_sub(before).lasts(gpus)))
        };
        rested.into_iter().chain(bounds.filter_map(reached))
    }
}
