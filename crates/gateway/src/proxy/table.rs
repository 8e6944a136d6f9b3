//! The replicas of the service and the requests that wait for one. The proxy and the driver share
//! it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::replica::Replica;
use crate::balance::{BalanceRules, Candidate, choose};
use crate::measure::{Figures, Minute};
use crate::scale::Sample;
use crate::service::{RequestRules, Sums};

/// The shared table.
pub struct Table {
    started: Instant,
    inside: Mutex<Inside>,
}

struct Inside {
    replicas: Vec<Arc<Replica>>,
    held: VecDeque<Held>,
    rules: RequestRules,
    canary: Option<u32>,
    /// Counts the choices.
    turn: u64,
    load: Load,
    minute: Minute,
    sums: Sums,
}

struct Held {
    since: Instant,
    give: oneshot::Sender<Lease>,
}

/// The load since the last sample.
struct Load {
    sampled: Instant,
    changed: Instant,
    /// Requests times seconds.
    area: f64,
    n_in_flight: u32,
    n_held: u32,
    n_arrived: u64,
    n_started: u64,
    held: Duration,
}

impl Load {
    /// Adds the time since the last change.
    fn advance(&mut self, now: Instant) {
        let n = f64::from(self.n_in_flight + self.n_held);
        self.area += n * now.saturating_duration_since(self.changed).as_secs_f64();
        self.changed = now;
    }
}

/// Why a request got no replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Too many are held.
    TooMany,
    /// It was held for too long.
    TooLong,
}

/// The right to send one request to a replica. It ends when the answer has been read.
pub struct Lease {
    /// The replica.
    pub replica: Arc<Replica>,
    table: Arc<Table>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.replica.n_in_flight.fetch_sub(1, Ordering::Relaxed);
        let mut inside = self.table.lock();
        inside.load.advance(Instant::now());
        inside.load.n_in_flight -= 1;
        let given = inside.dispatch(self.table.now_ms());
        drop(inside);
        self.table.give(given);
    }
}

/// The requests of the service.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// The load since the last look.
    pub sample: Sample,
    /// Held requests.
    pub n_held: u32,
    /// How long the oldest of them has been held.
    pub oldest_held: Duration,
    /// Requests in flight.
    pub n_in_flight: u32,
}

/// Requests that get a replica, with it.
type Handover = Vec<(oneshot::Sender<Lease>, Arc<Replica>)>;

