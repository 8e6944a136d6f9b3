//! The number of replicas from the measured load, as Knative's autoscaler computes it: the average
//! over a stable window, a short panic window for steps of the load, and a delay before replicas
//! are removed.
//!
//! Source: Knative Serving, "Autoscaling": target, stable window, panic threshold of 200 %,
//! scale-down delay.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The quantity that the target refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Requests that a replica handles at once, with the held ones.
    Concurrency,
    /// Requests for each replica in a second.
    Rate,
    /// Milliseconds that a request waits for a replica.
    QueueTime,
}

/// The rules of a service.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScaleRules {
    /// Fewest replicas.
    pub min: u32,
    /// Most replicas.
    pub max: u32,
    /// The measured quantity.
    pub metric: Metric,
    /// Its value for each replica.
    pub target: f64,
    /// Stable window.
    pub window_ms: u64,
    /// Replicas are removed when fewer sufficed during this time.
    pub cooldown_ms: u64,
}

impl ScaleRules {
    /// The panic window: a twentieth of the stable window. Knative's tenth would recognize a step
    /// to four times the load too late.
    #[must_use]
    pub fn panic_window_ms(&self) -> u64 {
        (self.window_ms / 20).max(500)
    }

    /// The share of the replicas between its bounds.
    fn within(&self, n: u32) -> u32 {
        n.clamp(self.min, self.max)
    }
}

/// The load between two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Average number of requests in flight or held.
    pub concurrency: f64,
    /// Requests that arrived.
    pub n_arrived: u64,
    /// Requests that got a replica.
    pub n_started: u64,
    /// Sum of the times that these were held.
    pub held_ms: u64,
}

/// The replicas at a moment, and the requests that wait for one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Present {
    /// Replicas that get requests.
    pub n_ready: u32,
    /// Replicas that are not being removed.
    pub n_living: u32,
    /// Held requests.
    pub n_held: u32,
    /// How long the oldest of them has been held.
    pub oldest_held_ms: u64,
}

/// The number of replicas to have, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Number of replicas.
    pub n: u32,
    /// Why, as a sentence without a period.
    pub reason: String,
    /// Whether a step of the load was recognized: nothing is removed then.
    pub is_panic: bool,
}

/// A sample with its interval.
#[derive(Debug, Clone, Copy)]
struct Interval {
    from_ms: u64,
    until_ms: u64,
    sample: Sample,
}

/// Averages over a window.
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    concurrency: f64,
    rate: f64,
    wait_ms: f64,
    n_arrived: u64,
    span_ms: u64,
}

/// The measurements of a service, from the start of its gateway on.
#[derive(Debug, Clone)]
pub struct Scaler {
    rules: ScaleRules,
    intervals: VecDeque<Interval>,
    started_ms: u64,
    sampled_ms: u64,
    /// Numbers that were needed, the newest last, as far as the cooldown reaches back.
    needs: VecDeque<(u64, u32)>,
    panic_until_ms: Option<u64>,
}

impl Scaler {
    /// A scaler for a service that has `n_living` replicas. Without measurements, these count as
    /// needed: a gateway that has just started again removes nothing.
    #[must_use]
    pub fn new(rules: ScaleRules, now_ms: u64, n_living: u32) -> Self {
        Self {
            rules,
            intervals: VecDeque::new(),
            started_ms: now_ms,
            sampled_ms: now_ms,
            needs: VecDeque::from([(now_ms, n_living)]),
            panic_until_ms: None,
        }
    }

    /// Replaces the rules, and keeps the measurements.
    pub fn set_rules(&mut self, rules: ScaleRules) {
        self.rules = rules;
    }

    /// Adds the load since the last sample.
    pub fn record(&mut self, now_ms: u64, sample: Sample) {
        if now_ms <= self.sampled_ms {
            return;
        }
        let interval = Interval { from_ms: self.sampled_ms, until_ms: now_ms, sample };
        self.intervals.push_back(interval);
        self.sampled_ms = now_ms;
        let oldest = now_ms.saturating_sub(self.rules.window_ms);
        while self.intervals.front().is_some_and(|it| it.until_ms <= oldest) {
            self.intervals.pop_front();
        }
    }

    /// The averages of the last `window_ms`.
    fn average(&self, window_ms: u64) -> Average {
        let from = self.sampled_ms.saturating_sub(window_ms).max(self.started_ms);
        let (mut area, mut arrived, mut n_started, mut held) = (0.0, 0.0, 0, 0);
        let mut n_arrived = 0;
        for it in self.intervals.iter().rev().take_while(|it| it.until_ms > from) {
            let inside = as_f64(it.until_ms - it.from_ms.max(from));
            let part = inside / as_f64(it.until_ms - it.from_ms);
            area += it.sample.concurrency * inside;
            arrived += as_f64(it.sample.n_arrived) * part;
            n_arrived += it.sample.n_arrived;
            n_started += it.sample.n_started;
            held += it.sample.held_ms;
        }
        let span_ms = self.sampled_ms.saturating_sub(from);
        // The first second of a gateway is no average yet.
        let span = as_f64(span_ms.max(1000.min(window_ms)));
        let wait_ms = if n_started == 0 { 0.0 } else { as_f64(held) / as_f64(n_started) };
        Average {
            concurrency: area / span,
            rate: arrived * 1000.0 / span,
            wait_ms,
            n_arrived,
            span_ms,
        }
    }

