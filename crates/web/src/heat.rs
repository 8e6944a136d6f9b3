//! The heat map: a row for each device, its utilization over time as colors.

use std::fmt::Write as _;

use gpool_wire::usage::{GpuHistory, GpuPoints};

use crate::plot::Times;

/// The width of all cells, and their height.
const WIDTH: usize = 1000;
const CELL: usize = 18;
/// More rows than this are not drawn.
const ROWS_MAX: usize = 64;
/// Steps of the color scale.
const N_COLORS: usize = 5;
/// The color of devices that are allocated and not used.
const IDLE: usize = N_COLORS;
/// Below this utilization an allocated device is idle.
const UNUSED: f64 = 0.01;
/// The classes of the colors, for the style sheet.
const CLASSES: [&str; N_COLORS + 1] = ["u0", "u1", "u2", "u3", "u4", "idle"];

#[derive(Debug, Clone)]
pub struct HeatRow {
    pub name: String,
    pub text: String,
    /// Class and path of the cells of one color.
    pub cells: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Default)]
pub struct Heat {
    pub rows: Vec<HeatRow>,
    /// Places in percent with the time before the end, and classes.
    pub ticks: Vec<(String, String, &'static str)>,
    pub n_hidden: usize,
}

impl Heat {
    /// Draws devices with at least one measurement.
    pub fn new(history: &GpuHistory) -> Self {
        let known =
            |it: &&GpuPoints| it.utilization.iter().chain(&it.allocated).any(Option::is_some);
        let known: Vec<&GpuPoints> = history.gpus.iter().filter(known).collect();
        let n_hidden = known.len().saturating_sub(ROWS_MAX);
        // Time before the first measurement is not drawn.
        let first = |it: &&GpuPoints| {
            let utilization = it.utilization.iter().position(Option::is_some);
            let allocated = it.allocated.iter().position(Option::is_some);
            utilization.into_iter().chain(allocated).min()
        };
        let skipped = known.iter().filter_map(first).min().unwrap_or(0);
        let rows: Vec<HeatRow> =
            known.into_iter().take(ROWS_MAX).map(|it| row(it, skipped)).collect();
        let n_points = history.gpus.iter().map(|it| it.utilization.len()).max().unwrap_or(0);
        let n_points = n_points.saturating_sub(skipped);
        let (start_ms, step_ms) = (history.start.0.get(), 1000 * history.step_s);
        let ticks = Times { start_ms, step_ms, n_points, is_live: true }.marks();
        Self { ticks, rows, n_hidden }
    }
}

fn row(points: &GpuPoints, skipped: usize) -> HeatRow {
    let mut paths: [String; N_COLORS + 1] = Default::default();
    let colors: Vec<Option<usize>> = colors(points).skip(skipped).collect();
    let (mut at, n) = (0, colors.len().max(1));
    // Neighbors of one color are one cell.
    for run in colors.chunk_by(|one, next| one == next) {
        let (from, to) = (at * WIDTH / n, (at + run.len()) * WIDTH / n);
        at += run.len();
        if let Some(color) = run[0] {
            let width = to - from;
            // Writing into a string can't fail.
            let _ = write!(paths[color], "M{from} 0h{width}v{CELL}h-{width}z");
        }
    }
    let cells = CLASSES.into_iter().zip(paths).filter(|(_, path)| !path.is_empty()).collect();
    let name = format!("{}:{}", points.node, points.index);
    HeatRow { name, text: text(points), cells }
}

fn colors(points: &GpuPoints) -> impl Iterator<Item = Option<usize>> {
    let allocated = points.allocated.iter().copied().chain(std::iter::repeat(None));
    let mut last = None;
    points.utilization.iter().zip(allocated).map(move |(utilization, allocated)| {
        // Samples of utilization are newer than the last recorded minute.
        last = allocated.or(last);
        let allocated = last;
        let utilization = (*utilization)?;
        if utilization < UNUSED && allocated.is_some_and(|part| part > 0.5) {
            return Some(IDLE);
        }
        (1..N_COLORS).rev().find(|color| utilization >= bound(*color)).or(Some(0))
    })
}

/// The lower bound of a color.
fn bound(color: usize) -> f64 {
    [0.0, 0.05, 0.25, 0.5, 0.75][color]
}

/// The means in words.
fn text(points: &GpuPoints) -> String {
    let mean = |values: &[Option<f64>]| {
        let known = || values.iter().flatten();
        let n = u32::try_from(known().count()).ok().filter(|n| *n > 0)?;
        Some(100.0 * known().sum::<f64>() / f64::from(n))
    };
    match (mean(&points.utilization), mean(&points.allocated)) {
        (Some(used), Some(held)) => format!("{used:.0} % used, {held:.0} % allocated"),
        (Some(used), None) => format!("{used:.0} % used"),
        (None, Some(held)) => format!("{held:.0} % allocated, use not known"),
        (None, None) => String::new(),
    }
}
