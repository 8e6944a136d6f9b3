//! The lease of an agent, by the agent's own clock: milliseconds since the machine was booted, also
//! while it slept. Fenced tasks run only while it lasts.

use std::collections::BTreeMap;

use gpool_model::agent::TaskOrder;
use gpool_model::{LeaseTerms, TaskId};

/// The lease of an agent. That of an agent that just started is over until its server renews it.
#[derive(Debug, Clone)]
pub struct Lease {
    terms: LeaseTerms,
    over_at: u64,
    /// When the next beat is due.
    beat_at: u64,
    /// Until when fenced tasks may run that are not launched yet.
    fences: BTreeMap<TaskId, u64>,
}

impl Lease {
    /// A lease that is over.
    #[must_use]
    pub fn new(terms: LeaseTerms) -> Self {
        Self { terms, over_at: 0, beat_at: 0, fences: BTreeMap::new() }
    }

    /// Whether a beat is due; it carries this time.
    pub fn beats(&mut self, now: u64) -> bool {
        let is_due = now >= self.beat_at;
        if is_due {
            self.beat_at = now.saturating_add(self.terms.beat_every().get());
        }
        is_due
    }

    /// Renews the lease: the server has answered the beat of this time. Returns the new end of the
    /// lease, if it is later than before. The lease counts from the beat, not from the answer,
    /// which may have been delayed. A renewal never revives an expired fence.
    pub fn renew(&mut self, sent_at: u64, now: u64) -> Option<u64> {
        let over_at = self.terms.over_at(sent_at);
        if over_at <= self.over_at {
            return None;
        }
        self.over_at = over_at;
        let fences = self.fences.values_mut().filter(|fence| **fence > now);
        fences.for_each(|fence| *fence = over_at.max(*fence));
        Some(over_at)
    }

    /// Whether an order to start a task may be carried out, which carries the time of this beat.
    /// Until then, the server may have taken the agent for lost and started the job elsewhere.
    pub fn admits(&mut self, order: &TaskOrder, beat: Option<u64>, now: u64) -> bool {
        if !order.spec.life.on_node_lost.is_fenced() {
            return true;
        }
        let over_at = beat.map(|beat| self.terms.over_at(beat)).filter(|over_at| now < *over_at);
        let fence = over_at.map(|over_at| over_at.max(self.over_at));
        // The server would not send it for an attempt that it takes for over.
        self.fences.extend(fence.map(|fence| (order.task(), fence)));
        fence.is_some()
    }

    /// Takes the time until which a task may run that is being launched; `None` if it is not
    /// fenced.
    pub fn take_fence(&mut self, task: TaskId) -> Option<u64> {
        self.fences.remove(&task)
    }
}
