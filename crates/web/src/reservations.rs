//! Reservations: a week as a chart, and a table.

use askama::Template;
use gpool_wire::{Reservation, Time};

use crate::frame::Frame;
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::text::{span, until};

/// The shown time in seconds.
const WEEK_S: u64 = 7 * 86_400;
const WIDTH: u64 = 1000;

/// The contents of the page of reservations.
#[derive(Debug, Clone, Copy)]
pub struct Reservations<'a> {
    pub frame: Frame<'a>,
    /// Active and planned reservations, by start.
    pub reservations: &'a [Reservation],
    pub order: Order<'a>,
    pub now: Time,
}

const COLUMNS: [Column<Reservation>; 7] = [
    Column("Name", "name", By::Text(|it| it.name.clone())),
    Column("State", "state", By::Text(|it| it.state.clone())),
    Column("For", "for", By::Text(beneficiary)),
    Column("Place", "place", By::Text(places)),
    // Times are texts in their own order.
    Column("From", "from", By::Text(|it| it.from.to_string())),
    Column(
        "Until",
        "until",
        By::Text(|it| it.until.map_or("without end".into(), |at| at.to_string())),
    ),
    Column("Reason", "reason", By::Text(|it| it.reason.clone())),
];

/// The keys of orders that the table can have.
#[must_use]
pub fn reservation_orders() -> Vec<&'static str> {
    keys(&COLUMNS)
}

fn beneficiary(it: &Reservation) -> String {
    match &it.beneficiary {
        Some(name) => format!("{} {name}", it.beneficiary_kind),
        None => "maintenance".to_owned(),
    }
}

fn places(it: &Reservation) -> String {
    let gpus = it.gpus.iter().map(|gpu| match gpu.index {
        Some(index) => format!("{}:{index}", gpu.node),
        None => format!("{}:{}", gpu.node, gpu.uuid),
    });
    it.nodes.iter().cloned().chain(gpus).collect::<Vec<_>>().join(" ")
}

struct ReservationRow<'a> {
    it: &'a Reservation,
    places: String,
    beneficiary: String,
    until: String,
    x: u64,
    width: u64,
}

#[derive(Template)]
#[template(path = "reservations.html")]
struct ReservationsPage<'a> {
    frame: Frame<'a>,
    rows: Vec<ReservationRow<'a>>,
    heads: Vec<ColumnHeading>,
    /// Places in percent, texts and classes of the days.
    days: Vec<(String, String, &'static str)>,
    /// The lines of the days in each row.
    grid: String,
}

impl Reservations<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let mut all: Vec<&Reservation> = self.reservations.iter().collect();
        self.order.sort(&COLUMNS, &mut all, |it| *it);
        let rows: Vec<ReservationRow<'_>> = all.into_iter().map(|it| self.row(it)).collect();
        let heads = self.order.heads(&COLUMNS, "/reservations");
        let day = |n: u64| {
            let label = if n == 0 { "now".to_owned() } else { format!("{n} d") };
            let class = match n {
                0 => "first",
                7 => "last",
                _ => "",
            };
            (format!("{}", n * 100 / 7), label, class)
        };
        let grid = (0..=7).map(|n| format!("M{} 0v18", n * WIDTH / 7)).collect();
        let days = (0..=7).map(day).collect();
        render(&ReservationsPage { frame: self.frame, rows, heads, days, grid })
    }

    fn row<'r>(&self, it: &'r Reservation) -> ReservationRow<'r> {
        let place = |seconds: u64| seconds.min(WEEK_S) * WIDTH / WEEK_S;
        let x = place(until(it.from, self.now));
        let end = it.until.map_or(WIDTH, |at| place(until(at, self.now)));
        ReservationRow {
            it,
            places: places(it),
            beneficiary: beneficiary(it),
            until: match it.until {
                Some(at) => format!("{} (in {})", at.short(), span(until(at, self.now))),
                None => "without end".to_owned(),
            },
            x,
            width: end.saturating_sub(x).max(4),
        }
    }
}
