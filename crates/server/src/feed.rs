//! The last events, so that a watcher can resume after a lost connection. All watchers share one
//! ring: a slow watcher misses events, and the server's memory stays limited.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpool_model::effect::Change;
use gpool_model::{Notice, Timestamp};
use gpool_wire::Time;
use gpool_wire::event::{Event, EventKind};
use tokio::sync::watch;

const EVENTS_MAX: usize = 32_768;

/// The last events of this server.
pub struct Feed {
    /// Distinguishes IDs of this server process from those of others.
    epoch: u64,
    ring: Mutex<Ring>,
    last: watch::Sender<u64>,
}

#[derive(Default)]
struct Ring {
    /// Number of the last event, from 1.
    last: u64,
    // Invariant: consecutive numbers that end with `last`.
    notices: VecDeque<Notice>,
    n_moved: u64,
}

/// The events after a position.
pub enum After {
    /// The events in order; empty if there are none yet.
    Events(Vec<Event>),
    /// Events are missing, or the ID is from another server: continue with this event.
    Gap(Event),
}

impl Feed {
    /// Returns a feed without events. The start time of the server is part of its event ids, so
    /// they differ from those of other servers.
    pub fn new(started_at: Timestamp) -> Self {
        Self { epoch: started_at.get(), ring: Mutex::default(), last: watch::Sender::new(0) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Each change of the ring is complete, even after a panic elsewhere.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a notice of the core, immediately and in order.
    pub fn keep(&self, notice: Notice) {
        let mut ring = self.ring();
        ring.n_moved += u64::from(matches!(notice.change, Change::JobMoved { .. }));
        ring.last += 1;
        ring.notices.push_back(notice);
        if ring.notices.len() > EVENTS_MAX {
            ring.notices.pop_front();
        }
        self.last.send_replace(ring.last);
    }

    /// Returns a receiver that changes with each event.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// Returns the number of the last event.
    pub fn place(&self) -> u64 {
        self.ring().last
    }

    /// Returns the event number for an ID; `None` for an ID of another server.
    pub fn place_of(&self, id: &str) -> Option<u64> {
        place_of(self.epoch, id)
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.epoch)
    }

    /// Returns at most `most` events after a number; `None` means an ID of another server.
    pub fn after(&self, place: Option<u64>, most: usize) -> After {
        let ring = self.ring();
        let n_kept = ring.notices.len() as u64;
        let first = ring.last - n_kept + 1;
        let place = place.filter(|place| *place <= ring.last && *place + 1 >= first);
        let Some(place) = place else {
            let (seq, time) = match ring.notices.back() {
                Some(notice) => (notice.seq.0, notice.time),
                None => (0, crate::clock::now()),
            };
            let kind = EventKind::Resync;
            return After::Gap(Event { id: self.id(ring.last), seq, time: Time(time), kind });
        };
        let skipped = usize::try_from(place + 1 - first).unwrap_or(usize::MAX);
        let events = (place + 1..).zip(ring.notices.iter().skip(skipped)).take(most);
        After::Events(events.map(|(number, notice)| Event::new(self.id(number), notice)).collect())
    }

    /// Returns the number of moves of running jobs since the server started.
    pub fn n_moved(&self) -> u64 {
        self.ring().n_moved
    }
}

pub fn place_of(epoch: u64, id: &str) -> Option<u64> {
    let (of, number) = id.split_once('-')?;
    (of.parse() == Ok(epoch)).then(|| number.parse().ok())?
}
