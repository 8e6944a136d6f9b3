//! How long jobs like one another ran: a bounded table that drops the likenesses with the oldest
//! ends first.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{Likeness, Millis, PastRuns, Prediction, Timestamp};

/// The run times of ended jobs, for predictions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    /// The runs of each likeness, with the prediction that follows from them.
    runs: BTreeMap<Likeness, (PastRuns, Option<Prediction>)>,
    /// The likenesses by their last end.
    by_age: BTreeSet<(Timestamp, Likeness)>,
}

impl Past {
    /// How many likenesses are remembered.
    const LIKENESSES_MAX: usize = 10_000;

    /// Replaces the runs of one likeness.
    pub fn put(&mut self, runs: PastRuns) {
        let (like, last_ended_at) = (runs.like.clone(), runs.last_ended_at);
        let prediction = runs.prediction();
        self.by_age.insert((last_ended_at, like.clone()));
        if let Some((before, _)) = self.runs.insert(like.clone(), (runs, prediction))
            && before.last_ended_at != last_ended_at
        {
            self.by_age.remove(&(before.last_ended_at, like));
        }
    }

    /// Adds one more run. Returns the likenesses that changed, including any that it drops.
    pub fn add(&mut self, like: Likeness, length: Millis, ended_at: Timestamp) -> Vec<Likeness> {
        let known = self.runs.get(&like).map(|(runs, _)| runs.clone());
        let mut runs = known.unwrap_or_else(|| PastRuns::none(like.clone()));
        runs.add(length, ended_at);
        self.put(runs);
        let mut changed = vec![like];
        while self.runs.len() > Self::LIKENESSES_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.runs.remove(&oldest);
            changed.push(oldest);
        }
        changed
    }

    /// Returns the prediction for one likeness.
    pub fn of(&self, like: &Likeness) -> Option<Prediction> {
        self.runs.get(like)?.1
    }

    /// The record of one likeness.
    pub fn runs(&self, like: &Likeness) -> Option<&PastRuns> {
        self.runs.get(like).map(|(runs, _)| runs)
    }

    /// Every record.
    pub fn all(&self) -> impl Iterator<Item = &PastRuns> {
        self.runs.values().map(|(runs, _)| runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpool_model::ProjectName;

    fn like(user: usize) -> Likeness {
        let uid = u32::try_from(user).expect("few");
        Likeness { uid, project: ProjectName::new("default"), stem: "train-".to_owned() }
    }

    #[test]
    fn the_likeness_that_ended_longest_ago_is_forgotten_first() {
        let mut past = Past::default();
        for at in 0..Past::LIKENESSES_MAX {
            past.add(like(at), Millis::from_mins(1), Timestamp::new(at as u64 + 1));
        }
        let last = Timestamp::new(1_000_000);
        assert_eq!(past.add(like(0), Millis::from_mins(3), last), vec![like(0)]);
        let new = like(Past::LIKENESSES_MAX);
        assert_eq!(past.add(new.clone(), Millis::from_mins(1), last), vec![new.clone(), like(1)]);
        assert!(past.of(&like(1)).is_none());
        assert_eq!(past.of(&like(0)).expect("it ended again").n_runs, 2);
        assert_eq!(past.all().count(), Past::LIKENESSES_MAX);
        assert_eq!(past.by_age.len(), Past::LIKENESSES_MAX);
        assert!(past.runs(&new).is_some());
    }
}
