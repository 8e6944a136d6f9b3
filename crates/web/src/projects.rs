//! Projects: guarantee, allocated GPUs and loans of each.

use askama::Template;
use gpool_wire::{Quantity, QuotaOverview, QuotaRow, Time};

use crate::frame::Frame;
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::text::{encoded, span, until};

/// The contents of the page of projects.
#[derive(Debug, Clone, Copy)]
pub struct Projects<'a> {
    pub frame: Frame<'a>,
    pub quota: &'a QuotaOverview,
    pub order: Order<'a>,
    pub now: Time,
}

const COLUMNS: [Column<QuotaRow>; 7] = [
    Column("Project", "name", By::Text(|row| row.project.clone())),
    Column("GPUs", "", By::Nothing),
    Column("Held", "held", By::Number(|row| row.held)),
    Column("Guarantee", "guarantee", By::Number(|row| guarantee(row).unwrap_or(f64::INFINITY))),
    Column("Fair share", "share", By::Number(|row| row.share.unwrap_or(-1.0))),
    Column("Borrowed", "borrowed", By::Number(|row| row.on_loan)),
    Column("Waiting", "waiting", By::Number(|row| row.pending)),
];

const LOANS: [Column<Loan>; 4] = [
    Column("From", "from", By::Text(|loan| loan.from.clone())),
    Column("To", "to", By::Text(|loan| loan.to.clone())),
    Column("GPUs", "lent", By::Number(|loan| loan.n_gpus)),
    Column("Given back", "back", By::Number(|loan| loan.back)),
];

/// The keys of orders that the tables can have.
#[must_use]
pub fn project_orders() -> Vec<&'static str> {
    [keys(&COLUMNS), keys(&LOANS)].concat()
}

/// The bar of a project, in thousandths of all GPUs.
struct Bar {
    in_quota: f64,
    on_loan: f64,
    lent_width: f64,
    guarantee: Option<f64>,
}

struct ProjectTableRow<'a> {
    quota: &'a QuotaRow,
    name: String,
    href: String,
    /// The indentation below its department; none in another order.
    depth: u32,
    bar: Bar,
    share: String,
}

struct Loan {
    from: String,
    to: String,
    n_gpus: f64,
    gpus: String,
    /// Seconds until it is given back; more for one that a request ends, and for one without end.
    back: f64,
    until: String,
}

#[derive(Template)]
#[template(path = "projects.html")]
struct ProjectsPage<'a> {
    frame: Frame<'a>,
    gpus: String,
    heads: Vec<ColumnHeading>,
    loan_heads: Vec<ColumnHeading>,
    rows: Vec<ProjectTableRow<'a>>,
    total: Option<Total>,
    loans: Vec<Loan>,
    warnings: &'a [String],
}

impl Projects<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let quota = self.quota;
        let all = quota.gpus.max(1.0);
        let mut projects: Vec<&QuotaRow> = quota.projects.iter().collect();
        self.order.sort(&COLUMNS, &mut projects, |row| *row);
        let mut loans: Vec<Loan> = quota.projects.iter().flat_map(|row| self.loans(row)).collect();
        self.order.sort(&LOANS, &mut loans, |loan| loan);
        let is_tree = !keys(&COLUMNS).contains(&self.order.by);
        render(&ProjectsPage {
            frame: self.frame,
            gpus: number(quota.gpus),
            heads: self.order.heads(&COLUMNS, "/projects"),
            loan_heads: self.order.heads(&LOANS, "/projects"),
            rows: projects.into_iter().map(|row| table_row(row, all, is_tree)).collect(),
            total: total(&quota.projects),
            loans,
            warnings: &quota.warnings,
        })
    }

    fn loans(&self, row: &QuotaRow) -> impl Iterator<Item = Loan> {
        row.borrows.iter().map(|loan| Loan {
            from: loan.project.clone().unwrap_or_else(|| "no guarantee".to_owned()),
            to: row.project.clone(),
            n_gpus: loan.gpus,
            gpus: number(loan.gpus),
            back: match loan.until {
                Some(at) => f64::from(u32::try_from(until(at, self.now)).unwrap_or(u32::MAX)),
                None if loan.when_asked => f64::from(u32::MAX),
                None => f64::INFINITY,
            },
            until: match loan.until {
                Some(at) => format!("in {}", span(until(at, self.now))),
                None if loan.when_asked => "when the lender needs them".to_owned(),
                None => "not known".to_owned(),
            },
        })
    }
}

/// The sums of the projects that have jobs.
struct Total {
    held: String,
    on_loan: String,
    n_pending: u64,
    pending: String,
}

/// The sums; `None` for a single project. A department is the sum of its projects already.
fn total(rows: &[QuotaRow]) -> Option<Total> {
    let leaves: Vec<&QuotaRow> = rows.iter().filter(|row| !row.department).collect();
    let sum = |figure: fn(&QuotaRow) -> f64| number(leaves.iter().map(|row| figure(row)).sum());
    (leaves.len() > 1).then(|| Total {
        held: sum(|row| row.held),
        on_loan: sum(|row| row.on_loan),
        n_pending: leaves.iter().map(|row| row.n_pending).sum(),
        pending: sum(|row| row.pending),
    })
}

/// The guaranteed GPUs; `None` for all of them.
fn guarantee(row: &QuotaRow) -> Option<f64> {
    match &row.guaranteed {
        Quantity::Whole(n) => u32::try_from(*n).ok().map(f64::from),
        Quantity::Decimal(n) => Some(*n),
        Quantity::Text(_) => None,
    }
}

fn table_row(row: &QuotaRow, all: f64, is_tree: bool) -> ProjectTableRow<'_> {
    let wide = |gpus: f64| 1000.0 * (gpus / all).clamp(0.0, 1.0);
    let lent: f64 = row.lends.iter().map(|loan| loan.gpus).sum();
    ProjectTableRow {
        quota: row,
        name: row.project.clone(),
        href: format!("/queue?project={}", encoded(&row.project)),
        depth: if is_tree { row.depth } else { 0 },
        bar: Bar {
            in_quota: wide(row.in_quota),
            on_loan: wide(row.on_loan),
            lent_width: wide(lent),
            guarantee: guarantee(row).map(wide),
        },
        share: row.share.map_or_else(|| "not shared".to_owned(), number),
    }
}

/// A number of GPUs without needless digits.
fn number(gpus: f64) -> String {
    let text = format!("{gpus:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
