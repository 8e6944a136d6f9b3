//! A replica with what the driver remembers of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::plan::Stage;
use crate::proxy::replica::Replica;
use crate::replicas::ReplicaJob;

/// A replica of the service.
pub struct Member {
    /// Its job.
    pub job: ReplicaJob,
    /// Its stage.
    pub stage: Stage,
    /// Set while its job runs.
    pub live: Option<Arc<Replica>>,
    /// Since when its stage is the same.
    pub since_ms: u64,
    /// Since when it drains, and why.
    pub leaves: Option<(u64, String)>,
    /// Whether gpool has agreed to end it.
    pub is_ended: bool,
}

impl Member {
    /// Whether it has been ready in this run.
    #[must_use]
    pub fn was_ready(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.was_ready.load(Ordering::Relaxed))
    }

    /// Its requests in flight.
    #[must_use]
    pub fn n_in_flight(&self) -> u32 {
        self.live.as_ref().map_or(0, |live| live.n_in_flight.load(Ordering::Relaxed))
    }

    /// Its stage by the one of its job and by its probe.
    #[must_use]
    pub fn stage_by(&self, by_job: Stage) -> Stage {
        if by_job == Stage::Stopping {
            return by_job;
        }
        if self.leaves.is_some() {
            return Stage::Draining;
        }
        match &self.live {
            Some(live) if live.is_ready.load(Ordering::Relaxed) => Stage::Ready,
            Some(_) if self.was_ready() => Stage::Unready,
            _ => by_job,
        }
    }

    /// Why it leaves or waits.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        if let Some((_, why)) = &self.leaves {
            return Some(why.clone());
        }
        let reason = self.job.job.wait.reasons.first();
        reason.filter(|_| self.stage == Stage::Pending).map(|it| it.text.clone())
    }
}