impl Table {
    /// A table without replicas.
    #[must_use]
    pub fn new(rules: RequestRules, canary: Option<u32>) -> Arc<Self> {
        let now = Instant::now();
        let load = Load {
            sampled: now,
            changed: now,
            area: 0.0,
            n_in_flight: 0,
            n_held: 0,
            n_arrived: 0,
            n_started: 0,
            held: Duration::ZERO,
        };
        let inside = Inside {
            replicas: Vec::new(),
            held: VecDeque::new(),
            rules,
            canary,
            turn: 0,
            load,
            minute: Minute::default(),
            sums: Sums::default(),
        };
        Arc::new(Self { started: now, inside: Mutex::new(inside) })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the start of the gateway.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Replaces the rules.
    pub fn set_rules(&self, rules: RequestRules, canary: Option<u32>) {
        let mut inside = self.lock();
        inside.rules = rules;
        inside.canary = canary;
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> RequestRules {
        self.lock().rules
    }

    /// The replicas with a running job.
    #[must_use]
    pub fn replicas(&self) -> Vec<Arc<Replica>> {
        self.lock().replicas.clone()
    }

    /// Adds a replica.
    pub fn add(&self, replica: Arc<Replica>) {
        self.lock().replicas.push(replica);
    }

    /// Removes a replica; requests in flight keep it.
    pub fn remove(&self, index: u64) {
        self.lock().replicas.retain(|it| it.index != index);
    }

    /// Gives held requests to replicas that can take them, after a replica has become ready.
    pub fn serve_held(self: &Arc<Self>) {
        let given = self.lock().dispatch(self.now_ms());
        self.give(given);
    }

    fn give(self: &Arc<Self>, given: Handover) {
        for (sender, replica) in given {
            // A client that has gone returns its lease.
            let _ = sender.send(Lease { replica, table: self.clone() });
        }
    }

    /// Counts a request.
    pub fn arrived(&self) {
        let mut inside = self.lock();
        inside.load.n_arrived += 1;
        inside.sums.n_requests += 1;
    }

    /// Waits for a replica.
    ///
    /// # Errors
    /// Too many requests are held, or it was held for too long.
    pub async fn lease(self: &Arc<Self>) -> Result<Lease, Refused> {
        let (receive, most) = {
            let mut inside = self.lock();
            let now = Instant::now();
            inside.load.advance(now);
            // Those before it come first.
            if inside.held.is_empty()
                && let Some(replica) = inside.choose(self.now_ms())
            {
                inside.load.n_started += 1;
                return Ok(Lease { replica, table: self.clone() });
            }
            inside.held.retain(|it| !it.give.is_closed());
            inside.count_held();
            if inside.load.n_held >= inside.rules.max_held {
                inside.sums.n_refused += 1;
                return Err(Refused::TooMany);
            }
            let (give, receive) = oneshot::channel();
            inside.held.push_back(Held { since: now, give });
            inside.count_held();
            (receive, Duration::from_millis(inside.rules.hold_ms))
        };
        if let Ok(Ok(lease)) = tokio::time::timeout(most, receive).await {
            return Ok(lease);
        }
        self.lock().sums.n_refused += 1;
        Err(Refused::TooLong)
    }

    /// Counts an answer by the time until its head.
    pub fn answered(&self, replica: &Replica, is_error: bool, took: Duration) {
        let now_ms = self.now_ms();
        let mut outlier = replica.outlier.lock().unwrap_or_else(PoisonError::into_inner);
        outlier.answered(is_error, now_ms);
        drop(outlier);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.lock().minute.answered(now_ms, us);
    }

    /// Counts generated tokens.
    pub fn tokens(&self, n: u64) {
        let now_ms = self.now_ms();
        self.lock().minute.tokens(now_ms, n);
    }

    /// Counts a request that is repeated.
    pub fn repeated(&self) {
        self.lock().sums.n_repeated += 1;
    }

    /// Counts a request that failed with its replica.
    pub fn failed(&self) {
        self.lock().sums.n_failed += 1;
    }

    /// The load since the last call.
    pub fn sample(&self) -> Traffic {
        let mut inside = self.lock();
        let now = Instant::now();
        inside.load.advance(now);
        inside.held.retain(|it| !it.give.is_closed());
        inside.count_held();
        let oldest = inside.held.front().map_or(Duration::ZERO, |it| now - it.since);
        let load = &mut inside.load;
        let seconds = (now - load.sampled).as_secs_f64().max(1e-6);
        let sample = Sample {
            concurrency: load.area / seconds,
            n_arrived: load.n_arrived,
            n_started: load.n_started,
            held_ms: u64::try_from(load.held.as_millis()).unwrap_or(u64::MAX),
        };
        load.sampled = now;
        load.area = 0.0;
        (load.n_arrived, load.n_started, load.held) = (0, 0, Duration::ZERO);
        let (n_held, n_in_flight) = (load.n_held, load.n_in_flight);
        Traffic { sample, n_held, oldest_held: oldest, n_in_flight }
    }

    /// Figures of the last minute, and sums.
    #[must_use]
    pub fn figures(&self) -> (Figures, Sums) {
        let now_ms = self.now_ms();
        // A copy is made within a few microseconds, and requests wait for no percentiles.
        let (minute, sums) = {
            let inside = self.lock();
            (inside.minute.clone(), inside.sums)
        };
        (minute.figures(now_ms), sums)
    }
}

impl Inside {
    fn count_held(&mut self) {
        self.load.n_held = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
    }

    /// Chooses a replica and counts a request for it.
    fn choose(&mut self, now_ms: u64) -> Option<Arc<Replica>> {
        let open = self.replicas.iter().enumerate().filter(|(_, it)| it.is_open());
        let candidate = |(ix, it): (usize, &Arc<Replica>)| Candidate {
            ix,
            n_in_flight: it.n_in_flight.load(Ordering::Relaxed),
            is_new: it.is_new.load(Ordering::Relaxed),
        };
        let all: Vec<Candidate> = open.map(candidate).collect();
        let is_sound = |it: &&Candidate| {
            let outlier = self.replicas[it.ix].outlier.lock();
            !outlier.unwrap_or_else(PoisonError::into_inner).is_out(now_ms)
        };
        let sound: Vec<Candidate> = all.iter().filter(is_sound).copied().collect();
        // If all answer with errors, the user should see these.
        let candidates = if sound.is_empty() { &all } else { &sound };
        let rules =
            BalanceRules { max_concurrency: self.rules.max_concurrency, canary: self.canary };
        let ix = choose(candidates, rules, self.turn)?;
        self.turn += 1;
        let replica = self.replicas[ix].clone();
        replica.n_in_flight.fetch_add(1, Ordering::Relaxed);
        self.load.n_in_flight += 1;
        Some(replica)
    }

    /// Takes the held requests that a replica can take now.
    fn dispatch(&mut self, now_ms: u64) -> Handover {
        let mut given = Vec::new();
        self.load.advance(Instant::now());
        while let Some(first) = self.held.front() {
            if first.give.is_closed() {
                self.held.pop_front();
                continue;
            }
            let Some(replica) = self.choose(now_ms) else { break };
            let Some(held) = self.held.pop_front() else { break };
            self.load.n_started += 1;
            self.load.held += held.since.elapsed();
            given.push((held.give, replica));
        }
        self.count_held();
        given
    }
}
