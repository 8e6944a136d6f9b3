//! Sends the lives of jobs as OpenTelemetry traces: one trace for each job, with a span for each
//! state. A thread of its own sends them; a full queue drops spans, and counts them.
//!
//! Source: OpenTelemetry Protocol 1.x, JSON encoding over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use gpool_model::job::JobState;
use gpool_model::{JobId, JobSpec, Timestamp};
use serde_json::{Value, json};
use ureq::Agent;

use super::Passage;
use super::settings::{TraceUrl, Traces};
use super::state::{Now, Why};

/// Spans of one request.
const BATCH_MAX: usize = 256;
/// Time to wait for more spans before a request.
const GATHER: Duration = Duration::from_secs(1);
/// Time limit of one request.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Tracer {
    spans: SyncSender<Span>,
    counts: Arc<Counts>,
}

/// Numbers of spans since the server started.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// A state of a job that is over, or with `parent_id` absent the whole life of it.
#[derive(Debug, Clone, PartialEq)]
struct Span {
    trace_id: String,
    id: String,
    parent_id: Option<String>,
    name: String,
    from: Timestamp,
    to: Timestamp,
    attributes: Vec<(&'static str, Value)>,
    /// The reason why the state began, as an event.
    why: Option<Why>,
    is_error: bool,
}

impl Tracer {
    /// Starts the thread that sends.
    pub fn spawn(traces: &Traces) -> std::io::Result<Self> {
        let (spans, inbox) = sync_channel(traces.n_waiting_max);
        let counts = Arc::new(Counts::default());
        let sender = Sender { url: traces.to.clone(), agent: agent(), counts: Arc::clone(&counts) };
        let work = move || sender.run(&inbox);
        std::thread::Builder::new().name("traces".to_owned()).spawn(work)?;
        Ok(Self { spans, counts })
    }

    /// Sends the state that a job leaves, and its whole life if it ends.
    pub fn passed(&self, passage: &Passage<'_>) {
        for span in spans(passage) {
            match self.spans.try_send(span) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns the numbers of spans by result.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let Counts { sent, dropped, failed } = &*self.counts;
        [("sent", count(sent)), ("dropped", count(dropped)), ("failed", count(failed))]
    }
}

struct Sender {
    url: TraceUrl,
    agent: Agent,
    counts: Arc<Counts>,
}

impl Sender {
    fn run(&self, inbox: &Receiver<Span>) {
        let mut is_failing = false;
        while let Ok(first) = inbox.recv() {
            let batch = gather(inbox, first);
            let n_spans = batch.len() as u64;
            let sent = self.send(&batch);
            let count = if sent.is_ok() { &self.counts.sent } else { &self.counts.failed };
            count.fetch_add(n_spans, Ordering::Relaxed);
            // Once, not for each request.
            match sent {
                Err(why) if !is_failing => {
                    tracing::warn!(why, url = %self.url, "traces can't be sent");
                    is_failing = true;
                }
                Ok(()) if is_failing => {
                    tracing::info!("traces are sent again");
                    is_failing = false;
                }
                _ => {}
            }
        }
    }

