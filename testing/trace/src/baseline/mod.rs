//! Baselines: published rules play a trace on a cluster of equal nodes, to be compared with the
//! scheduler.
//!
//! None of this code is part of gpool's scheduler. The rules know the run time of each job, nothing
//! is ever late, and there is one queue.

mod by_service;
mod course;
mod in_turn;
mod places;
mod rule;

use gpool_model::{Millis, Timestamp};

use self::by_service::{ByService, Service};
use self::course::Course;
use self::in_turn::{Blocked, InTurn, Order};
pub use self::rule::Rule;
use crate::cluster::Nodes;
use crate::jobs::TraceJob;
use crate::look::Look;
use crate::outcome::Outcome;
use crate::queue::PlayError;
use crate::table::TraceError;

/// Plays jobs on a cluster by a rule; calls `look` before each event.
///
/// A job goes to the tightest node that fits it: the one with the fewest free devices among those
/// with enough, and the first of these. A job larger than a node takes whole nodes, and its rest
/// goes to the tightest other node. A job larger than the cluster is refused. After each preemption
/// a job repeats `restart` of its work.
///
/// # Errors
/// If the trace can't be read to its end.
pub fn play(
    jobs: impl IntoIterator<Item = Result<TraceJob, TraceError>>,
    nodes: Nodes,
    rule: Rule,
    restart: Millis,
    look: &mut Look<'_>,
) -> Result<Outcome, PlayError> {
    let mut course = Course::new(nodes, restart);
    let mut decider = Decider::of(rule);
    let mut jobs = jobs.into_iter().peekable();
    loop {
        let comes = match jobs.peek() {
            None => None,
            Some(Ok(job)) => Some(job.came_at()),
            Some(Err(_)) => Some(course.now),
        };
        if comes.is_none() && course.live().is_empty() {
            return Ok(course.outcome);
        }
        let next = [comes, course.next_end(), decider.next_change(&course)];
        let Some(now) = next.into_iter().flatten().min() else {
            return Err(PlayError::Stuck { n: course.live().len() });
        };
        look(course.live().len(), now);
        course.pass(now, comes.is_some());
        while let Some(job) =
            jobs.next_if(|job| job.as_ref().map_or(true, |job| job.came_at() == now))
        {
            if let Some(id) = course.come(&job?) {
                decider.come(&course, id);
            }
        }
        decider.decide(&mut course);
    }
}

/// A rule with its state.
enum Decider {
    InTurn(InTurn),
    ByService(ByService),
}

impl Decider {
    fn of(rule: Rule) -> Self {
        let in_turn = |order, blocked| Self::InTurn(InTurn::new(order, blocked));
        match rule {
            Rule::FifoStrict => in_turn(Order::Age, Blocked::All),
            Rule::Easy => in_turn(Order::Age, Blocked::WhoeverDelaysTheFirst),
            Rule::Greedy => in_turn(Order::Age, Blocked::Nobody),
            Rule::SmallFirst => in_turn(Order::Size, Blocked::Nobody),
            Rule::ValohaiBlocking => in_turn(Order::Size, Blocked::AllByEscalated),
            Rule::Sjf => in_turn(Order::Duration, Blocked::Nobody),
            Rule::Srsf => Self::ByService(ByService::new(Service::Left)),
            Rule::Tiresias => Self::ByService(ByService::new(Service::Attained)),
        }
    }

    /// Returns when it must decide although no job comes or ends.
    fn next_change(&self, course: &Course) -> Option<Timestamp> {
        match self {
            // Every job that fits has started; an escalated job lets no other job start.
            Self::InTurn(_) => None,
            Self::ByService(it) => it.next_change(course),
        }
    }

    /// Adds a job that needs devices.
    fn come(&mut self, course: &Course, id: u64) {
        match self {
            Self::InTurn(it) => it.come(course, id),
            // It looks at all jobs.
            Self::ByService(_) => {}
        }
    }

    /// Starts the jobs that may start, and preempts jobs if the rule says so.
    fn decide(&mut self, course: &mut Course) {
        match self {
            Self::InTurn(it) => it.decide(course),
            Self::ByService(it) => it.decide(course),
        }
    }
}
