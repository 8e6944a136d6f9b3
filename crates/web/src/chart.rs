//! The chart of expected starts: a row for each job on one time axis. Numbers are thousandths of
//! the width.

use gpool_wire::{Job, Time};

use crate::text::{span, until};

/// The width of the chart.
const WIDTH: u64 = 1000;
/// Starts later than this are at the right edge.
const LONGEST_S: u64 = 7 * 86_400;
/// More rows than this are not drawn.
const ROWS_MAX: usize = 30;

/// The expected start of a job.
#[derive(Debug, Clone)]
pub struct Bar {
    pub job: String,
    pub name: String,
    pub gpus: String,
    /// The early and the late bound, and the expected start.
    pub from: u64,
    pub width: u64,
    pub at: Option<u64>,
    pub text: String,
}

/// A chart.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    pub bars: Vec<Bar>,
    /// Positions with the time from now.
    pub ticks: Vec<(u64, String)>,
}

impl Chart {
    /// The jobs with an expected start, in their order.
    pub fn new(waiting: &[Job], now: Time) -> Self {
        let planned = waiting.iter().filter_map(|job| Some((job, job.eta.as_ref()?)));
        let planned: Vec<_> = planned.filter(|(_, eta)| eta.p50.is_some()).take(ROWS_MAX).collect();
        let ends = planned.iter().filter_map(|(_, eta)| eta.p90.or(eta.p50));
        let Some(last) = ends.map(|end| until(end, now)).max() else { return Self::default() };
        let all = last.clamp(60, LONGEST_S);
        let place = |at: Time| until(at, now).min(all) * WIDTH / all;
        let bars = planned.into_iter().map(|(job, eta)| {
            let at = eta.p50.map(place);
            let from = eta.p10.map(place).or(at).unwrap_or(0);
            let to = eta.p90.map(place).or(at).unwrap_or(from);
            let text = eta.p50.map_or_else(String::new, |at| match until(at, now) {
                0 => "now".to_owned(),
                seconds => format!("in {}", span(seconds)),
            });
            let (job, name, gpus) = (job.id.clone(), job.name.clone(), job.gpus.clone());
            Bar { job, name, gpus, from, width: to.saturating_sub(from).max(4), at, text }
        });
        let ticks = (0..=4).map(|n| {
            let label = if n == 0 { "now".to_owned() } else { span(all * n / 4) };
            (WIDTH * n / 4, label)
        });
        Self { bars: bars.collect(), ticks: ticks.collect() }
    }
}
