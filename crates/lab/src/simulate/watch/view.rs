//! What whoever watches a simulation sees. Pure.

use std::collections::BTreeMap;

use gpool_cli::render::bar::bar;
use gpool_cli::render::row::{Ink, Row};
use gpool_cli::render::safe::safe;
use gpool_cli::render::style::Style;
use gpool_cli::render::words::grouped;
use gpool_model::Millis;

use crate::render::cluster_grid::Grid;

/// A cluster while jobs of a trace are played on it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// By which policy they are.
    pub policy: &'a str,
    /// Day and time.
    pub when: &'a str,
    /// Whose the GPUs are.
    pub grid: Grid<'a>,
    /// How many jobs run.
    pub n_running: u64,
    /// How many wait, by the GPUs that they ask for.
    pub waiting: &'a BTreeMap<u32, u64>,
    /// How long those waited that have ended, together, and how many these are.
    pub waited: (Millis, u64),
    /// The mean waits of policies that were played before, in hours.
    pub before: &'a [(String, f64)],
    /// How far it has come, and how long it takes yet.
    pub progress: &'a str,
    /// How fast it goes.
    pub speed: &'a str,
    /// Whether it stands still.
    pub is_paused: bool,
}

/// From so many lines on there is room for who has the GPUs.
const LINES_OF_LEGEND: usize = 12;
/// From so many lines on there is room for blank ones, and more of the former.
const LINES_OF_PLENTY: usize = 20;
/// The bar is as wide at most.
const BAR: usize = 60;

impl View<'_> {
    /// Lines of so many columns, as many as there is room for at most.
    #[must_use]
    pub fn rows(&self, columns: usize, lines: usize) -> Vec<Row> {
        let is_plenty = lines >= LINES_OF_PLENTY;
        let mut head =
            vec![self.title(), self.gpus(columns), self.jobs(columns), self.waits(columns)];
        let legend_lines = match lines {
            _ if is_plenty => 3,
            LINES_OF_LEGEND.. => 1,
            _ => 0,
        };
        let legend = self.grid.owners.legend(self.grid.nodes, columns, legend_lines);
        let mut foot = vec![self.foot()];
        if is_plenty {
            head.push(Row::default());
            foot = vec![Row::default(), self.foot(), self.keys()];
        }
        let taken = head.len() + legend_lines + foot.len();
        let drawn = self.grid.draw(columns, lines.saturating_sub(taken));
        if let Some(nodes) = drawn.nodes_of_sign {
            let unit = match nodes {
                1 => "  a sign: a node".to_owned(),
                n => format!("  a sign: {} nodes", grouped(n as u64)),
            };
            if let Some(gpus) = head.get_mut(1) {
                gpus.dim(&unit);
            }
        }
        let mut rows = head;
        rows.extend(drawn.rows);
        rows.extend(legend);
        rows.extend(foot);
        rows.truncate(lines);
        rows
    }

    fn title(&self) -> Row {
        let mut row = Row::default();
        row.push(Ink::Style(Style::Head), &safe(self.policy));
        row.plain(&format!("  {}", self.when));
        row
    }

    fn gpus(&self, columns: usize) -> Row {
        let n_all = self.grid.nodes.iter().map(Vec::len).sum::<usize>() as u64;
        let n_used = self.grid.nodes.iter().flatten().flatten().count() as u64;
        let figures = format!(" {} of {} GPUs", grouped(n_used), grouped(n_all));
        // What a sign is stands behind it.
        let room = columns.saturating_sub(figures.len() + 24).min(BAR);
        let mut row = Row::default();
        if room >= 5 {
            let bar = bar(n_used, n_all, room);
            let filled = bar.trim_end();
            row.push(Ink::Style(Style::Good), filled);
            let free = if self.grid.ascii { "." } else { "·" };
            row.dim(&free.repeat(room - filled.chars().count()));
        }
        row.plain(if room >= 5 { &figures } else { figures.trim_start() });
        row
    }

    /// How many run and wait, and as many of the largest of those who wait as there is room for.
    fn jobs(&self, columns: usize) -> Row {
        let n_waiting: u64 = self.waiting.values().sum();
        let mut text = format!("{} jobs run, {} wait", grouped(self.n_running), grouped(n_waiting));
        let room = columns.saturating_sub(", … GPUs".chars().count());
        let mut between = ": ";
        let mut n_left = self.waiting.keys().filter(|size| **size > 0).count();
        for (size, n) in self.waiting.iter().rev().take(n_left) {
            let more = format!("{between}{} x {size}", grouped(*n));
            if text.len() + more.len() > room {
                break;
            }
            text.push_str(&more);
            (between, n_left) = (", ", n_left - 1);
        }
        if between == ", " {
            text.push_str(if n_left > 0 { ", … GPUs" } else { " GPUs" });
        }
        let mut row = Row::default();
        row.plain(&text);
        row
    }

    fn waits(&self, columns: usize) -> Row {
        let mut row = Row::default();
        let (waited, n) = self.waited;
        let mean = waited.get() as f64 / 3_600_000.0 / n.max(1) as f64;
        row.plain(&format!("mean wait {mean:.3} h of {} that ended", grouped(n)));
        for (policy, mean) in self.before.iter().rev() {
            let more = format!("; {} {mean:.3} h", safe(policy));
            if row.width() + more.chars().count() > columns {
                break;
            }
            row.dim(&more);
        }
        row
    }

    fn foot(&self) -> Row {
        let mut row = Row::default();
        row.plain(self.progress);
        row.dim(&format!("  {}", self.speed));
        if self.is_paused {
            row.plain("  ");
            row.push(Ink::Style(Style::Warn), "paused");
        }
        row
    }

    fn keys(&self) -> Row {
        let mut row = Row::default();
        row.dim("q ends, space pauses, + and - change the speed");
        row
    }
}
