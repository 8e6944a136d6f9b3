//! The metrics that a program reports about its own work, as lines of JSON in its standard output:
//! `{"gpool": {"metrics": {"loss": 0.31}, "step": 120}}`. A program can write anything, so each
//! byte costs little, and the number of parsed lines, names and messages is limited.
//!
//! A line can also tell whether a person works with the program, `{"gpool": {"busy": true}}`: then
//! its GPUs are not idle.
//!
//! On Valohai, every line with a JSON object has metrics, so jobs with Valohai's variables report
//! them in that form too: `{"loss": 0.31, "step": 120}`.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::objective::{MetricValue, is_metric_name};
use gpool_model::{Compat, JobSpec};
use gpool_protocol::recent::METRICS_MAX;
use gpool_sys::clock;
use serde::Deserialize;
use serde_json::Value;

use super::Shepherd;
use crate::message::FromShepherd;

/// The beginning of a line with metrics: lines of other programs that write JSON differ.
const START: &[u8] = b"{\"gpool\"";
/// The beginning of a line with metrics in Valohai's form.
const OBJECT_START: &[u8] = b"{";
/// Longer lines are no metrics.
const LINE_MAX: usize = 8 << 10;
/// Lines that are parsed in a second; further ones are skipped.
const LINES_MAX: u32 = 256;
/// Pause between two messages to the agent, which is the resolution of metrics.
const PAUSE_MS: u64 = 1000;

#[derive(Default)]
pub struct Metrics {
    /// Whether every JSON object on a line has metrics.
    takes_objects: bool,
    /// The beginning of the current line, if it can be one with metrics.
    line: Vec<u8>,
    /// Whether the rest of the current line is skipped.
    skips: bool,
    /// The current second, and the number of lines in it.
    rate_window: (u64, u32),
    names: BTreeSet<String>,
    /// The metric whose last value goes into the end of the task, and that value.
    objective: Option<(String, Option<f64>)>,
    /// The last values that the agent has not received.
    unsaid: BTreeMap<String, f64>,
    /// Whether the program says that it is busy, if the agent has not received that.
    busy: Option<bool>,
    said_at: Option<u64>,
    /// Whether the timer is set for the next message.
    is_timed: bool,
}

#[derive(Deserialize)]
struct MetricsLine {
    gpool: Reported,
}

#[derive(Deserialize)]
struct Reported {
    #[serde(default)]
    metrics: BTreeMap<String, Value>,
    step: Option<Value>,
    busy: Option<bool>,
}

impl Metrics {
    /// Metrics of a job; `takes_objects` means Valohai's form too. `objective` is the metric whose
    /// last value is needed at the end.
    #[must_use]
    pub fn new(takes_objects: bool, objective: Option<&str>) -> Self {
        let objective = objective.map(|name| (name.to_owned(), None));
        Self { takes_objects, objective, ..Self::default() }
    }

    /// The metrics of a task of a job.
    pub(super) fn of(spec: &JobSpec) -> Self {
        let objective = spec.array.as_ref().and_then(|array| array.objective.as_ref());
        let metric = objective.map(|objective| &*objective.metric);
        Self::new(spec.compat.contains(&Compat::Valohai), metric)
    }

    /// The last value of the objective's metric.
    #[must_use]
    pub fn objective(&self) -> Option<MetricValue> {
        let (_, value) = self.objective.as_ref()?;
        // Six digits.
        MetricValue::parse(&format!("{:.5e}", (*value)?))
    }

    fn start(&self) -> &'static [u8] {
        if self.takes_objects { OBJECT_START } else { START }
    }

    /// Reads a piece of the output. `now` is a time in milliseconds.
    pub fn read(&mut self, mut bytes: &[u8], now: u64) {
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.add(piece);
            bytes = rest.get(1..).unwrap_or_default();
            if end.is_some() {
                self.end_line(now);
            }
        }
    }

    fn add(&mut self, piece: &[u8]) {
        if self.skips {
            return;
        }
        let room = LINE_MAX - self.line.len();
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        let start = self.start();
        let n_start = start.len().min(self.line.len());
        self.skips = piece.len() > room || self.line[..n_start] != start[..n_start];
    }

    fn end_line(&mut self, now: u64) {
        let is_whole = !std::mem::take(&mut self.skips) && self.line.len() > self.start().len();
        if is_whole && self.counts(now) {
            self.parse();
        }
        self.line.clear();
    }

    fn counts(&mut self, now: u64) -> bool {
        let second = now / 1000;
        if self.rate_window.0 != second {
            self.rate_window = (second, 0);
        }
        self.rate_window.1 += 1;
        self.rate_window.1 <= LINES_MAX
    }

    fn parse(&mut self) {
        let (mut metrics, step) = match serde_json::from_slice(&self.line) {
            Ok(MetricsLine { gpool: Reported { metrics, step, busy } }) => {
                self.busy = busy.or(self.busy);
                (metrics, step)
            }
            Err(_) if !self.takes_objects => return,
            Err(_) => match serde_json::from_slice(&self.line) {
                Ok(metrics) => (metrics, None),
                Err(_) => return,
            },
        };
        if let Some(step) = step {
            metrics.entry("step".to_owned()).or_insert(step);
        }
        for (name, value) in metrics {
            // They are stored with 32 bits.
            let fits = |value: &f64| value.abs() <= f64::from(f32::MAX);
            let Some(value) = value.as_f64().filter(fits) else { continue };
            if let Some((_, last)) = self.objective.as_mut().filter(|(own, _)| *own == name) {
                *last = Some(value);
            }
            let is_known = self.names.contains(&name);
            if is_known || (self.names.len() < METRICS_MAX && is_metric_name(&name)) {
                self.names.insert(name.clone());
                self.unsaid.insert(name, value);
            }
        }
    }

    /// When the next message is due; `None` if there is nothing new.
    pub fn next_message_at(&self) -> Option<u64> {
        let at = self.said_at.map_or(0, |at| at.saturating_add(PAUSE_MS));
        (!self.unsaid.is_empty() || self.busy.is_some()).then_some(at)
    }

    /// Takes the values for a message.
    pub fn take(&mut self, now: u64) -> BTreeMap<String, f64> {
        (self.said_at, self.is_timed) = (Some(now), false);
        std::mem::take(&mut self.unsaid)
    }

    /// Takes whether the program says that it is busy, if it said that since the last call.
    pub fn take_busy(&mut self) -> Option<bool> {
        self.busy.take()
    }
}

impl Shepherd {
    /// When to tell the agent new metrics: values wait while no agent listens.
    pub(super) fn next_metrics_at(&self) -> Option<u64> {
        self.metrics.next_message_at().filter(|_| self.link.is_up())
    }

    /// Tells the agent new metrics if that is due, and otherwise sets the timer.
    pub(super) fn say_metrics(&mut self) {
        let Some(due) = self.next_metrics_at() else { return };
        let now = clock::boot_ms();
        if due <= now {
            self.say_metrics_now(now);
        } else if !self.metrics.is_timed {
            self.metrics.is_timed = true;
            self.set_timer();
        }
    }

    /// Tells the agent the last metrics.
    pub(super) fn say_last_metrics(&mut self) {
        if self.next_metrics_at().is_some() {
            self.say_metrics_now(clock::boot_ms());
        }
    }

    fn say_metrics_now(&mut self, now: u64) {
        if let Some(is_busy) = self.metrics.take_busy() {
            self.link.say(&FromShepherd::Busy { is_busy });
        }
        let values = self.metrics.take(now);
        if !values.is_empty() {
            self.link.say(&FromShepherd::Metrics { values });
        }
    }
}
