//! Answers of the core to its readers: each is made from the state at one moment, and sent once
//! that state is durable.

use std::collections::VecDeque;

use gpool_model::{Refusal, Revision};

use crate::view::{Ask, Deliver, View};

/// The queries and answers that wait.
#[derive(Default)]
pub struct Answers {
    /// Queries that wait for a look at the state.
    queries: Vec<Ask>,
    /// Answers, with the revision that must be durable first.
    // Invariant: revisions only grow from front to back.
    waiting: VecDeque<(Revision, Deliver)>,
}

impl Answers {
    /// Adds queries, to be answered by a later look.
    pub fn ask(&mut self, queries: impl IntoIterator<Item = Ask>) {
        self.queries.extend(queries);
    }

    /// Makes the answers to all queries from the state at a revision.
    pub fn look(&mut self, view: &View<'_>, revision: Revision, durable: Revision) {
        for ask in std::mem::take(&mut self.queries) {
            self.send(ask(view), revision, durable);
        }
    }

    /// Sends an answer from the state at a revision, once that is durable.
    pub fn send(&mut self, deliver: Deliver, revision: Revision, durable: Revision) {
        if revision <= durable {
            deliver(Ok(()));
        } else {
            self.waiting.push_back((revision, deliver));
        }
    }

    /// Sends the answers up to the durable revision.
    pub fn send_durable(&mut self, durable: Revision) {
        while let Some((_, deliver)) =
            self.waiting.pop_front_if(|(revision, _)| *revision <= durable)
        {
            deliver(Ok(()));
        }
    }

    /// Refuses all waiting answers, after a failed commit.
    pub fn refuse(&mut self, refusal: impl Fn() -> Refusal) {
        std::mem::take(&mut self.waiting).into_iter().for_each(|(_, it)| it(Err(refusal())));
    }
}
