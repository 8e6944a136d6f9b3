//! How much GPU-time a job has had, and at which level of the order that puts it.

use crate::job::{Job, JobSpec, Phase};
use crate::policy::{OrderKey, Policy};
use crate::resource::ResourceKind;
use crate::unit::{GpuTime, MilliGpu, Millis, Timestamp};

/// A level of the order by GPU-time: jobs that have had less are at a lower one and go first.
pub type Level = u8;

impl Job {
    /// How much of devices it holds.
    #[must_use]
    pub fn gpus_held(&self) -> MilliGpu {
        let gpus = self.phase.allocations().iter().map(|it| it.resources.get(&ResourceKind::Gpu));
        MilliGpu::new(gpus.fold(0, u64::saturating_add))
    }

    /// How much of devices it was given, though it may be paused and hold none now.
    #[must_use]
    pub fn gpus_given(&self) -> MilliGpu {
        let slots = self.phase.allocations().iter().flat_map(|it| &it.slots);
        let charges = slots.map(|slot| slot.part.charge().get());
        MilliGpu::new(charges.fold(0, u64::saturating_add))
    }

    /// When the attempt that it is in started, if it has.
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

    /// All GPU-time that it has had by `now`, in all its attempts.
    #[must_use]
    pub fn attained(&self, now: Timestamp) -> GpuTime {
        let held = self.started_at().map(|at| {
            let ran = match &self.phase {
                Phase::Paused { .. } => self.ran(now),
                _ => now.since(at).saturating_sub(self.course.paused),
            };
            GpuTime::of(self.gpus_given(), ran)
        });
        self.course.attained.saturating_add(held.unwrap_or_default())
    }

    /// The part of it that counts in the order.
    #[must_use]
    pub fn counted(&self, now: Timestamp) -> GpuTime {
        self.attained(now).saturating_sub(self.course.forgiven)
    }
}

impl Policy {
    /// Most levels that a policy may tell apart.
    pub const LEVELS_MOST: usize = 8;

    /// Whether its order asks how much GPU-time jobs have had.
    #[must_use]
    pub fn asks_attained(&self) -> bool {
        self.order.contains(&OrderKey::Attained)
    }

    /// The level of a job that has had so much: how many of the bounds it has reached.
    #[must_use]
    pub fn level(&self, had: GpuTime) -> Level {
        let n_reached = self.attained_levels.iter().filter(|bound| **bound <= had).count();
        Level::try_from(n_reached).unwrap_or(Level::MAX)
    }

    /// By how much later than others a job is escalated for having run so long: twice that, so
    /// that one which is put back each time waits longer each time.
    #[must_use]
    pub fn escalates_later_by(&self, had: GpuTime, gpus: MilliGpu) -> Millis {
        match self.asks_attained() && !had.is_zero() {
            true => Millis::new(had.lasts(gpus).get().saturating_mul(2)),
            false => Millis::ZERO,
        }
    }

    /// How many others at most may be made to stop so that they move, or some of them, for a job
    /// that waits. It is one more each time that it has waited for twice as long as what was
    /// started is left to run: room may come by itself, and whoever pays for it by waiting first
    /// makes others pay no more than that (ski rental; Karlin et al., Competitive Snoopy Caching,
    /// 1988).
    #[must_use]
    pub fn n_moved_for(&self, job: &Job, spec: &JobSpec, now: Timestamp) -> u64 {
        let waited = self.may_wait_for_moves(job, spec).map(|(since, _)| now.since(since));
        let wait = self.wait_for_a_move().get();
        waited.map_or(0, |it| it.get().checked_div(wait).unwrap_or(u64::MAX))
    }

    /// When that becomes one more, as often as it matters.
    pub fn moments_of_moves(&self, job: &Job, spec: &JobSpec) -> impl Iterator<Item = Timestamp> {
        let wait = self.wait_for_a_move();
        let waits = self.may_wait_for_moves(job, spec).into_iter();
        waits.flat_map(move |(since, n_devices)| {
            let n = if wait.is_zero() { 1 } else { u64::from(n_devices) };
            (1..=n).map(move |n| since.after(Millis::new(wait.get().saturating_mul(n))))
        })
    }

    /// Since when a job waits for which others might be moved, and for how many devices.
    fn may_wait_for_moves(&self, job: &Job, spec: &JobSpec) -> Option<(Timestamp, u32)> {
        let n_devices = spec.gpus.n_devices().saturating_mul(spec.gang.nodes);
        let may_help = self.consolidate && n_devices > 0 && spec.gpus.share().is_none();
        match &job.phase {
            Phase::Pending { since } if may_help => Some((*since, n_devices)),
            _ => None,
        }
    }

    /// For how long a job waits for each other one that would have to move for it.
    #[must_use]
    pub fn wait_for_a_move(&self) -> Millis {
        Millis::new(self.min_run.get().saturating_mul(2))
    }

    /// When a running job may first be made to give way to one that has had less, and when it
    /// reaches each further level.
    pub fn rotation_moments(&self, job: &Job) -> impl Iterator<Item = Timestamp> {
        let since = match &job.phase {
            Phase::Starting { since, .. } => Some((*since, false)),
            Phase::Running { started_at, .. } => Some((*started_at, true)),
            _ => None,
        };
        let (gpus, before) = (job.gpus_held(), job.counted(Timestamp::ZERO));
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
