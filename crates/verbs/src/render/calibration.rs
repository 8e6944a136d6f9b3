//! How accurate the expected starts were: `gpool doctor eta`.

use gpool_cli::render::clock::span;
use gpool_cli::render::style::Style;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::render::view::View;
use gpool_cli::render::words::{NOTHING, count};
use gpool_model::Millis;
use gpool_wire::{Calibration, ForecastState};

/// Fewest starts for a statement.
const FEW: u64 = 20;
/// Target percentage of starts before the forecast p90.
const GOAL: std::ops::RangeInclusive<u64> = 85..=95;

#[must_use]
pub fn page(state: &ForecastState, view: &View<'_>, colors: bool) -> String {
    let mut text = String::new();
    match state.as_of {
        None => text.push_str("No forecast has been made yet.\n"),
        Some(as_of) => {
            let jobs = count(state.n_jobs, "job");
            let beyond = match state.n_beyond {
                0 => String::new(),
                n => format!(", {} more come after them", count(n, "job")),
            };
            let took = span(state.took_s);
            let at = view.clock.short(as_of, view.now);
            text.push_str(&format!("Forecast of {at} for {jobs}{beyond}; it took {took}.\n"));
        }
    }
    if state.n_failed > 0 {
        text.push_str(&format!(
            "{} failed; see the server's log.\n",
            count(state.n_failed, "forecast")
        ));
    }
    text.push('\n');
    let head = ["LEAD TIME", "STARTS", "BY P90", "", "BEFORE P10", "MEDIAN", "P90 FACTOR"];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for bucket in &state.calibration {
        table.push(row(bucket));
    }
    text.push_str(&table.render(None, colors));
    let n: u64 = state.calibration.iter().map(|bucket| bucket.n).sum();
    let held: u64 = state.calibration.iter().map(|bucket| bucket.n_by_p90).sum();
    text.push('\n');
    text.push_str(&match n {
        n if n < FEW => format!(
            "Too little history: {} with a forecast so far; {FEW} are needed.\n",
            count(n, "start")
        ),
        n => format!(
            "{} of {} ({} %) were not later than their p90; the target is 85 to 95 %.\n",
            held,
            count(n, "start"),
            percent(held, n)
        ),
    });
    text
}

fn row(bucket: &Calibration) -> Vec<Cell> {
    let lead = match bucket.lead_below_s {
        Some(below) => format!("{}–{}", span(bucket.lead_from_s), span(below)),
        None => format!("> {}", span(bucket.lead_from_s)),
    };
    if bucket.n == 0 {
        let mut cells = vec![Cell::new(&lead), Cell::new("0")];
        cells.resize(7, Cell::new(NOTHING));
        return cells;
    }
    let held = percent(bucket.n_by_p90, bucket.n);
    let (word, style) = match held {
        _ if bucket.n < FEW => ("too few", Style::Dim),
        held if GOAL.contains(&held) => ("on target", Style::Good),
        held if held > 95 => ("too wide", Style::Warn),
        _ => ("too narrow", Style::Warn),
    };
    let bias = Millis::new(span(bucket.bias_s.abs()).get());
    let bias = match bucket.bias_s {
        bias_s if bias_s.abs() < 1.0 => "on time".to_owned(),
        bias_s if bias_s > 0.0 => format!("{bias} late"),
        _ => format!("{bias} early"),
    };
    vec![
        Cell::new(&lead),
        Cell::new(&bucket.n.to_string()),
        Cell::new(&format!("{held} %")),
        Cell::new(word).styled(style),
        Cell::new(&format!("{} %", percent(bucket.n_before_p10, bucket.n))),
        Cell::new(&bias),
        Cell::new(&format!("×{:.2}", bucket.factor)),
    ]
}

fn percent(part: u64, of: u64) -> u64 {
    (part * 100 + of / 2).checked_div(of).unwrap_or(0)
}