    fn send(&self, batch: &[Span]) -> Result<(), String> {
        let body = serde_json::to_vec(&request(batch)).expect("a span is plain data");
        let request = self.agent.post(self.url.as_str()).header("content-type", "application/json");
        let answer = request.send(&body[..]).map_err(|error| error.to_string())?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            status => Err(format!("the receiver answered {status}")),
        }
    }
}

fn agent() -> Agent {
    gpool_identity::outbound::config(PATIENCE).into()
}

/// Takes the spans that follow soon.
fn gather(inbox: &Receiver<Span>, first: Span) -> Vec<Span> {
    let mut batch = vec![first];
    let until = Instant::now() + GATHER;
    while batch.len() < BATCH_MAX {
        match inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(span) => batch.push(span),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    batch
}

fn spans(passage: &Passage<'_>) -> Vec<Span> {
    let Passage { job, spec, from, to, revision, .. } = passage;
    let trace_id = trace_of(*job, spec);
    let root_id = root_of(*job, spec);
    let mut spans = Vec::new();
    if let Some(from) = from.filter(|from| from.since < to.since) {
        let what = format!("{} {} {}", from.attempt, from.state, from.since.get());
        let mut attributes = vec![("gpool.attempt", json!(from.attempt.to_string()))];
        attributes.extend(placed(from));
        if to.state == JobState::Starting {
            // The decision that ends the wait.
            attributes.push(("gpool.decision.revision", json!(revision.to_string())));
        }
        spans.push(Span {
            trace_id: trace_id.clone(),
            id: id_of(*job, spec, &what, 8),
            parent_id: Some(root_id.clone()),
            name: name(from).to_owned(),
            from: from.since,
            to: to.since,
            attributes,
            why: from.why.clone(),
            is_error: false,
        });
    }
    if to.state.is_end() {
        let attributes = vec![
            ("gpool.job.id", json!(job.to_string())),
            ("gpool.project", json!(spec.project.as_str())),
            ("gpool.user", json!(&*spec.owner.user)),
            ("gpool.result", json!(to.state.as_str())),
        ];
        spans.push(Span {
            trace_id,
            id: root_id,
            parent_id: None,
            name: "job".to_owned(),
            from: spec.submitted_at,
            to: to.since,
            attributes,
            why: to.why.clone(),
            is_error: !matches!(to.state.as_str(), "succeeded" | "cancelled"),
        });
    }
    spans
}

fn placed(now: &Now) -> impl Iterator<Item = (&'static str, Value)> {
    let node = now.node.as_ref().map(|node| ("gpool.node", json!(node.as_str())));
    let gpus = Duration::from_millis(now.milli).as_secs_f64();
    node.into_iter().chain((now.milli > 0).then(|| ("gpool.gpus", json!(gpus))))
}

/// The name of a state in traces.
fn name(now: &Now) -> &'static str {
    match now.state.as_str() {
        "pending" => "queued",
        other => other,
    }
}

/// The trace of a job for its environment: the value of `TRACEPARENT`. Spans of its program then
/// belong to the span of the whole job.
///
/// Source: W3C Trace Context, `traceparent` header, version 00, sampled.
#[must_use]
pub fn context_of(job: JobId, spec: &JobSpec) -> String {
    format!("00-{}-{}-01", trace_of(job, spec), root_of(job, spec))
}

fn trace_of(job: JobId, spec: &JobSpec) -> String {
    id_of(job, spec, "trace", 16)
}

/// The span of the whole job.
fn root_of(job: JobId, spec: &JobSpec) -> String {
    id_of(job, spec, "job", 8)
}

/// An ID in hexadecimal. The same job has the same IDs after a restart of the server.
fn id_of(job: JobId, spec: &JobSpec, what: &str, n_bytes: usize) -> String {
    let text = format!("gpool {job} {} {what}", spec.submitted_at.get());
    blake3::hash(text.as_bytes()).to_hex()[..2 * n_bytes].to_owned()
}

/// The body of a request, `ExportTraceServiceRequest`.
fn request(batch: &[Span]) -> Value {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let resource = attributes(&[
        ("service.name", json!("gpool-server")),
        ("service.version", json!(env!("CARGO_PKG_VERSION"))),
        ("host.name", json!(host)),
    ]);
    let spans: Vec<Value> = batch.iter().map(Span::json).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "gpool"}, "spans": spans}],
    }]})
}

impl Span {
    /// The span in the protocol: IDs in hexadecimal, 64-bit numbers as strings.
    fn json(&self) -> Value {
        let nanos = |at: Timestamp| format!("{}000000", at.get());
        let mut span = json!({
            "traceId": self.trace_id,
            "spanId": self.id,
            "name": self.name,
            // SPAN_KIND_INTERNAL
            "kind": 1,
            "startTimeUnixNano": nanos(self.from),
            "endTimeUnixNano": nanos(self.to),
            "attributes": attributes(&self.attributes),
            // STATUS_CODE_ERROR, or unset
            "status": {"code": if self.is_error { 2 } else { 0 }},
        });
        if let Some(parent) = &self.parent_id {
            span["parentSpanId"] = json!(parent);
        }
        if let Some(why) = &self.why {
            // The reason of an end comes at the end, that of a state at its beginning.
            let at = if self.parent_id.is_some() { self.from } else { self.to };
            let other = why.other.map(|job| ("gpool.other_job", json!(job.to_string())));
            let text = why.text.as_ref().map(|text| ("gpool.reason", json!(text)));
            let facts: Vec<_> = other.into_iter().chain(text).collect();
            span["events"] = json!([{
                "name": why.code,
                "timeUnixNano": nanos(at),
                "attributes": attributes(&facts),
            }]);
        }
        span
    }
}

fn attributes(all: &[(&'static str, Value)]) -> Vec<Value> {
    let kind = |value: &Value| if value.is_string() { "stringValue" } else { "doubleValue" };
    all.iter().map(|(key, value)| json!({"key": key, "value": {kind(value): value}})).collect()
}
