//! The chart of the plan: running jobs until their expected end, and waiting jobs from their
//! expected start, on one time axis. Numbers are thousandths of the width.

use std::fmt::Write as _;

use askama::Template;
use gpool_wire::{Job, Time};

use crate::jobs::{limit, soon};
use crate::text::{span, until};

const WIDTH: u64 = 1000;
/// Times later than this are at the right edge.
const LONGEST_S: u64 = 7 * 86_400;
/// More rows than this of each kind are not drawn.
const ROWS_MAX: usize = 24;
/// Distances of the marks on the axis, in seconds.
const STEPS: [u64; 13] =
    [10, 60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800];
const TICKS_MAX: u64 = 6;

#[derive(Debug, Clone)]
pub struct GanttRow {
    pub job: String,
    pub label: String,
    pub text: String,
    pub detail: String,
    /// `busy`, or `wait` for a job that has not started.
    pub style: &'static str,
    pub from: u64,
    pub width: u64,
    /// From the expected end to the time limit, as position and width.
    pub limit: Option<(u64, u64)>,
    /// The early and the late expected start, as position and width.
    pub range: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/gantt.html")]
pub struct Gantt {
    pub rows: Vec<GanttRow>,
    /// Places in percent with the time from now, and classes.
    pub ticks: Vec<(String, String, &'static str)>,
    /// The lines of the marks in each row.
    pub grid: String,
    pub has_running: bool,
    /// The text without rows.
    pub empty: &'static str,
}

impl Gantt {
    /// Draws running jobs by their end, then waiting jobs in their order.
    pub fn new(running: &[Job], waiting: &[Job], now: Time) -> Self {
        let mut running: Vec<(&Job, JobEnds)> =
            running.iter().map(|job| (job, JobEnds::of(job, now))).collect();
        running.sort_by_key(|(job, ends)| (ends.first().unwrap_or(u64::MAX), job.id.clone()));
        running.truncate(ROWS_MAX);
        let planned = waiting.iter().filter(|job| start(job).is_some());
        let planned: Vec<&Job> = planned.take(ROWS_MAX).collect();
        let late = planned.iter().filter_map(|job| job.forecast.eta.as_ref()?.p90.or(start(job)));
        let last = match late.map(|at| until(at, now)).max() {
            // The last start is not at the edge.
            Some(last) => last + last / 4,
            None => running.iter().filter_map(|(_, ends)| ends.first()).max().unwrap_or(0),
        };
        let all = last.clamp(600, LONGEST_S);
        let place = |seconds: u64| seconds.min(all) * WIDTH / all;
        let runs = running.iter().map(|(job, ends)| run(job, *ends, place));
        let plans = planned.iter().filter_map(|job| plan(job, now, place));
        let rows: Vec<GanttRow> = runs.chain(plans).collect();
        let (ticks, grid) = ticks(all);
        let empty = match waiting.is_empty() {
            true => "No job waits: a new job can start at once.",
            false => "No waiting job has an expected start yet.",
        };
        let has_running = rows.iter().any(|row| row.style == "busy");
        Self { rows, ticks, grid, has_running, empty }
    }
}

/// The marks of the time axis, and their lines.
fn ticks(all: u64) -> (Vec<(String, String, &'static str)>, String) {
    let step = STEPS.into_iter().find(|step| all / step <= TICKS_MAX).unwrap_or(STEPS[12]);
    let mut grid = String::new();
    let mark = |n: u64| {
        let at = n * step * WIDTH / all;
        let text = if n == 0 { "now".to_owned() } else { span(n * step) };
        let class = match at {
            0..40 => "first",
            961.. => "last",
            _ => "",
        };
        // Writing into a string can't fail.
        let _ = write!(grid, "M{at} 0v18");
        (format!("{}.{}", at / 10, at % 10), text, class)
    };
    ((0..=all / step).map(mark).collect(), grid)
}

/// The ends of a job in seconds from now, or from its start.
#[derive(Debug, Clone, Copy)]
struct JobEnds {
    /// By the run times of jobs like it.
    expected: Option<u64>,
    /// By its time limit.
    limit: Option<u64>,
}

impl JobEnds {
    fn of(job: &Job, now: Time) -> Self {
        let run = job.run.started_at.map_or(0, |at| until(now, at));
        let expected =
            std::time::Duration::try_from_secs_f64(job.forecast.expected_run_s.unwrap_or(-1.0));
        let limit = limit(job).map(|limit| limit.saturating_sub(run));
        Self { expected: expected.ok().map(|it| it.as_secs()), limit }
    }

    fn first(self) -> Option<u64> {
        self.expected.or(self.limit)
    }

    /// The part between the ends, for a start at `from`.
    fn rest(self, from: u64, place: impl Fn(u64) -> u64) -> Option<(u64, u64)> {
        let (expected, limit) = (place(from + self.expected?), place(from + self.limit?));
        (limit > expected).then(|| (expected, limit - expected))
    }
}

fn start(job: &Job) -> Option<Time> {
    job.forecast.eta.as_ref()?.p50
}

fn label(job: &Job) -> String {
    let name: String = job.name.chars().take(20).collect();
    format!("{} {name} · {}", job.id, job.request.gpus_words())
}

fn run(job: &Job, ends: JobEnds, place: impl Fn(u64) -> u64) -> GanttRow {
    let expected = ends.expected.map(|it| format!(", ends in about {}", span(it)));
    let most = match ends.limit {
        Some(left) => format!("at most {} more", span(left)),
        None => "without a time limit".to_owned(),
    };
    let text = format!("{}{}, {most}", job.state.as_str(), expected.unwrap_or_default());
    let width = ends.first().map_or(WIDTH, &place).max(3);
    let limit = ends.rest(0, &place);
    let detail = ends.first().map_or_else(String::new, |left| format!("ends in {}", span(left)));
    let (job, label) = (job.id.clone(), label(job));
    GanttRow { job, label, text, detail, style: "busy", from: 0, width, limit, range: None }
}

fn plan(job: &Job, now: Time, place: impl Fn(u64) -> u64) -> Option<GanttRow> {
    let eta = job.forecast.eta.as_ref()?;
    let at = until(eta.p50?, now);
    let ends = JobEnds::of(job, now);
    let (from, end) = (place(at), ends.first().map_or(WIDTH, |run| place(at + run)));
    let edge = |time: Option<Time>| time.map_or(from, |time| place(until(time, now)));
    let (early, late) = (edge(eta.p10), edge(eta.p90));
    let text = match at {
        0 => "starts now".to_owned(),
        at => format!("expected to start in {}", span(at)),
    };
    Some(GanttRow {
        job: job.id.clone(),
        label: label(job),
        detail: soon(eta.p50?, now),
        text,
        style: "wait",
        from,
        width: end.saturating_sub(from).max(3),
        limit: ends.rest(at, &place),
        range: Some((early, late.saturating_sub(early).max(2))),
    })
}
