//! `gpool history`: lists ended jobs and their total usage.

use clap::Args;
use gpool_cli::args::list::ListFlags;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{Between, Listing, show};
use gpool_cli::render::list::{Row, select};
use gpool_cli::resolve::{PAGE, every_job};
use gpool_cli::session::Session;
use gpool_client::JobsQuery;
use gpool_model::job::JobState;
use gpool_wire::{Job, catalogue};

use super::queue::states;
use gpool_verbs::render::history::{HISTORY, footer};
use gpool_verbs::render::history_by::{By, SUMS, sums};

/// Rows without `--limit`.
const ROWS: usize = 50;

#[derive(Debug, Clone, Default, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    list: ListFlags,
    /// User of the jobs to list
    #[arg(short, long, value_name = "USER", help_heading = "Jobs")]
    user: Option<String>,
    /// Project of the jobs to list, with the projects below it
    #[arg(short, long, value_name = "PROJECT", help_heading = "Jobs")]
    project: Option<String>,
    /// Final states to list, e.g. succeeded or failed,timed-out
    #[arg(short, long, value_name = "STATES", help_heading = "Jobs")]
    state: Option<String>,
    /// Name of the jobs to list
    #[arg(long, value_name = "NAME", help_heading = "Jobs")]
    name: Option<String>,
    /// Group of the jobs to list
    #[arg(long, value_name = "GROUP", help_heading = "Jobs")]
    group: Option<String>,
    /// Earliest end of the jobs to list, e.g. 2h (ago), 15:30 or 2026-11-20
    #[arg(long, value_name = "WHEN", help_heading = "Jobs")]
    since: Option<String>,
    /// Latest end of the jobs to list
    #[arg(long, value_name = "WHEN", help_heading = "Jobs")]
    until: Option<String>,
    /// Sums to show instead of jobs: one row per user, project or name
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Jobs")]
    #[arg(hide_possible_values = true)]
    by: Option<By>,
}

/// Runs the verb.
pub fn run(args: &HistoryArgs, session: &Session) -> Result {
    let Between { since, until } = Between::read(&args.since, &args.until, session)?;
    let named = |text: &Option<String>| text.clone().filter(|text| text != "all");
    let query = JobsQuery {
        state: Some(ends(args.state.as_deref())?),
        user: named(&args.user),
        project: named(&args.project),
        name: args.name.clone(),
        group: args.group.clone(),
        ended_since: since,
        ended_until: until,
        ..JobsQuery::default()
    };
    let client = session.client()?;
    if let Some(by) = args.by {
        return show(&SUMS, &args.list, session, || {
            let all = sums(&every_job(&client, &query)?, by);
            let totals = client.totals(&query)?;
            let n_jobs = usize::try_from(totals.n_jobs).unwrap_or(usize::MAX);
            let footer = footer(n_jobs, &totals);
            Ok(Listing::new(select(&SUMS, all, &args.list)?, footer))
        });
    }
    show(&HISTORY, &args.list, session, || {
        let rows = read(&client, &query, &args.list)?;
        let totals = client.totals(&query)?;
        let below = footer(rows.len(), &totals);
        Ok(Listing::new(rows, below))
    })
}

/// The requested final states, or else all.
pub fn ends(asked: Option<&str>) -> Result<String> {
    let asked = match asked.map(states).transpose()? {
        None => return Ok("ended".to_owned()),
        Some(asked) if asked == "all" => return Ok("ended".to_owned()),
        Some(asked) => asked,
    };
    let is_end = |word: &str| {
        JobState::ALL.into_iter().any(|state| state.is_end() && state.as_str() == word)
    };
    match asked.split(',').find(|word| !is_end(word)) {
        None => Ok(asked),
        Some(word) => {
            let what = format!("--state: a job that is {word} has not ended");
            Err(Failure::new(catalogue::INVALID, what).tip(format!("gpool queue --state {word}")))
        }
    }
}

/// Reads the rows to show, page by page. If a filter or order applies that the server does not
/// have, it reads all rows first.
fn read(
    client: &gpool_client::Client,
    query: &JobsQuery,
    list: &ListFlags,
) -> Result<Vec<Row<Job>>> {
    let limit = match list.limit {
        None => ROWS,
        Some(0) => usize::MAX,
        Some(limit) => limit,
    };
    let is_whole = !list.filter.is_empty() || list.sort.is_some();
    let wanted = if is_whole { usize::MAX } else { limit };
    let mut jobs: Vec<Job> = Vec::new();
    let mut cursor = None;
    while jobs.len() < wanted {
        let room = u32::try_from(wanted - jobs.len()).unwrap_or(u32::MAX).min(PAGE);
        let page = client.jobs(&JobsQuery { limit: Some(room), cursor, ..query.clone() })?;
        jobs.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    select(&HISTORY, jobs, &ListFlags { limit: Some(limit), ..list.clone() })
}
