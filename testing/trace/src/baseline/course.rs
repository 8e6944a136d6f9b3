//! The state that all rules share: the jobs, where they run, and until when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::{MilliGpu, Millis, Refusal, Timestamp};

use super::places::{Parts, Places};
use crate::cluster::Nodes;
use crate::jobs::{EPOCH, TraceJob};
use crate::outcome::{Outcome, Played, Ran};

/// A job that was submitted and has not ended.
#[derive(Debug)]
pub(super) struct Live {
    owner: Arc<str>,
    before: Vec<Ran>,
    submitted_at: Timestamp,
    /// Its run time, without repeated work.
    pub duration: Millis,
    /// Its devices.
    pub n_gpus: u32,
    /// Its remaining run time at its last start or preemption, without repeated work.
    left: Millis,
    /// The work that it repeats first, because of preemptions.
    again: Millis,
    /// How long it had run by then, repeated work included.
    had: Millis,
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    started_at: Timestamp,
    ends_at: Timestamp,
    devices: Vec<(u32, u32)>,
}

impl Live {
    /// Returns its remaining run time, without repeated work.
    pub fn left(&self, now: Timestamp) -> Millis {
        let ran = self.ran(now).unwrap_or_default();
        self.left.saturating_sub(ran.saturating_sub(self.again))
    }

    /// Returns how long it has run in all.
    pub fn had(&self, now: Timestamp) -> Millis {
        self.had.saturating_add(self.ran(now).unwrap_or_default())
    }

    /// Returns how long it has run since its last start, if it runs.
    pub fn ran(&self, now: Timestamp) -> Option<Millis> {
        self.run.as_ref().map(|run| now.since(run.started_at))
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.run.is_some()
    }
}

/// The state of a simulation.
pub(super) struct Course {
    pub now: Timestamp,
    pub places: Places,
    pub outcome: Outcome,
    /// The work that a job repeats after each preemption.
    restart: Millis,
    /// By number, in the order of submission.
    live: BTreeMap<u64, Live>,
    // Invariant: has exactly the running jobs of `live`.
    ends: BTreeSet<(Timestamp, u64)>,
    last: u64,
}

impl Course {
    /// The state before the first job.
    pub fn new(nodes: Nodes, restart: Millis) -> Self {
        Self {
            now: EPOCH,
            places: Places::new(nodes),
            outcome: Outcome::default(),
            restart,
            live: BTreeMap::new(),
            ends: BTreeSet::new(),
            last: 0,
        }
    }

    /// The jobs that were submitted and have not ended, by number.
    pub fn live(&self) -> &BTreeMap<u64, Live> {
        &self.live
    }

    /// How many of them do not run.
    pub fn n_waiting(&self) -> usize {
        self.live.len() - self.ends.len()
    }

    /// Returns when the next running job ends.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// The ends of running jobs.
    pub fn ends(&self) -> &BTreeSet<(Timestamp, u64)> {
        &self.ends
    }

    /// Returns the devices of a running job.
    pub fn devices(&self, id: u64) -> &[(u32, u32)] {
        let run = self.live.get(&id).and_then(|live| live.run.as_ref());
        run.map_or(&[], |run| &run.devices)
    }

    /// Lets time pass, and ends the jobs that are due.
    pub fn pass(&mut self, now: Timestamp, is_measured: bool) {
        if is_measured {
            let span = u128::from(now.since(self.now).get());
            self.outcome.busy += u128::from(self.places.n_taken()) * span;
        }
        self.now = now;
        while let Some((at, id)) = self.ends.first().copied().filter(|(at, _)| *at <= now) {
            self.ends.remove(&(at, id));
            self.end(id);
        }
    }

    /// Submits a job; returns its number if it needs devices.
    pub fn come(&mut self, job: &TraceJob) -> Option<u64> {
        if !self.places.could_hold(job.n_gpus) {
            self.outcome.n_refused += 1;
            self.outcome.refusal.get_or_insert_with(|| Refusal::TooLarge {
                what: format!("a job of {} GPUs", job.n_gpus),
                most: format!("{} GPUs, which are all", self.places.n_all()),
            });
            return None;
        }
        let first = self.outcome.came.map_or(self.now, |(first, _)| first);
        self.outcome.came = Some((first, self.now));
        let duration = Millis::new(job.duration_s.saturating_mul(1000));
        let live = Live {
            owner: Arc::clone(&job.owner),
            before: Vec::new(),
            submitted_at: self.now,
            duration,
            n_gpus: job.n_gpus,
            left: duration,
            again: Millis::ZERO,
            had: Millis::ZERO,
            run: None,
        };
        self.last += 1;
        self.live.insert(self.last, live);
        if job.n_gpus == 0 {
            // It takes nothing that other jobs wait for.
            self.start(self.last, &Vec::new());
            return None;
        }
        Some(self.last)
    }

    /// Starts a waiting job.
    pub fn start(&mut self, id: u64, parts: &Parts) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let devices = self.places.take(parts);
        let ends_at = self.now.after(live.again).after(live.left);
        live.run = Some(Run { started_at: self.now, ends_at, devices });
        self.ends.insert((ends_at, id));
    }

    /// Preempts a running job; it continues its work later, and repeats a little of it.
    pub fn take_back(&mut self, id: u64) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let ran = live.ran(self.now).unwrap_or_default();
        let (left, had) = (live.left(self.now), live.had(self.now));
        let Some(run) = live.run.take() else { return };
        (live.left, live.had) = (left, had);
        live.again = live.again.saturating_sub(ran).saturating_add(self.restart);
        self.ends.remove(&(run.ends_at, id));
        self.places.give_back(&run.devices);
        live.before.push(run.until(self.now));
        self.outcome.n_taken_back += 1;
    }

    fn end(&mut self, id: u64) {
        let Some(mut live) = self.live.remove(&id) else { return };
        let Some(run) = live.run else { return };
        self.places.give_back(&run.devices);
        live.before.push(run.until(self.now));
        self.outcome.jobs.push(Played {
            owner: live.owner,
            runs: live.before,
            submitted_at: live.submitted_at,
            ended_at: self.now,
            duration: live.duration,
            gpus: MilliGpu::from_devices(live.n_gpus),
        });
    }
}

impl Run {
    fn until(self, until: Timestamp) -> Ran {
        Ran { from: self.started_at, until, devices: self.devices }
    }
}
