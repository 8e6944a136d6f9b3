//! `gpool queue`: lists jobs.

use clap::Args;
use gpool_cli::args::list::{Format, ListFlags};
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{Between, Listing, show};
use gpool_cli::render::list::select;
use gpool_cli::resolve::{PAGE, each_job, elements};
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_model::job::JobState;
use gpool_wire::{Job, catalogue};

use crate::away;
use gpool_verbs::render::jobs::{JOBS, contents, counts, footer, next_starts};

/// Rows without `--limit`.
const ROWS: usize = 200;

#[derive(Debug, Clone, Default, Args)]
pub struct QueueArgs {
    #[command(flatten)]
    list: ListFlags,
    /// User of the jobs to list
    #[arg(short, long, value_name = "USER", help_heading = "Jobs")]
    user: Option<String>,
    /// Project of the jobs to list, with the projects below it
    #[arg(short, long, value_name = "PROJECT", help_heading = "Jobs")]
    project: Option<String>,
    /// States to list, e.g. pending,running or all
    #[arg(short, long, value_name = "STATES", help_heading = "Jobs")]
    state: Option<String>,
    /// List the elements of arrays, one per row
    #[arg(short = 'a', long, help_heading = "Jobs")]
    elements: bool,
    /// Name of the jobs to list
    #[arg(long, value_name = "NAME", help_heading = "Jobs")]
    name: Option<String>,
    /// Group of the jobs to list, one per row
    #[arg(long, value_name = "GROUP", help_heading = "Jobs")]
    group: Option<String>,
    /// Earliest submission of the jobs to list, e.g. 2h (ago), 15:30 or 2026-11-20
    #[arg(long, value_name = "WHEN", help_heading = "Jobs")]
    since: Option<String>,
    /// Latest submission of the jobs to list
    #[arg(long, value_name = "WHEN", help_heading = "Jobs")]
    until: Option<String>,
    /// State folder to read while no server answers
    #[arg(long, value_name = "FOLDER", help_heading = "Jobs")]
    state_dir: Option<String>,
}

/// Runs the verb. While no server answers it lists the jobs that go on.
pub fn run(args: &QueueArgs, session: &Session) -> Result {
    ask(args, session).map_err(|failure| match failure.is_no_answer() {
        true => away::queue(failure, args.state_dir.as_deref(), session),
        false => failure,
    })
}

fn ask(args: &QueueArgs, session: &Session) -> Result {
    let state = args.state.as_deref().map(states).transpose()?;
    let Between { since, until } = Between::read(&args.since, &args.until, session)?;
    // Any array may have elements in the requested states, so all arrays are read.
    let state_filter = state.clone();
    let state = if args.elements && state.is_some() { Some("all".to_owned()) } else { state };
    let named = |text: &Option<String>| text.clone().filter(|text| text != "all");
    let query = JobsQuery {
        state,
        user: named(&args.user),
        project: named(&args.project),
        name: args.name.clone(),
        group: args.group.clone(),
        ..JobsQuery::default()
    };
    let client = session.client()?;
    let form = args.list.form(session.global.json);
    let for_people = matches!(form, Format::Table | Format::Wide);
    // Filters, orders and columns of the caller are about single jobs, and so are scripts.
    let list = &args.list;
    let is_plain = list.filter.is_empty() && list.sort.is_none() && list.format.is_empty();
    let fold_groups = for_people && is_plain && args.group.is_none() && !args.elements;
    let query = JobsQuery { fold_groups, ..query };
    show(&JOBS, &args.list, session, || {
        let is_in = |job: &Job| {
            since.is_none_or(|since| job.submitted_at >= since)
                && until.is_none_or(|until| job.submitted_at <= until)
        };
        let (rows, total) = if args.elements {
            let jobs = each_job(&client, &query);
            let jobs = jobs.filter(|job| job.as_ref().map_or(true, is_in));
            one_by_one(&client, jobs, state_filter.as_deref(), &args.list)?
        } else {
            let is_whole = since.is_some() || until.is_some();
            read(&client, &query, &args.list, is_whole, is_in)?
        };
        if !for_people {
            return Ok(Listing::new(rows, String::new()));
        }
        let status = client.status()?;
        let below = footer(rows.len(), total, Some(&status));
        let next = next_starts(rows.iter().map(|row| &row.item), &session.view());
        let next = next.map(|next| format!("{next}\n")).unwrap_or_default();
        let head = format!("{}\n{next}", counts(&status));
        Ok(Listing { head, contents: Some(contents), ..Listing::new(rows, below) })
    })
}

