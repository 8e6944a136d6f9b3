//! `gpool audit`: the changes of users.

use std::time::Duration;

use clap::Args;
use gpool_cli::args::list::{Format, ListFlags};
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{Between, show_with_count};
use gpool_cli::render::json;
use gpool_cli::session::Session;
use gpool_client::{AuditQuery, Client};
use gpool_wire::catalogue;

use crate::render::audit::{ENTRIES, line};

#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    list: ListFlags,
    /// User of the changes to list
    #[arg(short, long, value_name = "USER", help_heading = "Changes")]
    user: Option<String>,
    /// Object of the changes to list, e.g. nodes/lab1, vision, jobs/12 or policies
    #[arg(long, value_name = "OBJECT", help_heading = "Changes")]
    object: Option<String>,
    /// Earliest change to list, e.g. 2h (ago), 15:30 or 2026-11-20
    #[arg(long, value_name = "WHEN", help_heading = "Changes")]
    since: Option<String>,
    /// Latest change to list
    #[arg(long, value_name = "WHEN", help_heading = "Changes")]
    until: Option<String>,
    /// Print new changes as they come, with --since also those before
    #[arg(short, long, conflicts_with_all = ["watch", "until"], help_heading = "Changes")]
    follow: bool,
}

/// How often new changes are asked for.
const EVERY: Duration = Duration::from_secs(1);

/// Runs the verb.
pub fn run(args: AuditArgs, session: &Session) -> Result {
    let AuditArgs { list, user, object, since, until, follow: follows } = args;
    let Between { since, until } = Between::read(&since, &until, session)?;
    let query = AuditQuery { user, object, since, until, after: None, limit: list.limit };
    let client = session.client()?;
    if follows {
        return follow(&client, query, &list, session);
    }
    show_with_count(&ENTRIES, &list, session, "change", || Ok(client.audit(&query)?.items))
}

/// Prints entries as they come, without an end.
fn follow(client: &Client, query: AuditQuery, list: &ListFlags, session: &Session) -> Result {
    let as_json = matches!(list.form(session.global.json), Format::Json | Format::Jsonl);
    if !as_json && list.form(false) != Format::Table {
        let what = "--follow has the formats table and jsonl";
        return Err(Failure::new(catalogue::INVALID, what).tip("gpool audit --follow -o jsonl"));
    }
    let newest = AuditQuery { limit: Some(1), ..AuditQuery::default() };
    let last = client.audit(&newest)?.items.first().map_or(0, |entry| entry.id);
    let after = if query.since.is_some() { 0 } else { last };
    let mut query = AuditQuery { after: Some(after), limit: None, ..query };
    loop {
        let entries = client.audit(&query)?.items;
        for entry in &entries {
            let line = match as_json {
                true => json::line(entry),
                false => format!("{}\n", line(entry, &session.view())),
            };
            session.screen.data(&line)?;
            query.after = Some(entry.id);
        }
        if entries.is_empty() {
            std::thread::sleep(EVERY);
        }
    }
}
