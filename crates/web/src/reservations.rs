//! Reservations: a week as a chart, and a table.

use askama::Template;
use gpool_wire::{Reservation, Time};

use crate::frame::Frame;
use crate::text::{span, until};
use crate::written;

/// The shown time in seconds.
const WEEK_S: u64 = 7 * 86_400;
/// The width of the chart, and the height of a row.
const WIDTH: u64 = 1000;
const ROW: usize = 28;

/// The contents of the page of reservations.
#[derive(Debug, Clone, Copy)]
pub struct Reservations<'a> {
    /// The frame.
    pub frame: Frame<'a>,
    /// Active and planned reservations, by start.
    pub reservations: &'a [Reservation],
    /// The time of the answer.
    pub now: Time,
}

struct Row<'a> {
    it: &'a Reservation,
    places: String,
    beneficiary: String,
    until: String,
    y: usize,
    x: u64,
    width: u64,
}

#[derive(Template)]
#[template(path = "reservations.html")]
struct Page<'a> {
    frame: Frame<'a>,
    rows: Vec<Row<'a>>,
    days: Vec<(u64, String)>,
    height: usize,
}

impl Reservations<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let rows: Vec<Row<'_>> =
            self.reservations.iter().enumerate().map(|(ix, it)| self.row(ix, it)).collect();
        let day = |n: u64| {
            let label = if n == 0 { "now".to_owned() } else { format!("{n} d") };
            (n * WIDTH / 7, label)
        };
        let height = rows.len() * ROW + 30;
        written(&Page { frame: self.frame, rows, days: (0..=7).map(day).collect(), height })
    }

    fn row<'r>(&self, ix: usize, it: &'r Reservation) -> Row<'r> {
        let place = |seconds: u64| seconds.min(WEEK_S) * WIDTH / WEEK_S;
        let x = place(until(it.from, self.now));
        let end = it.until.map_or(WIDTH, |at| place(until(at, self.now)));
        let gpus = it.gpus.iter().map(|gpu| match gpu.index {
            Some(index) => format!("{}:{index}", gpu.node),
            None => format!("{}:{}", gpu.node, gpu.uuid),
        });
        Row {
            it,
            places: it.nodes.iter().cloned().chain(gpus).collect::<Vec<_>>().join(" "),
            beneficiary: match &it.beneficiary {
                Some(name) => format!("{} {name}", it.whom),
                None => "maintenance".to_owned(),
            },
            until: match it.until {
                Some(at) => format!("{} (in {})", at.short(), span(until(at, self.now))),
                None => "without end".to_owned(),
            },
            y: ix * ROW + 28,
            x,
            width: end.saturating_sub(x).max(4),
        }
    }
}
