//! How long jobs like one another ran: a bounded table that drops the likenesses with the oldest
//! ends first.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::job::GpuUsage;
use gpool_model::{Likeness, Millis, PastRuns, Prediction, Timestamp};

/// The run times of ended jobs, for predictions.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// The runs of each likeness, with the prediction that follows from them.
    runs: BTreeMap<Likeness, (PastRuns, Option<Prediction>)>,
    /// The likenesses by their last end.
    by_age: BTreeSet<(Timestamp, Likeness)>,
}

impl Past {
    pub const LIKENESSES_MAX: usize = 10_000;

    /// Replaces the runs of one likeness.
    pub fn insert(&mut self, runs: PastRuns) {
        let (like, last_ended_at) = (runs.like.clone(), runs.last_ended_at);
        let prediction = runs.prediction();
        self.by_age.insert((last_ended_at, like.clone()));
        if let Some((before, _)) = self.runs.insert(like.clone(), (runs, prediction))
            && before.last_ended_at != last_ended_at
        {
            self.by_age.remove(&(before.last_ended_at, like));
        }
    }

    /// Adds one more run, with its GPU use if it had whole devices. Returns the likenesses that
    /// changed, including any that it drops.
    pub fn add(
        &mut self,
        like: Likeness,
        length: Millis,
        gpu: Option<GpuUsage>,
        ended_at: Timestamp,
    ) -> Vec<Likeness> {
        let known = self.runs.get(&like).map(|(runs, _)| runs.clone());
        let mut runs = known.unwrap_or_else(|| PastRuns::none(like.clone()));
        runs.add(length, ended_at);
        if let Some(gpu) = gpu {
            runs.add_gpu(gpu);
        }
        self.insert(runs);
        let mut changed = vec![like];
        while self.runs.len() > Self::LIKENESSES_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.runs.remove(&oldest);
            changed.push(oldest);
        }
        changed
    }

    pub fn of(&self, like: &Likeness) -> Option<Prediction> {
        self.runs.get(like)?.1
    }

    pub fn runs(&self, like: &Likeness) -> Option<&PastRuns> {
        self.runs.get(like).map(|(runs, _)| runs)
    }

    /// The number of entries in the order of age: one for each likeness.
    #[must_use]
    pub fn n_ages(&self) -> usize {
        self.by_age.len()
    }

    pub fn all(&self) -> impl Iterator<Item = &PastRuns> {
        self.runs.values().map(|(runs, _)| runs)
    }
}