type Rows = Vec<gpool_cli::render::list::Row<Job>>;

/// Replaces arrays by their elements; returns the rows and their total number.
fn one_by_one(
    client: &Client,
    jobs: impl Iterator<Item = Result<Job>>,
    state_filter: Option<&str>,
    list: &ListFlags,
) -> Result<(Rows, Option<u64>)> {
    let is_asked = |state: &JobState| match state_filter {
        None => !state.is_end(),
        Some("all") => true,
        Some(words) => words.split(',').any(|word| word == state.as_str()),
    };
    let states: Vec<JobState> = JobState::ALL.into_iter().filter(is_asked).collect();
    let words = states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(",");
    let limit = match list.limit {
        None => ROWS,
        Some(0) => usize::MAX,
        Some(limit) => limit,
    };
    // A filter or order of the client needs all rows.
    let most = if list.filter.is_empty() && list.sort.is_none() { limit } else { usize::MAX };
    let mut total = 0;
    let mut items = Vec::new();
    for job in jobs {
        let job = job?;
        let left = most.saturating_sub(items.len());
        match &job.array {
            Some(array) => {
                total += array.n_in(&states);
                items.extend(elements(client, &job.id, &words, 0, left)?);
            }
            None if is_asked(&job.state) => {
                total += 1;
                items.extend((left > 0).then_some(job));
            }
            None => {}
        }
    }
    let rows = select(&JOBS, items, &ListFlags { limit: None, ..list.clone() })?;
    let total = if most == limit { total } else { u64::try_from(rows.len()).unwrap_or(u64::MAX) };
    Ok((rows.into_iter().take(limit).collect(), Some(total)))
}

/// Reads the rows to show, and their total number if they are not all. If a filter or order applies
/// that the server does not have, it reads all rows first.
fn read(
    client: &Client,
    query: &JobsQuery,
    list: &ListFlags,
    is_whole: bool,
    is_in: impl Fn(&Job) -> bool,
) -> Result<(Rows, Option<u64>)> {
    let limit = match list.limit {
        None => ROWS,
        Some(0) => usize::MAX,
        Some(limit) => limit,
    };
    let flags = ListFlags { limit: Some(limit), ..list.clone() };
    let is_whole =
        is_whole || !list.filter.is_empty() || list.sort.is_some() || limit == usize::MAX;
    if is_whole {
        let jobs = each_job(client, query).filter(|job| job.as_ref().map_or(true, &is_in));
        let jobs = jobs.collect::<Result<Vec<Job>>>()?;
        let whole = ListFlags { limit: None, ..flags.clone() };
        let mut rows = select(&JOBS, jobs, &whole)?;
        let total = u64::try_from(rows.len()).ok();
        rows.truncate(limit);
        return Ok((rows, total));
    }
    let mut query = query.clone();
    let (mut jobs, mut total) = (Vec::new(), None);
    // A page of large jobs may be shorter than requested.
    loop {
        query.limit = Some(u32::try_from(limit - jobs.len()).unwrap_or(PAGE).min(PAGE));
        let page = client.jobs(&query)?;
        jobs.extend(page.items);
        total = total.or(page.total);
        query.cursor = page.next_cursor;
        if query.cursor.is_none() || jobs.len() >= limit {
            break;
        }
    }
    let n_jobs = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
    let more = query.cursor.is_some().then_some(n_jobs + 1);
    Ok((select(&JOBS, jobs, &flags)?, total.or(more)))
}

/// Checks a list of states: `all`, `pending,running`, `timed-out`.
pub fn states(text: &str) -> Result<String> {
    let words: Vec<&str> =
        JobState::ALL.iter().map(|state| state.as_str()).chain(std::iter::once("all")).collect();
    let mut states = Vec::new();
    for word in text.split(',') {
        let written = word.trim().to_ascii_lowercase().replace('-', "_");
        if !words.contains(&written.as_str()) {
            let failure =
                Failure::new(catalogue::INVALID, format!("--state: there is no state {word:?}"))
                    .why(format!("the choices are {}", words.join(", ")));
            let near = gpool_wire::json::nearest(&written, words.iter().copied());
            return Err(match near {
                Some(near) => failure.tip(format!("gpool queue --state {near}")),
                None => failure.tip("gpool queue --state all"),
            });
        }
        states.push(written);
    }
    if states.iter().any(|state| state == "all") {
        return Ok("all".to_owned());
    }
    Ok(states.join(","))
}
