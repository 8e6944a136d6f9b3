//! A store without a disk: commits on their way, what of them is durable, and what a crash leaves.

use std::collections::{BTreeMap, VecDeque};

use gpool_model::record::EndedJob;
use gpool_model::{Commit, JobId, Outcome, Record, RecordKey, Revision, Seq, Term};

use crate::bug::Bug;

/// The result of a commit for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Durable(Revision),
    Failed,
}

/// The durable half of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub records: BTreeMap<RecordKey, Record>,
    pub revision: Revision,
    pub archive: BTreeMap<JobId, EndedJob>,
    pub last_seq: Seq,
    pub term: Term,
    pub in_flight: VecDeque<Commit>,
    pub told: VecDeque<Told>,
    /// Nothing can be written.
    pub is_full: bool,
    /// A commit failed: nothing more is taken until everything was loaded again.
    pub is_broken: bool,
    /// Copies of earlier states, for a planted bug that loses durable commits.
    unsynced: VecDeque<Box<Store>>,
}

impl Store {
    /// Takes a commit.
    pub fn submit(&mut self, commit: Commit) {
        if self.is_broken {
            self.told.push_back(Told::Failed);
        } else {
            self.in_flight.push_back(commit);
        }
    }

    /// Makes the oldest commit durable, or fails it; `Err` describes an invalid commit.
    pub fn persist(&mut self, bug: Option<Bug>) -> Result<(), String> {
        if self.is_full && !self.in_flight.is_empty() {
            self.fail();
            return Ok(());
        }
        let Some(commit) = self.in_flight.pop_front() else { return Ok(()) };
        if bug == Some(Bug::SyncDropped) {
            let mut copy = self.clone();
            (copy.unsynced, copy.in_flight, copy.told) = Default::default();
            self.unsynced.push_back(Box::new(copy));
            while self.unsynced.len() > 2 {
                self.unsynced.pop_front();
            }
        }
        let revision = commit.revision;
        let result = self.apply(commit, bug);
        self.told.push_back(Told::Durable(revision));
        result
    }

    /// The oldest commit fails, and with it all behind it.
    pub fn fail(&mut self) {
        if !self.in_flight.is_empty() {
            for _ in self.in_flight.drain(..) {
                self.told.push_back(Told::Failed);
            }
            self.is_broken = true;
        }
    }

    /// Drops all but the durable state, because the server is gone or starts anew.
    pub fn reset(&mut self) {
        self.in_flight.clear();
        self.told.clear();
        self.is_broken = false;
    }

    /// Loses unsynced commits with the server's machine; there are some with a planted bug only.
    pub fn lose_unsynced(&mut self) {
        if let Some(before) = self.unsynced.pop_front() {
            *self = *before;
        }
    }

    fn apply(&mut self, mut commit: Commit, bug: Option<Bug>) -> Result<(), String> {
        if commit.revision != self.revision.next() {
            return Err(format!("commit {} follows {}", commit.revision, self.revision));
        }
        if commit.term < self.term {
            return Err(format!("a commit of term {} follows term {}", commit.term, self.term));
        }
        match bug {
            Some(Bug::JournalDropped) if commit.journal.len() > 1 => drop(commit.journal.pop()),
            Some(Bug::RecordChanged) => change_one(&mut commit),
            Some(Bug::ArchiveDropped) => commit.ended.clear(),
            Some(Bug::ElementDropped) => {
                commit.ended.retain(|ended| ended.id().element.is_none());
            }
            _ => {}
        }
        for change in commit.records {
            match change.value {
                Some(record) => drop(self.records.insert(change.key, record)),
                None => drop(self.records.remove(&change.key)),
            }
        }
        for entry in commit.journal {
            if entry.seq != self.last_seq.next() {
                return Err(format!("entry {} follows {}", entry.seq, self.last_seq));
            }
            self.last_seq = entry.seq;
        }
        let ids: Vec<JobId> = commit.ended.iter().map(EndedJob::id).collect();
        for ended in commit.ended {
            let (id, attempt) = (ended.id(), ended.job.attempt);
            let before = self.archive.insert(id, ended);
            // An element may be tried again while its array lives.
            if before.is_some_and(|before| id.element.is_none() || before.job.attempt >= attempt) {
                return Err(format!("job {id} is archived twice"));
            }
        }
        for id in ids.into_iter().filter(|id| id.element.is_none()) {
            self.check_elements(id)?;
        }
        (self.revision, self.term) = (commit.revision, commit.term);
        Ok(())
    }
}

impl Store {
    /// Every element of an array that has ended has ended too, as the array says.
    fn check_elements(&self, id: JobId) -> Result<(), String> {
        let Some(EndedJob { spec, job }) = self.archive.get(&id) else { return Ok(()) };
        let (Some(asked), Some(array)) = (&spec.array, &job.array) else { return Ok(()) };
        let n_ended = array.n_ended();
        if n_ended != asked.indexes.len() {
            let n = asked.indexes.len();
            return Err(format!("array {id} has ended, and of its {n} elements {n_ended}"));
        }
        let ended = array.ended.iter().flat_map(|(outcome, at)| at.iter().map(|at| (*outcome, at)));
        for (outcome, position) in ended {
            let element = JobId { element: asked.indexes.at(position), ..id };
            let found = self.archive.get(&element).map(|it| it.job.phase.state());
            let was_started = outcome != Outcome::Cancelled;
            if found != Some(outcome.state()) && was_started {
                return Err(format!("element {element} has ended {outcome:?}, and is {found:?}"));
            }
        }
        Ok(())
    }
}

/// Writes something else than was asked for.
fn change_one(commit: &mut Commit) {
    for change in &mut commit.records {
        if let Some(Record::Job(job)) = &mut change.value {
            job.priority += 1;
            return;
        }
    }
}
