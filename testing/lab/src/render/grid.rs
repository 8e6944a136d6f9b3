//! Tables with a legend, for the terminal.

use gpool_cli::render::table::{Cell, Table};
use gpool_cli::screen::Screen;

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Grid {
    /// The column heads.
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// The meaning of the columns, a line for each.
    pub note: String,
}

impl Grid {
    /// The table for the terminal.
    #[must_use]
    pub fn text(self, screen: &Screen) -> String {
        let mut table = Table::new(self.head);
        for row in self.rows {
            table.push(row.iter().map(|text| Cell::new(text)).collect());
        }
        format!("{}\n{}", table.render(screen.width, screen.colors), self.note)
    }
}

/// Formats a length of time: `35.5 min`.
#[must_use]
pub fn span(seconds: f64) -> String {
    let (of, unit) = match seconds.abs() {
        span if span >= 2.0 * DAY => (DAY, "d"),
        span if span >= 2.0 * HOUR => (HOUR, "h"),
        span if span >= 120.0 => (60.0, "min"),
        _ => (1.0, "s"),
    };
    format!("{:.1} {unit}", seconds / of)
}