    /// The number of replicas that a load needs.
    fn need(&self, average: &Average, present: Present) -> u32 {
        let target = self.rules.target;
        let load = match self.rules.metric {
            Metric::Concurrency => average.concurrency / target,
            Metric::Rate => average.rate / target,
            Metric::QueueTime => {
                let wait = average.wait_ms.max(as_f64(present.oldest_held_ms));
                // Replicas that start are the answer to the times of before: only ready ones count
                // for more.
                let (n, n_ready) = (f64::from(present.n_living.max(1)), f64::from(present.n_ready));
                match wait / target {
                    over if over > 1.0 => n.max(n_ready * over.min(2.0)),
                    under if under < 0.5 => (n - 1.0).max(0.0),
                    _ => n,
                }
            }
        };
        let is_used =
            present.n_held > 0 || average.n_arrived > 0 || average.concurrency > f64::EPSILON;
        if !is_used {
            return 0;
        }
        // A load of 2.0000001 by rounding is one of 2.
        round_up(load - 1e-6).max(1)
    }

    /// Decides how many replicas the service has.
    pub fn decide(&mut self, now_ms: u64, present: Present) -> Decision {
        let rules = self.rules;
        let stable = self.average(rules.window_ms);
        let short = self.average(rules.panic_window_ms());
        let stable_need = self.need(&stable, present);
        let short_need = self.need(&short, present);
        let is_step = short_need >= 2 * present.n_ready.max(1) && rules.metric != Metric::QueueTime;
        if is_step {
            self.panic_until_ms = Some(now_ms + rules.window_ms);
        }
        let is_panic = self.panic_until_ms.is_some_and(|until| now_ms < until);
        let need = if is_panic { stable_need.max(short_need) } else { stable_need };
        let (average, name) = match is_panic && short_need > stable_need {
            true => (short, "panic window"),
            false => (stable, "stable window"),
        };
        let reason = Reason { rules, average, name, present };
        let wanted = rules.within(need);
        self.needs.push_back((now_ms, wanted));
        let oldest = now_ms.saturating_sub(rules.cooldown_ms);
        while self.needs.front().is_some_and(|(at, _)| *at < oldest) {
            self.needs.pop_front();
        }
        let most = self.needs.iter().copied().max_by_key(|(at, n)| (*n, *at));
        let (since, kept) = most.unwrap_or((now_ms, wanted));
        let kept = rules.within(kept);
        let mut text = reason.to_string();
        if need != wanted {
            text += &format!("; the bounds are {}..{}", rules.min, rules.max);
        }
        if kept > wanted {
            let ago = (now_ms - since) / 1000;
            let cooldown = rules.cooldown_ms / 1000;
            let needed = count(kept);
            text += &format!("; needed {needed} {ago} s ago, and the cooldown is {cooldown} s");
        }
        Decision { n: kept, reason: text, is_panic }
    }
}

/// The reason of a number, before the cooldown.
struct Reason {
    rules: ScaleRules,
    average: Average,
    name: &'static str,
    present: Present,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rules, average, name, present } = self;
        let seconds = as_f64(average.span_ms) / 1000.0;
        let target = rules.target;
        if average.n_arrived == 0 && average.concurrency <= f64::EPSILON && present.n_held == 0 {
            return write!(f, "no requests in the {name} of {seconds:.1} s");
        }
        match rules.metric {
            Metric::Concurrency => {
                write!(f, "{:.1} requests at once", average.concurrency)?;
            }
            Metric::Rate => write!(f, "{:.1} requests/s", average.rate)?,
            Metric::QueueTime => {
                let wait = average.wait_ms.max(as_f64(present.oldest_held_ms));
                write!(f, "requests are held {wait:.0} ms")?;
            }
        }
        write!(f, " in the {name} of {seconds:.1} s, target {target}")?;
        match present.n_held {
            0 => Ok(()),
            1 => f.write_str("; 1 request is held"),
            n => write!(f, "; {n} requests are held"),
        }
    }
}

/// `1 replica`, `3 replicas`.
#[must_use]
pub fn count(n: u32) -> String {
    format!("{n} replica{}", if n == 1 { "" } else { "s" })
}

#[expect(clippy::cast_precision_loss, reason = "times and counts here are far below 2^53")]
fn as_f64(n: u64) -> f64 {
    n as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within bounds")]
fn round_up(x: f64) -> u32 {
    x.ceil().clamp(0.0, 1e6) as u32
}
