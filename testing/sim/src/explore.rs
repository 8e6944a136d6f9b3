//! Every run within small bounds, not those that a seed draws: which happenings are possible in a
//! state, and when two states are the same for all that can follow. A model checker does the rest.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};

use gpool_model::{Record, Seq};

use crate::claim::Claim;
use crate::happening::{Happening, Kind};
use crate::sim::Sim;

/// The events that each node has to go through sooner or later.
const WORK: [Kind; 6] =
    [Kind::Order, Kind::Report, Kind::Check, Kind::Claim, Kind::Start, Kind::Exit];

impl Sim {
    /// Returns the events that can happen now without a fault, with all distinct parameters.
    #[must_use]
    pub fn possible_work(&self) -> Vec<Happening> {
        let mut possible = Vec::new();
        let mut add = |kind, numbers: &[i64]| possible.push(Happening::new(kind, numbers));
        if !self.store.in_flight.is_empty() {
            add(Kind::Commit, &[]);
        }
        if self.server.is_none() {
            add(Kind::StartServer, &[]);
        }
        for m in 0..self.machines.len() {
            if self.can_start_agent(m) {
                add(Kind::StartAgent, &[signed(m)]);
            }
            for kind in WORK {
                for pick in 0..self.choices(kind, m) {
                    add(kind, &[signed(m), signed(pick)]);
                }
            }
        }
        possible
    }

    /// How many things on a node a kind of happening can pick from.
    fn choices(&self, kind: Kind, m: usize) -> usize {
        let machine = &self.machines[m];
        match kind {
            Kind::Order | Kind::LoseOrder | Kind::RepeatOrder => self.links[m].orders.len(),
            Kind::Report | Kind::LoseReport | Kind::RepeatReport => self.links[m].reports.len(),
            Kind::Check | Kind::Snatch => {
                machine.agent.as_ref().map_or(0, |agent| agent.asked.len())
            }
            Kind::Claim => machine.forked.len(),
            Kind::Start | Kind::FailStart => machine.unstarted().len(),
            Kind::Exit => machine.running().len(),
            Kind::KillShepherd => {
                let live = |claim: &&Claim| claim.has_shepherd && claim.ended.is_none();
                machine.forked.len() + machine.claims.values().filter(live).count()
            }
            Kind::KillAgent | Kind::DoomAgent => usize::from(machine.agent.is_some()),
            _ => 1,
        }
    }

    /// Whether something of a budget can happen now and make a difference.
    #[must_use]
    pub fn is_possible(&self, what: &Happening) -> bool {
        let has_server = self.server.is_some();
        match what.kind {
            Kind::KillServer | Kind::DoomServer | Kind::StopServer => has_server,
            Kind::Cancel => has_server && !self.live_jobs().is_empty(),
            Kind::Submit => has_server,
            Kind::FailCommit => !self.store.in_flight.is_empty(),
            kind if kind.arguments().first() == Some(&"node") => {
                let all: Vec<usize> = (0..self.machines.len()).collect();
                let m = crate::sim::picked(&all, what.count("node"));
                let pick = if kind.arguments().contains(&"pick") { what.count("pick") } else { 0 };
                m.is_some_and(|m| pick < signed(self.choices(kind, m)).unsigned_abs())
            }
            _ => true,
        }
    }

    /// Whether every job that was taken has ended and nothing is left of it anywhere.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.live_jobs().is_empty() && self.is_at_rest()
    }

    /// Equal for two states if the same can follow from both. What only counts how they came about
    /// is left out: numbers of commits and of journal entries.
    #[must_use]
    pub fn fingerprint(&self) -> (u64, u64) {
        let mut text = Text::default();
        text.put(&(self.now, self.server_skew, &self.machines, &self.links));
        text.put(&(&self.askings, &self.watch, &self.broken));
        for record in self.store.records.values() {
            text.record(record.clone());
        }
        for commit in &self.store.in_flight {
            for change in &commit.records {
                match change.value.clone() {
                    Some(record) => text.record(record),
                    None => text.put(&change.key),
                }
            }
            text.put(&commit.ended);
        }
        text.put(&(&self.store.archive, self.store.told.len(), self.store.is_broken));
        if let Some(server) = &self.server {
            for record in server.control.world().records() {
                text.record(record);
            }
            text.put(&(&server.inbox, server.paused_until, server.is_stopping));
            text.put(&(server.effects_left, &server.pending, &server.leases));
            text.put(&server.control.beside_world());
        }
        text.end()
    }
}

impl Happening {
    /// Whether it takes no message before one that was sent earlier.
    #[must_use]
    pub fn is_first_message(&self) -> bool {
        !matches!(self.kind, Kind::Order | Kind::Report) || self.count("pick") == 0
    }
}

fn signed(n: usize) -> i64 {
    i64::try_from(n).expect("few")
}

/// All that a fingerprint is of, as text. It is hashed at once at the end: hashing each of the
/// short pieces that formatting writes takes several times as long.
#[derive(Default)]
struct Text(String);

impl Text {
    fn put(&mut self, thing: &impl std::fmt::Debug) {
        writeln!(self.0, "{thing:?}").expect("memory takes any text");
    }

    fn record(&mut self, mut record: Record) {
        if let Record::Cluster(cluster) = &mut record {
            cluster.last_seq = Seq(0);
        }
        self.put(&record);
    }

    /// Two hashes that do not collide together: all bytes of the second stand one place further on.
    fn end(self) -> (u64, u64) {
        let (mut first, mut second) = (DefaultHasher::new(), DefaultHasher::new());
        first.write(self.0.as_bytes());
        second.write_u8(1);
        second.write(self.0.as_bytes());
        (first.finish(), second.finish())
    }
}
