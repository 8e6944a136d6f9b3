//! Arrays: one job with many elements. The spec holds what was asked, once; the record of the job
//! holds the progress of its elements, as sets. Only elements that are in the middle of something
//! have records of their own.

pub mod spec;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::Attempt;
use crate::indexes::Indexes;
use crate::job::dependency::DependencyKind;
use crate::job::end::{EndCause, ExitStatus, JobEnd, Outcome, RunTotals, Usage};
use crate::positions::Positions;
use crate::request::job::Standing;
use crate::unit::Timestamp;
pub use spec::{ArraySpec, ArrayValues, Axis, Row, ValuesRef};

/// What has become of the elements of an array, by position. Each is in exactly one place: among
/// those that could start, those that wait for their like, those that ended, or it has a record of
/// its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayState {
    /// Those that have not been started in their present attempt and are like all others.
    pub unstarted: Positions,
    /// Those that wait until the same element of another array has ended.
    #[serde(default, skip_serializing_if = "Positions::is_empty")]
    pub waiting: Positions,
    /// Those that have ended, by how.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ended: BTreeMap<Outcome, Positions>,
    /// Those whose present or last attempt is not the first, by which it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<Attempt, Positions>,
    /// At most so many run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// After more failures than this the rest is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
    /// Why elements were ended that had not been started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<EndCause>,
    /// When its first element started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the last one ended that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The exit with the largest code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// What all that ended used: times together, memory the most of one.
    #[serde(default)]
    pub usage: Usage,
    /// Devices and run time of all that ended, each run of an element by itself.
    #[serde(default, skip_serializing_if = "RunTotals::is_zero")]
    pub totals: RunTotals,
}

/// How the elements of an array ended, for those that wait for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayEnds {
    /// Its elements.
    pub indexes: Indexes,
    /// See [`ArrayState::ended`].
    pub ended: BTreeMap<Outcome, Positions>,
}

impl ArrayEnds {
    /// Those that have ended otherwise than a dependency asks.
    #[must_use]
    pub fn unmet(&self, kind: DependencyKind) -> Positions {
        unmet(&self.ended, kind)
    }

    /// How one ended.
    #[must_use]
    pub fn outcome_of(&self, index: u32) -> Option<Outcome> {
        outcome_at(&self.ended, self.indexes.position(index)?)
    }
}

fn unmet(ended: &BTreeMap<Outcome, Positions>, kind: DependencyKind) -> Positions {
    let mut positions = Positions::default();
    for (_, at) in ended.iter().filter(|(outcome, _)| !kind.is_met_by(**outcome)) {
        positions.extend(at);
    }
    positions
}

fn outcome_at(ended: &BTreeMap<Outcome, Positions>, position: u32) -> Option<Outcome> {
    ended.iter().find(|(_, positions)| positions.contains(position)).map(|(outcome, _)| *outcome)
}

impl ArrayState {
    /// Of an array in which nothing has been started.
    #[must_use]
    pub fn new(array: &ArraySpec, standing: &Standing) -> Self {
        Self {
            unstarted: array.indexes.positions(),
            waiting: Positions::default(),
            ended: BTreeMap::new(),
            attempts: BTreeMap::new(),
            max_parallel: standing.max_parallel,
            max_fails: standing.max_fails,
            stopped: None,
            started_at: None,
            ended_at: None,
            exit: None,
            usage: Usage::default(),
            totals: RunTotals::default(),
        }
    }

    /// How many have been neither started nor ended, those aside that have their own record.
    #[must_use]
    pub fn n_unstarted(&self) -> u32 {
        self.unstarted.len() + self.waiting.len()
    }

    /// How many ended so.
    #[must_use]
    pub fn n_ended_as(&self, outcome: Outcome) -> u32 {
        self.ended.get(&outcome).map_or(0, Positions::len)
    }

    /// How many have ended.
    #[must_use]
    pub fn n_ended(&self) -> u32 {
        self.ended.values().map(Positions::len).sum()
    }

    /// How many have failed by themselves: what `max_fails` counts.
    #[must_use]
    pub fn n_failed(&self) -> u32 {
        [Outcome::Failed, Outcome::TimedOut, Outcome::Lost]
            .into_iter()
            .map(|outcome| self.n_ended_as(outcome))
            .sum()
    }

