//! What a server knows of the lease of an agent. All times are passed in: those of the server in
//! milliseconds of a clock that is never set, those of the agent by the agent's own such clock.

use gpool_model::{LeaseTerms, Millis};

/// The lease of one agent, as its server sees it.
#[derive(Debug, Clone)]
pub struct LeaseWatch {
    heard_at: u64,
    /// The agent's time of the last beat that was answered. Earlier servers may have answered
    /// others.
    beat: Option<u64>,
    /// The standing that the core knows; `None` if it knows none.
    standing: Option<Reachability>,
    /// Losses of the agent with orders from before that may not have left yet. Until they have,
    /// the lease is not renewed.
    n_losses: u32,
}

/// Whether an agent can be reached, by its last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reachability {
    /// It sent a message lately.
    Present,
    /// It has sent no message for longer than it may be silent.
    Silent,
    /// Its lease is over by every clock, and its fenced tasks have ended.
    Lost,
}

impl LeaseWatch {
    /// Begins now: until now, an earlier server may have renewed the lease.
    #[must_use]
    pub fn new(now: u64) -> Self {
        Self { heard_at: now, beat: None, standing: Some(Reachability::Present), n_losses: 0 }
    }

    pub fn hear(&mut self, now: u64) {
        self.heard_at = self.heard_at.max(now);
    }

    /// Takes note of a beat that the agent sent at this time of its own; returns whether the server
    /// answers it, which renews the lease.
    pub fn beat(&mut self, sent_at: u64, now: u64) -> bool {
        self.hear(now);
        let renews = self.n_losses == 0;
        if renews {
            self.beat = self.beat.max(Some(sent_at));
        }
        renews
    }

    /// The agent's time of the last beat that was answered. An order to start a fenced task carries
    /// it, and is not carried out once the lease of that beat is over.
    #[must_use]
    pub fn last_beat(&self) -> Option<u64> {
        self.beat
    }

    /// How long the agent has been silent.
    #[must_use]
    pub fn silence(&self, now: u64) -> Millis {
        Millis::new(now.saturating_sub(self.heard_at))
    }

    /// Whether the agent counts as heard, by what the core knows.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        matches!(self.standing, Some(Reachability::Present))
    }

    /// Returns the standing of the agent if the core does not know it yet. Without terms it has no
    /// lease, and is never lost.
    pub fn look(
        &mut self,
        now: u64,
        silent_after: Millis,
        terms: Option<LeaseTerms>,
    ) -> Option<Reachability> {
        let silence = self.silence(now);
        let standing = match terms {
            Some(terms) if silence > terms.lost_after() => Reachability::Lost,
            _ if silence > silent_after => Reachability::Silent,
            _ => Reachability::Present,
        };
        if self.standing == Some(standing) {
            return None;
        }
        self.standing = Some(standing);
        if standing == Reachability::Lost {
            self.n_losses += 1;
            self.beat = None;
        }
        Some(standing)
    }

    /// Every order from before a loss has left. Losses are readmitted in their order.
    pub fn readmit(&mut self) {
        self.n_losses = self.n_losses.saturating_sub(1);
    }

    /// The core lost its state, and all orders that had not left.
    pub fn tell_again(&mut self) {
        self.standing = None;
        self.n_losses = 0;
    }
}
