//! Rules by which a job that runs is left alone: those who wait are looked at in an order, each
//! time that one comes or ends.

use std::collections::{BTreeSet, VecDeque};

use gpool_model::{Millis, Timestamp};

use super::course::Course;

/// Who is looked at first; of equals whoever came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Whoever came first.
    Age,
    /// Who asks for the fewest devices.
    Size,
    /// Who runs shortest.
    Duration,
}

/// Whom a job that does not fit keeps from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Nobody.
    Nobody,
    /// All after it.
    All,
    /// All after it, if it has waited for long; until then nobody.
    AllByEscalated,
    /// Those after the first that would be on its nodes when it could start.
    WhoeverDelaysTheFirst,
}

/// Who has waited so long goes before those who have not.
const ESCALATES_AFTER: Millis = Millis::from_hours(1);

/// Less goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It has waited for long.
    Escalated,
    /// It has not, and goes by this.
    By(u64),
}

/// Who waits, and by what they start.
pub(super) struct InTurn {
    order: Order,
    blocked: Blocked,
    waiting: BTreeSet<(Rank, u64)>,
    /// When jobs will have waited for long, if that matters.
    // Invariant: in the order of coming, so by time. Some may have started since.
    escalations: VecDeque<(Timestamp, Rank, u64)>,
}

/// Nodes that are kept for the first from a moment on.
struct Planned {
    at: Timestamp,
    nodes: BTreeSet<u32>,
}

impl InTurn {
    /// Nobody waits.
    pub fn new(order: Order, blocked: Blocked) -> Self {
        Self { order, blocked, waiting: BTreeSet::new(), escalations: VecDeque::new() }
    }

    /// A job came.
    pub fn come(&mut self, course: &Course, id: u64) {
        let Some(job) = course.live().get(&id) else { return };
        let rank = Rank::By(match self.order {
            Order::Age => 0,
            Order::Size => u64::from(job.n_gpus),
            Order::Duration => job.duration.get(),
        });
        self.waiting.insert((rank, id));
        if self.blocked == Blocked::AllByEscalated {
            self.escalations.push_back((course.now.after(ESCALATES_AFTER), rank, id));
        }
    }

    /// Starts whoever may start.
    pub fn decide(&mut self, course: &mut Course) {
        self.escalate(course.now);
        let nowhere_barred = BTreeSet::new();
        let mut started = Vec::new();
        let mut planned: Option<Planned> = None;
        // Sizes that do not fit any more; and those that do not beside the nodes that are kept.
        let (mut full, mut full_beside) = (BTreeSet::new(), BTreeSet::new());
        for (rank, id) in &self.waiting {
            if course.places.are_full() {
                break;
            }
            let Some(job) = course.live().get(id) else { continue };
            let n_gpus = job.n_gpus;
            let ends_at = course.now.after(job.duration);
            let (barred, full) = match &planned {
                Some(planned) if ends_at > planned.at => (&planned.nodes, &mut full_beside),
                Some(_) | None => (&nowhere_barred, &mut full),
            };
            if full.contains(&n_gpus) {
                continue;
            }
            if let Some(parts) = course.places.fit(n_gpus, barred) {
                course.start(*id, &parts);
                started.push((*rank, *id));
                continue;
            }
            full.insert(n_gpus);
            match self.blocked {
                Blocked::Nobody => {}
                Blocked::All => break,
                Blocked::AllByEscalated if *rank == Rank::Escalated => break,
                Blocked::AllByEscalated => {}
                Blocked::WhoeverDelaysTheFirst if planned.is_none() => {
                    planned = plan(course, n_gpus);
                }
                Blocked::WhoeverDelaysTheFirst => {}
            }
        }
        for waited in started {
            self.waiting.remove(&waited);
        }
    }

    /// Those who have waited for long now go before the others.
    fn escalate(&mut self, now: Timestamp) {
        while let Some((_, rank, id)) = self.escalations.pop_front_if(|(at, ..)| *at <= now) {
            if self.waiting.remove(&(rank, id)) {
                self.waiting.insert((Rank::Escalated, id));
            }
        }
    }
}

/// When and where so many devices are free, if nothing starts before.
fn plan(course: &Course, n_gpus: u32) -> Option<Planned> {
    let mut places = course.places.clone();
    let mut ends = course.ends().iter().peekable();
    while let Some((at, id)) = ends.next() {
        places.give_back(course.devices(*id));
        if ends.peek().is_some_and(|(next, _)| next == at) {
            continue;
        }
        if let Some(parts) = places.fit(n_gpus, &BTreeSet::new()) {
            return Some(Planned { at: *at, nodes: parts.iter().map(|(node, _)| *node).collect() });
        }
    }
    None
}
