//! Arrays: one job with many elements. The spec stores the request once; the record of the job
//! stores the progress of its elements, as sets. Only elements that are starting, running, held or
//! otherwise different have records of their own.

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
pub use spec::{ArraySpec, ArrayValues, Axis, ElementValues, ValuesRef};

/// The progress of the elements of an array, by position. Each element is in exactly one place:
/// unstarted, waiting for its counterpart, ended, or in a record of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayState {
    /// Elements that have not started in their present attempt and do not differ from each other.
    pub unstarted: Positions,
    /// Elements that wait until the same element of another array has ended.
    #[serde(default, skip_serializing_if = "Positions::is_empty")]
    pub waiting: Positions,
    /// Elements that have ended, by outcome.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ended: BTreeMap<Outcome, Positions>,
    /// Present or last attempts of elements, without first attempts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<Attempt, Positions>,
    /// The most elements that run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// After more failures than this, the remaining elements are cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
    /// Why unstarted elements were ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<EndCause>,
    /// When its first element started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The latest end of an element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The exit with the largest code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// The usage of all ended elements: sum of times, maximum of memory.
    #[serde(default)]
    pub usage: Usage,
    /// Why the first lost element was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_to: Option<EndCause>,
    /// Devices and run time of all ended elements; each run of an element counts separately.
    #[serde(default, skip_serializing_if = "RunTotals::is_zero")]
    pub totals: RunTotals,
}

/// How the elements of an array ended, for the arrays that depend on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayEnds {
    /// The indexes of its elements.
    pub indexes: Indexes,
    /// See [`ArrayState::ended`].
    pub ended: BTreeMap<Outcome, Positions>,
}

impl ArrayEnds {
    /// Elements that have ended in another way than the dependency requires.
    #[must_use]
    pub fn unmet(&self, kind: DependencyKind) -> Positions {
        unmet(&self.ended, kind)
    }

    /// How an element ended.
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
    /// The state of an array before any element starts.
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
            lost_to: None,
            totals: RunTotals::default(),
        }
    }

    /// How many elements have neither started nor ended, without those that have their own record.
    #[must_use]
    pub fn n_unstarted(&self) -> u32 {
        self.unstarted.len() + self.waiting.len()
    }

    /// How many elements ended with this outcome.
    #[must_use]
    pub fn n_ended_as(&self, outcome: Outcome) -> u32 {
        self.ended.get(&outcome).map_or(0, Positions::len)
    }

    /// How many elements have ended.
    #[must_use]
    pub fn n_ended(&self) -> u32 {
        self.ended.values().map(Positions::len).sum()
    }

    /// How many elements have failed by themselves; `max_fails` limits this number.
    #[must_use]
    pub fn n_failed(&self) -> u32 {
        [Outcome::Failed, Outcome::TimedOut, Outcome::Lost]
            .into_iter()
            .map(|outcome| self.n_ended_as(outcome))
            .sum()
    }

    /// Elements that have ended without success.
    #[must_use]
    pub fn unsuccessful(&self) -> Positions {
        unmet(&self.ended, DependencyKind::Ok)
    }

    /// How an element ended; `None` if it has not.
    #[must_use]
    pub fn outcome_of(&self, position: u32) -> Option<Outcome> {
        outcome_at(&self.ended, position)
    }

    /// The attempt that an element is in, will start in, or ended in.
    #[must_use]
    pub fn attempt_of(&self, position: u32) -> Attempt {
        let at = |(_, positions): &(&Attempt, &Positions)| positions.contains(position);
        self.attempts.iter().find(at).map_or(Attempt::FIRST, |(attempt, _)| *attempt)
    }

    /// Sets the attempt of an element.
    pub fn set_attempt(&mut self, position: u32, attempt: Attempt) {
        for positions in self.attempts.values_mut() {
            positions.remove(position);
        }
        self.attempts.retain(|_, positions| !positions.is_empty());
        if attempt > Attempt::FIRST {
            self.attempts.entry(attempt).or_default().insert(position);
        }
    }

    /// Moves elements to their next attempt.
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

    /// Records the end of an element that had its own record.
    pub fn note_end(&mut self, position: u32, attempt: Attempt, end: &JobEnd) {
        self.set_attempt(position, attempt);
        self.ended.entry(end.outcome).or_default().insert(position);
        if end.outcome == Outcome::Lost && self.lost_to.is_none() {
            self.lost_to.clone_from(&end.cause);
        }
        if let Some(at) = end.started_at {
            self.started_at = Some(self.started_at.map_or(at, |first| first.min(at)));
        }
        self.ended_at = Some(self.ended_at.map_or(end.ended_at, |last| last.max(end.ended_at)));
        let code = |exit: &Option<ExitStatus>| exit.map(ExitStatus::shell_code);
        if code(&end.exit) > code(&self.exit) {
            self.exit = end.exit;
        }
        // A metric is that of one element.
        self.usage = Usage { objective: None, ..self.usage.plus(end.usage) };
        self.totals.add(end.into());
    }

    /// Ends elements that have not started.
    pub fn end_unstarted(&mut self, positions: &Positions, cause: EndCause, at: Timestamp) {
        self.unstarted.subtract(positions);
        self.waiting.subtract(positions);
        self.ended.entry(Outcome::Cancelled).or_default().extend(positions);
        self.stopped = Some(cause);
        self.ended_at = Some(self.ended_at.map_or(at, |last| last.max(at)));
    }

    /// Moves ended elements to another attempt.
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
        if self.n_ended_as(Outcome::Lost) == 0 {
            self.lost_to = None;
        }
        if self.ended.is_empty() {
            self.exit = None;
        }
    }

    /// Why the whole array ended with its outcome, if its elements alone do not show it.
    #[must_use]
    pub fn cause(&self) -> Option<EndCause> {
        match self.outcome() {
            Outcome::Lost => self.lost_to.clone().or_else(|| self.stopped.clone()),
            _ => self.stopped.clone(),
        }
    }

    /// The outcome of the whole array once all of it has ended: `Cancelled` if unstarted elements
    /// were cancelled or their dependency failed, else the worst outcome of an element.
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
