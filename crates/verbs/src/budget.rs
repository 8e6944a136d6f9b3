//! `gpool budget`: budgets with the cost of this month.

use clap::Args;
use gpool_cli::args::list::ListFlags;
use gpool_cli::failure::Result;
use gpool_cli::listing::{Listing, show};
use gpool_cli::render::list::{Column, Noun, select};
use gpool_cli::render::table::Cell;
use gpool_cli::session::Session;
use gpool_wire::budget::BudgetRow;

#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Admins set budgets of a calendar month (UTC) with gpool policy set \
    budgets=project.nlp=5000,user.ana=200,users=100. With over_budget=hold, jobs are held when \
    their budget is used up, until the next month; with warn, they start.")]
pub struct BudgetArgs {
    #[command(flatten)]
    list: ListFlags,
}

pub const BUDGETS: Noun<BudgetRow> = Noun {
    columns: COLUMNS,
    table: &["payer", "spent", "limit", "part", "status"],
    wide: &["payer", "spent", "limit", "part", "status"],
    name: |row| format!("{} {}", row.kind, row.name),
    keys,
};

fn keys() -> Vec<String> {
    ["kind", "name", "since", "currency", "budget", "spent", "state"].map(str::to_owned).to_vec()
}

const COLUMNS: &[Column<BudgetRow>] = &[
    Column {
        name: "payer",
        head: "PAYER",
        cell: |row, _| Cell::new(&format!("{} {}", row.kind, row.name)),
    },
    Column {
        name: "spent",
        head: "SPENT",
        cell: |row, _| Cell::new(&format!("{:.2} {}", row.spent, row.currency)),
    },
    Column {
        name: "limit",
        head: "BUDGET",
        cell: |row, _| Cell::new(&format!("{:.2}", row.budget)),
    },
    Column { name: "part", head: "USED %", cell: |row, _| Cell::new(&percent(row)) },
    Column { name: "status", head: "STATE", cell: |row, _| Cell::new(&row.state) },
];

fn percent(row: &BudgetRow) -> String {
    match row.budget > 0.0 {
        true => format!("{:.0}", 100.0 * row.spent / row.budget),
        false => "100".to_owned(),
    }
}

/// Runs the verb.
pub fn run(args: &BudgetArgs, session: &Session) -> Result {
    let client = session.client()?;
    show(&BUDGETS, &args.list, session, || {
        let rows = client.budgets()?;
        let footer = match rows.first() {
            Some(row) => format!("Cost since {}", row.since.short()),
            None => "No budgets are set.".to_owned(),
        };
        Ok(Listing::new(select(&BUDGETS, rows, &args.list)?, footer))
    })
}
