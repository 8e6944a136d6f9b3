//! The heat map: a row for each device, its utilization over time as colors.

use std::fmt::Write as _;

use gpool_wire::usage::{GpuHistory, GpuPoints};

use crate::text::{label_width, span};

/// The width of all cells.
const WIDTH: usize = 1000;
/// The height of a row, and of its cells.
const ROW: usize = 24;
const CELL: usize = 18;
/// More rows than this are not drawn.
const ROWS_MAX: usize = 64;
/// Distances of the marks on the time axis, in seconds, and most marks.
const STEPS: [u64; 9] =
    [60, 600, 3600, 3 * 3600, 6 * 3600, 86_400, 2 * 86_400, 5 * 86_400, 10 * 86_400];
const TICKS_MAX: u64 = 8;
/// Steps of the color scale.
const N_COLORS: usize = 5;
/// The color of devices that are allocated and not used.
const IDLE: usize = N_COLORS;
/// Below this utilization an allocated device is idle.
const UNUSED: f64 = 0.01;
/// The classes of the colors, for the style sheet.
const CLASSES: [&str; N_COLORS + 1] = ["u0", "u1", "u2", "u3", "u4", "held"];

/// A row.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub text: String,
    /// Class and path of the cells of one color.
    pub cells: Vec<(&'static str, String)>,
    pub text_y: usize,
}

/// The heat map.
#[derive(Debug, Clone, Default)]
pub struct Heat {
    pub rows: Vec<Row>,
    /// Positions with the time before the end.
    pub ticks: Vec<(u64, String)>,
    /// The width of the names.
    pub left: usize,
    pub height: usize,
    pub n_hidden: usize,
}

impl Heat {
    /// Draws devices with at least one measurement.
    pub fn new(history: &GpuHistory) -> Self {
        let known =
            |it: &&GpuPoints| it.utilization.iter().chain(&it.allocated).any(Option::is_some);
        let known: Vec<&GpuPoints> = history.gpus.iter().filter(known).collect();
        let n_hidden = known.len().saturating_sub(ROWS_MAX);
        let rows: Vec<Row> =
            known.into_iter().take(ROWS_MAX).enumerate().map(|(ix, it)| row(ix, it)).collect();
        let n_points = history.gpus.iter().map(|it| it.utilization.len()).max().unwrap_or(0);
        let ticks = ticks(n_points as u64 * history.step_s);
        let left = label_width(rows.iter().map(|row| row.name.as_str()));
        Self { ticks, left, height: rows.len() * ROW, rows, n_hidden }
    }
}

/// Marks from the end backwards, for a range of this many seconds.
fn ticks(all: u64) -> Vec<(u64, String)> {
    let step = STEPS.into_iter().find(|step| all / step <= TICKS_MAX);
    let Some(step) = step.filter(|_| all > 0) else { return Vec::new() };
    let width = WIDTH as u64;
    let tick = |ago: u64| {
        let label = if ago == 0 { "now".to_owned() } else { format!("−{}", span(ago)) };
        (width - ago * width / all, label)
    };
    (0..=all / step).map(|n| tick(n * step)).collect()
}

fn row(ix: usize, points: &GpuPoints) -> Row {
    let mut paths: [String; N_COLORS + 1] = Default::default();
    let colors: Vec<Option<usize>> = colors(points).collect();
    let (mut at, n) = (0, colors.len().max(1));
    // Neighbors of one color are one cell.
    for run in colors.chunk_by(|one, next| one == next) {
        let (from, to) = (at * WIDTH / n, (at + run.len()) * WIDTH / n);
        at += run.len();
        if let Some(color) = run[0] {
            let (width, y) = (to - from, ix * ROW);
            // Writing into a string can't fail.
            let _ = write!(paths[color], "M{from} {y}h{width}v{CELL}h-{width}z");
        }
    }
    let cells = CLASSES.into_iter().zip(paths).filter(|(_, path)| !path.is_empty()).collect();
    let name = format!("{}:{}", points.node, points.index);
    Row { name, text: text(points), cells, text_y: ix * ROW + 14 }
}

fn colors(points: &GpuPoints) -> impl Iterator<Item = Option<usize>> {
    let allocated = points.allocated.iter().copied().chain(std::iter::repeat(None));
    points.utilization.iter().zip(allocated).map(|(utilization, allocated)| {
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
