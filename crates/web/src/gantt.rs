//! The chart of the plan: running jobs until their time limit, and waiting jobs from their expected
//! start, on one time axis. Numbers are thousandths of the width.

use askama::Template;
use gpool_wire::{Job, Time};

use crate::jobs::limit;
use crate::text::{span, until};

/// The width of the chart.
const WIDTH: u64 = 1000;
/// The height of a row.
const ROW: usize = 26;
/// Times later than this are at the right edge.
const LONGEST_S: u64 = 7 * 86_400;
/// More rows than this of each kind are not drawn.
const ROWS_MAX: usize = 24;
/// Distances of the marks on the axis, in seconds.
const STEPS: [u64; 13] =
    [10, 60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800];
/// Most marks.
const TICKS_MAX: u64 = 8;

/// The row of a job.
#[derive(Debug, Clone)]
pub struct Row {
    pub job: String,
    pub label: String,
    pub text: String,
    pub y: usize,
    /// `run`, or `plan` for a job that has not started.
    pub style: &'static str,
    pub from: u64,
    pub width: u64,
    /// The early and the late expected start, as position and width.
    pub range: Option<(u64, u64)>,
}

/// The chart.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/gantt.html")]
pub struct Gantt {
    pub rows: Vec<Row>,
    /// Positions with the time from now.
    pub ticks: Vec<(u64, String)>,
    pub height: usize,
}

impl Gantt {
    /// Draws running jobs by their end, then waiting jobs in their order.
    pub fn new(running: &[Job], waiting: &[Job], now: Time) -> Self {
        let mut running: Vec<(&Job, Option<u64>)> =
            running.iter().map(|job| (job, left(job, now))).collect();
        running.sort_by_key(|(job, left)| (left.unwrap_or(u64::MAX), job.id.clone()));
        running.truncate(ROWS_MAX);
        let planned = waiting.iter().filter(|job| start(job).is_some());
        let planned: Vec<&Job> = planned.take(ROWS_MAX).collect();
        let late = planned.iter().filter_map(|job| job.eta.as_ref()?.p90.or(start(job)));
        let last = match late.map(|at| until(at, now)).max() {
            // The last start is not at the edge.
            Some(last) => last + last / 4,
            None => running.iter().filter_map(|(_, left)| *left).max().unwrap_or(0),
        };
        let all = last.clamp(600, LONGEST_S);
        let place = |seconds: u64| seconds.min(all) * WIDTH / all;
        let runs = running.iter().map(|(job, left)| run(job, *left, place));
        let plans = planned.iter().filter_map(|job| plan(job, now, place));
        let mut rows: Vec<Row> = runs.chain(plans).collect();
        for (ix, row) in rows.iter_mut().enumerate() {
            row.y = ix * ROW + 28;
        }
        let height = rows.len() * ROW + 32;
        Self { rows, ticks: ticks(all), height }
    }
}

fn ticks(all: u64) -> Vec<(u64, String)> {
    let step = STEPS.into_iter().find(|step| all / step <= TICKS_MAX).unwrap_or(STEPS[12]);
    let label = |at: u64| if at == 0 { "now".to_owned() } else { span(at) };
    (0..=all / step).map(|n| (n * step * WIDTH / all, label(n * step))).collect()
}

/// Seconds until the time limit of a running job.
fn left(job: &Job, now: Time) -> Option<u64> {
    let run = job.started_at.map_or(0, |at| until(now, at));
    Some(limit(job)?.saturating_sub(run))
}

fn start(job: &Job) -> Option<Time> {
    job.eta.as_ref()?.p50
}

fn label(job: &Job) -> String {
    let name: String = job.name.chars().take(20).collect();
    format!("{} {name} · {}", job.id, job.gpus)
}

fn run(job: &Job, left: Option<u64>, place: impl Fn(u64) -> u64) -> Row {
    let text = match left {
        Some(left) => format!("{}, at most {} more", job.state.as_str(), span(left)),
        None => format!("{}, without a time limit", job.state.as_str()),
    };
    let width = left.map_or(WIDTH, place).max(3);
    let (job, label) = (job.id.clone(), label(job));
    Row { job, label, text, y: 0, style: "run", from: 0, width, range: None }
}

fn plan(job: &Job, now: Time, place: impl Fn(u64) -> u64) -> Option<Row> {
    let eta = job.eta.as_ref()?;
    let at = until(eta.p50?, now);
    let (from, end) = (place(at), limit(job).map_or(WIDTH, |limit| place(at + limit)));
    let edge = |time: Option<Time>| time.map_or(from, |time| place(until(time, now)));
    let (early, late) = (edge(eta.p10), edge(eta.p90));
    let text = match at {
        0 => "starts now".to_owned(),
        at => format!("expected to start in {}", span(at)),
    };
    Some(Row {
        job: job.id.clone(),
        label: label(job),
        text,
        y: 0,
        style: "plan",
        from,
        width: end.saturating_sub(from).max(3),
        range: Some((early, late.saturating_sub(early).max(2))),
    })
}
