//! `gpool audit`: the changes of users.

use clap::Args;
use gpool_cli::args::list::ListFlags;
use gpool_cli::failure::Result;
use gpool_cli::listing::{Between, show_counted};
use gpool_cli::session::Session;
use gpool_client::AuditQuery;

use crate::render::audit::ENTRIES;

/// The arguments of `gpool audit`.
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
}

/// Runs the verb.
///
/// # Errors
/// A flag's value is not valid, or the server can't be asked.
pub fn run(args: AuditArgs, session: &Session) -> Result {
    let AuditArgs { list, user, object, since, until } = args;
    let Between { since, until } = Between::read(&since, &until, session)?;
    let query = AuditQuery { user, object, since, until, limit: list.limit };
    let client = session.client()?;
    show_counted(&ENTRIES, &list, session, "change", || Ok(client.audit(&query)?.items))
}
