//! The picture of a simulation in the full-screen view. Pure.

use std::collections::BTreeMap;

use gpool_cli::render::bar::bar;
use gpool_cli::render::row::{Ink, StyledLine};
use gpool_cli::render::safe::safe;
use gpool_cli::render::style::Style;
use gpool_cli::render::words::grouped;
use gpool_model::Millis;

use crate::render::cluster_grid::Grid;
use crate::simulate::page::span;

/// A cluster in the middle of a trace.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The policy that decides.
    pub policy: &'a str,
    /// Day and time.
    pub when: &'a str,
    /// The GPUs with their owners.
    pub grid: Grid<'a>,
    /// Number of running jobs.
    pub n_running: u64,
    /// Number of waiting jobs by their number of GPUs.
    pub waiting: &'a BTreeMap<u32, u64>,
    /// The total wait of ended jobs, and their number.
    pub waited: (Millis, u64),
    /// Average waits under the completed policies, in milliseconds.
    pub before: &'a [(String, f64)],
    /// The progress and the remaining time.
    pub progress: &'a str,
    /// The speed of virtual time.
    pub speed: &'a str,
    /// Whether it is paused.
    pub is_paused: bool,
}

/// Smallest height with a legend of owners.
const LINES_OF_LEGEND: usize = 12;
/// Smallest height with blank lines and a longer legend.
const LINES_OF_PLENTY: usize = 20;
/// Largest width of the bar.
const BAR: usize = 60;

impl View<'_> {
    /// The lines of the picture, at most `lines`, cut to `columns`.
    #[must_use]
    pub fn rows(&self, columns: usize, lines: usize) -> Vec<StyledLine> {
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
            head.push(StyledLine::default());
            foot = vec![StyledLine::default(), self.foot(), self.keys()];
        }
        let taken = head.len() + legend_lines + foot.len();
        let drawn = self.grid.draw(columns, lines.saturating_sub(taken));
        if let Some(nodes) = drawn.nodes_of_sign {
            let unit = match nodes {
                1 => "  one character: a node".to_owned(),
                n => format!("  one character: {} nodes", grouped(n as u64)),
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

    fn title(&self) -> StyledLine {
        let mut row = StyledLine::default();
        row.push(Ink::Style(Style::Head), &safe(self.policy));
        row.plain(&format!("  {}", self.when));
        row
    }

    fn gpus(&self, columns: usize) -> StyledLine {
        let n_all = self.grid.nodes.iter().map(Vec::len).sum::<usize>() as u64;
        let n_used = self.grid.nodes.iter().flatten().flatten().count() as u64;
        let figures = format!(" {} of {} GPUs", grouped(n_used), grouped(n_all));
        // The text after the bar needs this width.
        let room = columns.saturating_sub(figures.len() + 24).min(BAR);
        let mut row = StyledLine::default();
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

    /// The numbers of running and waiting jobs, with the largest waiting jobs as far as they fit.
    fn jobs(&self, columns: usize) -> StyledLine {
        let n_waiting: u64 = self.waiting.values().sum();
        let mut text =
            format!("{} jobs running, {} pending", grouped(self.n_running), grouped(n_waiting));
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
        let mut row = StyledLine::default();
        row.plain(&text);
        row
    }

    fn waits(&self, columns: usize) -> StyledLine {
        let mut row = StyledLine::default();
        let (waited, n) = self.waited;
        let mean = span(waited.get() as f64 / n.max(1) as f64);
        row.plain(&format!("average wait {mean} of {} ended jobs", grouped(n)));
        for (policy, mean) in self.before.iter().rev() {
            let more = format!("; {} {}", safe(policy), span(*mean));
            if row.width() + more.chars().count() > columns {
                break;
            }
            row.dim(&more);
        }
        row
    }

    fn foot(&self) -> StyledLine {
        let mut row = StyledLine::default();
        row.plain(self.progress);
        row.dim(&format!("  {}", self.speed));
        if self.is_paused {
            row.plain("  ");
            row.push(Ink::Style(Style::Warn), "paused");
        }
        row
    }

    fn keys(&self) -> StyledLine {
        let mut row = StyledLine::default();
        row.dim("q ends, space pauses, + and - change the speed");
        row
    }
}
