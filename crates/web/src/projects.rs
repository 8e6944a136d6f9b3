//! Projects: guarantee, allocated GPUs and loans of each.

use askama::Template;
use gpool_wire::{QuotaOverview, QuotaRow, Time, Written};

use crate::frame::Frame;
use crate::text::{span, until};
use crate::written;

/// The contents of the page of projects.
#[derive(Debug, Clone, Copy)]
pub struct Projects<'a> {
    /// The frame.
    pub frame: Frame<'a>,
    /// The quotas.
    pub quota: &'a QuotaOverview,
    /// The time of the answer.
    pub now: Time,
}

/// The bar of a project, in thousandths of all GPUs.
struct Bar {
    in_quota: f64,
    on_loan: f64,
    lent: f64,
    guarantee: Option<f64>,
}

struct Row<'a> {
    quota: &'a QuotaRow,
    name: String,
    bar: Bar,
    share: String,
}

struct Loan {
    from: String,
    to: String,
    gpus: String,
    until: String,
}

#[derive(Template)]
#[template(path = "projects.html")]
struct Page<'a> {
    frame: Frame<'a>,
    gpus: String,
    rows: Vec<Row<'a>>,
    total: Option<Total>,
    loans: Vec<Loan>,
    warnings: &'a [String],
}

impl Projects<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let quota = self.quota;
        let all = quota.gpus.max(1.0);
        written(&Page {
            frame: self.frame,
            gpus: number(quota.gpus),
            rows: quota.projects.iter().map(|row| shown(row, all)).collect(),
            total: total(&quota.projects),
            loans: quota.projects.iter().flat_map(|row| self.loans(row)).collect(),
            warnings: &quota.warnings,
        })
    }

    fn loans(&self, row: &QuotaRow) -> impl Iterator<Item = Loan> {
        row.borrows.iter().map(|loan| Loan {
            from: loan.project.clone().unwrap_or_else(|| "no guarantee".to_owned()),
            to: row.project.clone(),
            gpus: number(loan.gpus),
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

fn shown(row: &QuotaRow, all: f64) -> Row<'_> {
    let wide = |gpus: f64| 1000.0 * (gpus / all).clamp(0.0, 1.0);
    let guarantee = match &row.guaranteed {
        Written::Whole(n) => u32::try_from(*n).ok().map(f64::from),
        Written::Decimal(n) => Some(*n),
        Written::Text(_) => None,
    };
    let lent: f64 = row.lends.iter().map(|loan| loan.gpus).sum();
    Row {
        quota: row,
        name: row.project.clone(),
        bar: Bar {
            in_quota: wide(row.in_quota),
            on_loan: wide(row.on_loan),
            lent: wide(lent),
            guarantee: guarantee.map(wide),
        },
        share: row.share.map_or_else(|| "not shared".to_owned(), number),
    }
}

/// A number of GPUs without needless digits.
fn number(gpus: f64) -> String {
    let text = format!("{gpus:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
