//! How long jobs like one another ran: a bounded table, the likenesses that ended longest ago
//! dropped first.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{Likeness, Millis, PastRuns, Prediction, Timestamp};

/// What is remembered of ended jobs for predictions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    /// By [`Likeness::key`].
    runs: BTreeMap<String, PastRuns>,
    /// The same by the last end.
    by_age: BTreeSet<(Timestamp, String)>,
}

impl Past {
    /// So many likenesses are remembered.
    const LIKENESSES_MAX: usize = 10_000;

    /// Replaces what is remembered of one likeness.
    pub fn put(&mut self, runs: PastRuns) {
        let (key, last_ended_at) = (runs.like.key(), runs.last_ended_at);
        self.by_age.insert((last_ended_at, key.clone()));
        if let Some(before) = self.runs.insert(key.clone(), runs)
            && before.last_ended_at != last_ended_at
        {
            self.by_age.remove(&(before.last_ended_at, key));
        }
    }

    /// Remembers one more run; which likenesses changed, those included that are forgotten for it.
    pub fn add(&mut self, like: Likeness, length: Millis, ended_at: Timestamp) -> Vec<Likeness> {
        let known = self.runs.get(&like.key()).cloned();
        let mut runs = known.unwrap_or_else(|| PastRuns::none(like.clone()));
        runs.add(length, ended_at);
        self.put(runs);
        let mut changed = vec![like];
        while self.runs.len() > Self::LIKENESSES_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            changed.extend(self.runs.remove(&oldest).map(|runs| runs.like));
        }
        changed
    }

    /// What is known of such jobs.
    pub fn of(&self, like: &Likeness) -> Option<Prediction> {
        self.runs.get(&like.key())?.prediction()
    }

    /// The record of one likeness.
    pub fn by_key(&self, key: &str) -> Option<&PastRuns> {
        self.runs.get(key)
    }

    /// Every record.
    pub fn all(&self) -> impl Iterator<Item = &PastRuns> {
        self.runs.values()
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
        assert!(past.by_key(&new.key()).is_some());
    }
}
