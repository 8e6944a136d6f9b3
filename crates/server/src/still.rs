//! Copies of the state for reads beside the core. Reads at the same time share one copy, and making
//! copies takes a bounded part of the core's time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_model::{PlannedStart, Refusal, Timestamp};
use gpool_store::CommitError;
use gpool_world::World;
use tokio::sync::oneshot;

use crate::clock::now;
use crate::view::{Deliver, Reasons, View};

/// Pause before the next copy, in multiples of the time that the last one took: copies take at most
/// a fifth of the core's time. A read that needs the newest change waits for this pause.
const PAUSE_PER_COST: u32 = 4;
/// How long a copy is kept, and reused while nothing changes.
const KEEP: Duration = Duration::from_secs(2);
/// Greatest age of shared reasons.
const REASONS_KEEP: Duration = Duration::from_secs(1);

/// The state at one moment.
pub struct Still {
    world: Arc<World>,
    now: Timestamp,
    planned: Arc<[PlannedStart]>,
    n_alerts: u64,
    store_fault: Option<CommitError>,
    is_stuck: bool,
    reasons: Arc<Reasons>,
}

impl Still {
    /// The same as queries see it.
    pub fn view(&self) -> View<'_> {
        View {
            world: &self.world,
            now: self.now,
            planned: &self.planned,
            n_alerts: self.n_alerts,
            store_fault: self.store_fault.as_ref(),
            is_stuck: self.is_stuck,
            reasons: &self.reasons,
            is_of_core: false,
        }
    }
}

/// Where a copy goes, once all that it rests on is durable.
pub type Reply = oneshot::Sender<Result<Arc<Still>, Refusal>>;

/// Makes copies, and keeps the last one for a while.
#[derive(Default)]
pub struct Stills {
    last: Option<LastStill>,
    waiters: Vec<Reply>,
    /// Before then no other copy is made.
    not_before: Option<Instant>,
}

struct LastStill {
    still: Arc<Still>,
    asked_at: Instant,
    reasons_from: Instant,
}

impl Stills {
    /// Notes that one is asked for.
    pub fn ask(&mut self, reply: Reply) {
        self.waiters.push(reply);
    }

    /// Drops the last copy: the state went back to the durable one.
    pub fn forget_last(&mut self) {
        self.last = None;
    }

    /// When there is something to do next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.waiters.is_empty() {
            false => Some(self.not_before.unwrap_or_else(Instant::now)),
            true => self.last.as_ref().map(|last| last.asked_at + KEEP),
        }
    }

    /// The last copy, if it is of no use any more.
    pub fn outdated(&mut self, view: &View<'_>) -> Option<Arc<Still>> {
        let is_old = |last: &mut LastStill| {
            last.still.world.n_changes() != view.world.n_changes()
                || last.asked_at.elapsed() >= KEEP
        };
        self.last.take_if(is_old).map(|last| last.still)
    }

    /// Answers the waiting reads, unless it is too early for another copy.
    pub fn take(&mut self, view: &View<'_>) -> Option<Deliver> {
        self.waiters.retain(|reply| !reply.is_closed());
        if self.waiters.is_empty() {
            return None;
        }
        let began = Instant::now();
        let (world, reasons) = match self.last.take() {
            Some(last) => {
                let is_fresh = last.reasons_from.elapsed() < REASONS_KEEP;
                let reasons = Some((Arc::clone(&last.still.reasons), last.reasons_from));
                (Arc::clone(&last.still.world), reasons.filter(|_| is_fresh))
            }
            None if self.not_before.is_some_and(|at| at > began) => return None,
            None => {
                let world = Arc::new(view.world.still());
                self.not_before = Some(Instant::now() + began.elapsed() * PAUSE_PER_COST);
                (world, None)
            }
        };
        let (reasons, reasons_from) = reasons.unwrap_or_else(|| (Arc::default(), began));
        let still = Arc::new(Still {
            world,
            now: now(),
            planned: view.planned.into(),
            n_alerts: view.n_alerts,
            store_fault: view.store_fault.cloned(),
            is_stuck: view.is_stuck,
            reasons,
        });
        let given = Arc::clone(&still);
        self.last = Some(LastStill { still, asked_at: began, reasons_from });
        let asked = std::mem::take(&mut self.waiters);
        Some(Box::new(move |stands| {
            for reply in asked {
                // The caller may be gone.
                drop(reply.send(stands.clone().map(|()| Arc::clone(&given))));
            }
        }))
    }
}