    /// Those that have ended and have not succeeded.
    #[must_use]
    pub fn unsuccessful(&self) -> Positions {
        unmet(&self.ended, DependencyKind::Ok)
    }

    /// How one ended; `None` if it has not.
    #[must_use]
    pub fn outcome_of(&self, position: u32) -> Option<Outcome> {
        outcome_at(&self.ended, position)
    }

    /// The attempt that one is in, will be in when it starts, or was in last.
    #[must_use]
    pub fn attempt_of(&self, position: u32) -> Attempt {
        let at = |(_, positions): &(&Attempt, &Positions)| positions.contains(position);
        self.attempts.iter().find(at).map_or(Attempt::FIRST, |(attempt, _)| *attempt)
    }

    /// Says which attempt one is in.
    pub fn set_attempt(&mut self, position: u32, attempt: Attempt) {
        for positions in self.attempts.values_mut() {
            positions.remove(position);
        }
        self.attempts.retain(|_, positions| !positions.is_empty());
        if attempt > Attempt::FIRST {
            self.attempts.entry(attempt).or_default().insert(position);
        }
    }

    /// Lets some begin another attempt.
    pub fn next_attempt(&mut self, positions: &Positions) {
        let mut first = positions.clone();
        let mut moved = Vec::new();
        for (attempt, at) in &mut self.attempts {
            let both: Positions = match at == positions {
                true => at.clone(),
                false => at.iter().filter(|position| positions.contains(*position)).collect(),
            };
            at.subtract(&both);
            first.subtract(&both);
            moved.push((attempt.next(), both));
        }
        moved.push((Attempt::FIRST.next(), first));
        for (attempt, positions) in moved.into_iter().filter(|(_, moved)| !moved.is_empty()) {
            self.attempts.entry(attempt).or_default().extend(&positions);
        }
        self.attempts.retain(|_, positions| !positions.is_empty());
    }

    /// Takes note that one that had its own record has ended.
    pub fn note_end(&mut self, position: u32, attempt: Attempt, end: &JobEnd) {
        self.set_attempt(position, attempt);
        self.ended.entry(end.outcome).or_default().insert(position);
        if let Some(at) = end.started_at {
            self.started_at = Some(self.started_at.map_or(at, |first| first.min(at)));
        }
        self.ended_at = Some(self.ended_at.map_or(end.ended_at, |last| last.max(end.ended_at)));
        let code = |exit: &Option<ExitStatus>| exit.map(ExitStatus::shell_code);
        if code(&end.exit) > code(&self.exit) {
            self.exit = end.exit;
        }
        let (sum, more) = (&mut self.usage, &end.usage);
        sum.cpu_user = sum.cpu_user.saturating_add(more.cpu_user);
        sum.cpu_system = sum.cpu_system.saturating_add(more.cpu_system);
        sum.memory_peak = sum.memory_peak.max(more.memory_peak);
        self.totals.add(end.into());
    }

    /// Ends some that have not been started.
    pub fn end_unstarted(&mut self, positions: &Positions, cause: EndCause, at: Timestamp) {
        self.unstarted.subtract(positions);
        self.waiting.subtract(positions);
        self.ended.entry(Outcome::Cancelled).or_default().extend(positions);
        self.stopped = Some(cause);
        self.ended_at = Some(self.ended_at.map_or(at, |last| last.max(at)));
    }

    /// Lets some that ended begin another attempt.
    pub fn retry(&mut self, positions: &Positions) {
        for ended in self.ended.values_mut() {
            let both: Positions =
                positions.iter().filter(|position| ended.contains(*position)).collect();
            ended.subtract(&both);
        }
        self.ended.retain(|_, positions| !positions.is_empty());
        self.next_attempt(positions);
        self.unstarted.extend(positions);
        self.stopped = None;
        if self.ended.is_empty() {
            self.exit = None;
        }
    }

    /// How the whole ended, if all of it has: well if every element did, else as whoever ended it
    /// said, else in the worst way that one did.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if let Some(EndCause::Cancelled { .. } | EndCause::DependencyFailed { .. }) = self.stopped {
            return Outcome::Cancelled;
        }
        [Outcome::Failed, Outcome::TimedOut, Outcome::Lost, Outcome::Cancelled]
            .into_iter()
            .find(|outcome| self.n_ended_as(*outcome) > 0)
            .unwrap_or(Outcome::Succeeded)
    }
}
