//! Dashboards of Grafana and alert rules of Prometheus, made from two tables.

mod alerts;
mod dashboard;
mod panels;

pub use alerts::{ALERTS, Alert, rules};
pub use dashboard::dashboard;
pub use panels::{Board, PANELS, Panel, Query};

/// The name of the file of the alert rules.
pub const RULES: &str = "gpool-alerts.yml";

#[must_use]
pub fn files() -> Vec<(String, String)> {
    let dashboards = Board::ALL.map(|board| {
        let mut text = format!("{:#}", dashboard(board));
        text.push('\n');
        (format!("{}.json", board.uid()), text)
    });
    dashboards.into_iter().chain([(RULES.to_owned(), rules())]).collect()
}
