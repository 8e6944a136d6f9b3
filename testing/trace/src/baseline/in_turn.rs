//! Rules without preemption: each time that a job comes or ends, they go through the waiting jobs
//! in an order.

use std::collections::{BTreeSet, VecDeque};

use gpool_model::{Millis, Timestamp};

use super::course::Course;

/// The order of the waiting jobs; among equal jobs the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// By submission.
    Age,
    /// By number of devices, the fewest first.
    Size,
    /// By run time, the shortest first.
    Duration,
}

/// The jobs that a job that does not fit prevents from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    /// None.
    Nobody,
    /// All jobs after it.
    All,
    /// All jobs after it if it is escalated, else none.
    AllByEscalated,
    /// Jobs that would still be on the first such job's nodes at its planned start.
    WhoeverDelaysTheFirst,
}

/// The time after which a job escalates.
const ESCALATES_AFTER: Millis = Millis::from_hours(1);

/// The key of the order; less goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The job is escalated.
    Escalated,
    /// The job is not escalated and is ordered by this.
    By(u64),
}

/// The waiting jobs, in order.
pub(super) struct InTurn {
    order: Order,
    blocked: Blocked,
    waiting: BTreeSet<(Rank, u64)>,
    /// The times at which jobs escalate, if that matters.
    // Invariant: in the order of submission, so also by time. Some of the jobs may have started.
    escalations: VecDeque<(Timestamp, Rank, u64)>,
}

/// The planned start of the first waiting job: a time and nodes.
struct Planned {
    at: Timestamp,
    nodes: BTreeSet<u32>,
}

impl InTurn {
    /// No job waits.
    pub fn new(order: Order, blocked: Blocked) -> Self {
        Self { order, blocked, waiting: BTreeSet::new(), escalations: VecDeque::new() }
    }

    /// Adds a job.
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

    /// Starts every job that may start.
    pub fn decide(&mut self, course: &mut Course) {
        self.escalate(course.now);
        let nowhere_barred = BTreeSet::new();
        let mut started = Vec::new();
        let mut planned: Option<Planned> = None;
        // Sizes that do not fit any more, and sizes that do not fit beside the planned start.
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

    /// Moves jobs that have escalated before the others.
    fn escalate(&mut self, now: Timestamp) {
        while let Some((_, rank, id)) = self.escalations.pop_front_if(|(at, ..)| *at <= now) {
            if self.waiting.remove(&(rank, id)) {
                self.waiting.insert((Rank::Escalated, id));
            }
        }
    }
}

/// Returns when and where this many devices are free if nothing else starts.
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
