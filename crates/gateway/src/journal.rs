//! The reports of a gateway: decisions on its output and in its status, figures as metrics of its
//! job.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::measure::Figures;
use crate::service::{Folder, PastDecision, ReplicaStatus, Status, Sums};

/// Number of decisions in a report.
const DECISIONS: usize = 30;
/// Pause between two lines of metrics.
const METRICS_EVERY: Duration = Duration::from_secs(10);
/// Pause between two reports without news.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// What a gateway has decided.
pub struct Journal {
    gateway: String,
    decisions: VecDeque<PastDecision>,
    /// The report before, and its time.
    last: Option<(Status, Instant)>,
    metrics_at: Option<Instant>,
}

/// The state of the service.
pub struct Report<'a> {
    /// Where to write it.
    pub folder: &'a Folder,
    /// Address of the service.
    pub url: &'a str,
    /// Number of replicas to have.
    pub n_wanted: u32,
    /// Why.
    pub reason: String,
    /// The state of an update.
    pub update: Option<String>,
    /// Requests in flight.
    pub n_in_flight: u32,
    /// Held requests.
    pub n_held: u32,
    /// Answers of the last minute.
    pub figures: Figures,
    /// Sums since the start.
    pub sums: Sums,
    /// Its replicas.
    pub replicas: Vec<ReplicaStatus>,
}

impl Journal {
    /// A journal of the gateway with this job.
    #[must_use]
    pub fn new(gateway: String) -> Self {
        Self { gateway, decisions: VecDeque::new(), last: None, metrics_at: None }
    }

    /// Adds a decision or an event, and prints it.
    pub fn add(&mut self, text: String) {
        if self.decisions.back().is_some_and(|last| last.text == text) {
            return;
        }
        println!("{text}");
        if self.decisions.len() == DECISIONS {
            self.decisions.pop_front();
        }
        self.decisions.push_back(PastDecision { at_s: now_s(), text });
    }

    /// Writes a report if there are news or the last one is old, and now and then metrics of the
    /// gateway's job.
    pub fn report(&mut self, report: Report<'_>) {
        if self.metrics_at.is_none_or(|at| at.elapsed() >= METRICS_EVERY) {
            self.metrics_at = Some(Instant::now());
            print_metrics(&report);
        }
        let status = Status {
            at_s: now_s(),
            gateway: self.gateway.clone(),
            url: report.url.to_owned(),
            n_wanted: report.n_wanted,
            reason: report.reason,
            update: report.update,
            n_in_flight: report.n_in_flight,
            n_held: report.n_held,
            figures: report.figures,
            sums: report.sums,
            replicas: report.replicas,
            decisions: self.decisions.iter().cloned().collect(),
        };
        let is_known = |(last, at): &(Status, Instant)| {
            let stages = |status: &Status| {
                let each = status.replicas.iter();
                each.map(|it| (it.index, it.stage, it.n_in_flight)).collect::<Vec<_>>()
            };
            at.elapsed() < REPORT_EVERY
                && last.decisions == status.decisions
                && last.update == status.update
                && (last.n_held, last.n_in_flight) == (status.n_held, status.n_in_flight)
                && stages(last) == stages(&status)
        };
        if self.last.as_ref().is_some_and(is_known) {
            return;
        }
        if let Err(error) = report.folder.put_status(&status) {
            eprintln!("can't write the status: {error}");
        }
        self.last = Some((status, Instant::now()));
    }
}

fn print_metrics(report: &Report<'_>) {
    let figures = &report.figures;
    let mut line = serde_json::json!({
        "requests_s": figures.requests_s,
        "in_flight": report.n_in_flight,
        "held": report.n_held,
        "replicas": report.n_wanted,
    });
    let more =
        [("p50_ms", figures.p50_ms), ("p99_ms", figures.p99_ms), ("tokens_s", figures.tokens_s)];
    for (name, value) in more {
        if let Some(value) = value {
            line[name] = value.into();
        }
    }
    println!("{}", serde_json::json!({ "gpool": { "metrics": line } }));
}

/// The time in seconds since 1970.
#[must_use]
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
