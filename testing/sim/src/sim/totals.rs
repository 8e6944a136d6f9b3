//! The counts of a run.

use crate::happening::Kind;

/// What a run, or many, consisted of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Happenings of each kind, by its place in [`Kind::ALL`].
    pub happenings: Vec<u64>,
    /// Steps of the state machine.
    pub steps: u64,
    /// Requests that were answered.
    pub replies: u64,
    /// Jobs with an answered submission.
    pub jobs: u64,
    /// Programs that were started.
    pub starts: u64,
    /// Jobs that ended.
    pub ends: u64,
    /// Launches that were refused for their devices.
    pub refusals: u64,
    /// Guests that came, launched or moved there.
    pub guests: u64,
    /// Running tasks that came to other devices.
    pub moves: u64,
    /// Tasks that were paused.
    pub pauses: u64,
    /// Orders to pause a task that failed.
    pub pauses_refused: u64,
    /// Those that found the task away from its devices.
    pub pauses_away: u64,
    /// Tasks that were paused for their loans.
    pub vacated: u64,
    /// Paused tasks that went on.
    pub resumes: u64,
    /// Paused tasks that went on elsewhere.
    pub remaps: u64,
    /// Those of them with shares.
    pub shares_remapped: u64,
    /// Shares of running tasks that got another size.
    pub resizes: u64,
    /// Moves, pauses and resumes that failed.
    pub moves_failed: u64,
    /// Allocations above a request.
    pub loans: u64,
    /// Loans that were called back.
    pub calls: u64,
    /// Servers that were killed.
    pub servers_killed: u64,
    /// Agents that were killed.
    pub agents_killed: u64,
    /// Shepherds that were killed.
    pub shepherds_killed: u64,
    /// Machines that went down.
    pub reboots: u64,
    pub commits_failed: u64,
    /// Attempts that were taken back for others.
    pub evictions: u64,
    /// Jobs that were set aside because of a wrong plan.
    pub set_aside: u64,
    /// Agents that became silent.
    pub silences: u64,
    /// Agents that were lost.
    pub losses: u64,
    /// Nodes that an admin asked to remove.
    pub removals: u64,
    /// Programs that ended because the lease of their agent was over.
    pub fenced: u64,
}

impl Totals {
    /// Adds another run.
    pub fn add(&mut self, other: &Self) {
        self.happenings.resize(Kind::ALL.len(), 0);
        self.happenings.iter_mut().zip(&other.happenings).for_each(|(sum, more)| *sum += more);
        for (sum, more) in [
            (&mut self.steps, other.steps),
            (&mut self.replies, other.replies),
            (&mut self.jobs, other.jobs),
            (&mut self.starts, other.starts),
            (&mut self.ends, other.ends),
            (&mut self.refusals, other.refusals),
            (&mut self.guests, other.guests),
            (&mut self.moves, other.moves),
            (&mut self.pauses, other.pauses),
            (&mut self.pauses_refused, other.pauses_refused),
            (&mut self.pauses_away, other.pauses_away),
            (&mut self.vacated, other.vacated),
            (&mut self.resumes, other.resumes),
            (&mut self.remaps, other.remaps),
            (&mut self.shares_remapped, other.shares_remapped),
            (&mut self.resizes, other.resizes),
            (&mut self.moves_failed, other.moves_failed),
            (&mut self.loans, other.loans),
            (&mut self.calls, other.calls),
            (&mut self.servers_killed, other.servers_killed),
            (&mut self.agents_killed, other.agents_killed),
            (&mut self.shepherds_killed, other.shepherds_killed),
            (&mut self.reboots, other.reboots),
            (&mut self.commits_failed, other.commits_failed),
            (&mut self.evictions, other.evictions),
            (&mut self.set_aside, other.set_aside),
            (&mut self.silences, other.silences),
            (&mut self.losses, other.losses),
            (&mut self.removals, other.removals),
            (&mut self.fenced, other.fenced),
        ] {
            *sum += more;
        }
    }

    /// How often a kind happened.
    #[must_use]
    pub fn of(&self, kind: Kind) -> u64 {
        let at = Kind::ALL.iter().position(|other| *other == kind);
        at.and_then(|at| self.happenings.get(at)).copied().unwrap_or(0)
    }

    /// All happenings.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.happenings.iter().sum()
    }
}
