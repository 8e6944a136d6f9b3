//! The queue: the plan as a chart, and a table of jobs with filters.

use askama::Template;
use gpool_wire::{Job, Time};

use crate::frame::Frame;
use crate::gantt::Gantt;
use crate::jobs::{JobTable, SHOWN_MAX};
use crate::render;
use crate::sort::Order;

/// The values of the filter of states, with their names.
pub const STATES: [(&str, &str); 7] = [
    ("active", "not ended"),
    ("pending,waiting,held", "waiting"),
    ("starting,running,paused,stopping", "running"),
    ("succeeded", "succeeded"),
    ("failed,timed_out,lost", "failed"),
    ("cancelled", "cancelled"),
    ("all", "all"),
];

/// The filters of the queue, as in the URL.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// States, as in the list of jobs; one of [`STATES`] if the form chose them.
    pub state: String,
    pub user: String,
    pub project: String,
    pub name: String,
    pub group: String,
    /// The order of the table, as `gpus` or `-gpus`; empty for that of the queue.
    pub sort: String,
}

#[derive(Debug, Clone, Copy)]
pub struct Queue<'a> {
    pub frame: Frame<'a>,
    pub filters: &'a Filters,
    pub jobs: &'a [Job],
    /// The number of rows on all pages, where it is known.
    pub n_rows: Option<u64>,
    /// The query of the next page.
    pub next: Option<&'a str>,
    /// The address of the page without the order.
    pub address: &'a str,
    /// Running and waiting jobs of the chart.
    pub plan: Option<(&'a [Job], &'a [Job])>,
    pub now: Time,
}

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage<'a> {
    frame: Frame<'a>,
    filters: &'a Filters,
    states: Vec<(&'a str, &'a str, bool)>,
    table: JobTable,
    n_rows: Option<u64>,
    next: Option<&'a str>,
    /// Which jobs are sorted and shown, if not all.
    part: String,
    plan: Option<Gantt>,
}

impl Queue<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let order = Order::of(&self.filters.sort);
        let empty = "No job matches. Submit one with the button above, or with: gpool submit";
        let table = JobTable::sorted(self.jobs, self.now, empty, (order, self.address));
        let table = JobTable { can_select: true, ..table };
        let plan = self.plan.map(|(running, waiting)| Gantt::new(running, waiting, self.now));
        render(&QueuePage {
            frame: self.frame,
            filters: self.filters,
            states: states(&self.filters.state),
            table,
            n_rows: self.n_rows,
            next: self.next,
            part: self.part(),
            plan,
        })
    }

    fn part(&self) -> String {
        let n = self.jobs.len();
        if self.filters.sort.is_empty() || (n <= SHOWN_MAX && self.next.is_none()) {
            return String::new();
        }
        let shown = match n > SHOWN_MAX {
            true => format!("The first {SHOWN_MAX} of {n} sorted jobs are shown."),
            false => format!("{n} jobs are sorted."),
        };
        let rest = match self.next {
            Some(_) => " The other jobs are not in this order: filter, so that fewer match.",
            None => "",
        };
        shown + rest
    }
}

/// The choices of states; an address can have others than the form.
fn states(chosen: &str) -> Vec<(&str, &str, bool)> {
    let is_known = STATES.iter().any(|(value, _)| *value == chosen);
    let other = (!is_known).then_some((chosen, chosen));
    let all = STATES.into_iter().chain(other);
    all.map(|(value, name)| (value, name, value == chosen)).collect()
}
