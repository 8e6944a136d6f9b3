//! `gqueue`: lists jobs, by default the caller's jobs that have not ended.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value as Takes};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::foreign::gflow::flags::CONFIG;
use gpool_cli::reference::Reference;
use gpool_cli::render::list::{natural, no_formula};
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::resolve::{self, JobScope, every_job};
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_wire::{Job, catalogue};
use serde_json::{Value, json};

use super::completion;
use super::job_view::{self, COLUMNS, STATES};
use crate::shim::{interval, print_every, read};
use crate::slurm::arrays::{ArrayExpansion, in_order, is_of, spread};

static FLAGS: &[Flag] = &[
    row("all", 'a', Nothing, Covered, "also ended jobs"),
    row("completed", 'c', Nothing, Covered, "only ended jobs"),
    row("format", 'f', Takes, Covered, "JOBID,NAME:20,ST,…; an unknown one is refused"),
    row("group", 'g', Nothing, Covered, "by state"),
    row("interval", '\0', Takes, Covered, "interval of --watch in seconds (default: 2)"),
    row("jobs", 'j', Takes, Covered, "only these: 7, 10-20, @").also(&["job"]),
    row("limit", 'n', Takes, Covered, "the first N; of -N, the last"),
    row("names", 'N', Takes, Covered, "of these names"),
    row("output", 'o', Takes, Covered, "table, json, csv or yaml, with gflow's keys"),
    row("project", 'P', Takes, Covered, "of this project"),
    row("since", '\0', Takes, Covered, "submitted since: 1h, 2d, today"),
    row("sort", 'r', Takes, Covered, "id, state, time, name, gpus or priority"),
    row("states", 's', Takes, Covered, "in these states; an unknown one is refused"),
    row("tmux", 'T', Nothing, Instead, "gqueue; there are no tmux sessions"),
    row("tree", 't', Nothing, Covered, "each job below the job that it waits for"),
    row("user", 'u', Takes, Covered, "of these users, or all").also(&["users"]),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("watch", 'w', Nothing, Covered, "again and again"),
];

pub static SPOKEN: Spoken =
    Spoken { name: "gqueue", about: "List jobs of gpool", flags: &[FLAGS, CONFIG], words: "" };

const N_USUAL: usize = 6;

/// Most waiting elements of an array with their own row; gflow accepts the same number.
const SPREAD_MAX: u64 = 1000;

const SORTS: [&str; 6] = ["id", "state", "time", "name", "gpus", "priority"];

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    if let [word, rest @ ..] = words
        && word == "completion"
    {
        return completion(rest, session);
    }
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    let columns = columns(&args)?;
    let every = match (args.has("watch"), args.value("interval")) {
        (true, seconds) => Some(interval(seconds.unwrap_or("2"), "--interval")?),
        (false, None) => None,
        (false, Some(_)) => {
            return Err(Failure::new(errors::USAGE, "gqueue: --interval needs --watch")
                .tip("gqueue --watch --interval 5"));
        }
    };
    print_every(every, session, || text(&args, &columns, session))
}

fn text(args: &ParsedArgs, columns: &[Column], session: &Session) -> Result<String> {
    let jobs = jobs(args, session)?;
    Ok(match args.value("output").unwrap_or("table") {
        "table" if args.has("group") => grouped(&jobs, columns, session),
        "table" => table(&jobs, columns, args.has("tree"), session),
        "json" => {
            let jobs: Vec<Value> =
                jobs.iter().map(|job| job_view::json(job, session).into()).collect();
            format!("{:#}\n", json!({ "jobs": jobs }))
        }
        "csv" => csv(&jobs, session),
        "yaml" => yaml(&jobs, session),
        other => return Err(no_such("--output", other, &["table", "json", "csv", "yaml"])),
    })
}

fn no_such(flag: &str, word: &str, known: &[&str]) -> Failure {
    Failure::new(catalogue::INVALID, format!("gqueue: {flag}: there is no {word:?}"))
        .why(format!("the choices are {}", known.join(", ")))
}

/// A column, and its largest width.
type Column = (&'static str, Option<usize>);

fn columns(args: &ParsedArgs) -> Result<Vec<Column>> {
    let Some(format) = args.value("format") else {
        return Ok(COLUMNS[..N_USUAL].iter().map(|column| (*column, None)).collect());
    };
    let one = |written: &str| {
        let (name, width) = written.split_once(':').unwrap_or((written, "full"));
        let width = match width.trim() {
            "full" | "0" => Some(None),
            width => width.parse().ok().map(Some),
        };
        let known = COLUMNS.iter().find(|column| column.eq_ignore_ascii_case(name.trim()));
        known.copied().zip(width).ok_or_else(|| {
            Failure::new(errors::BAD_COLUMN, format!("gqueue has no column {written:?}"))
                .why(format!("the choices are {}", COLUMNS.join(", ")))
        })
    };
    format.split(',').map(one).collect()
}

fn jobs(args: &ParsedArgs, session: &Session) -> Result<Vec<Job>> {
    let client = session.client()?;
    let states: Vec<String> = args.list("states").map(str::to_ascii_lowercase).collect();
    let is_state = |known: &(&str, &str), word: &str| {
        known.0.eq_ignore_ascii_case(word) || known.1.eq_ignore_ascii_case(word)
    };
    let all: Vec<&str> = STATES.iter().map(|(_, word)| *word).collect();
    if let Some(word) = states.iter().find(|word| !STATES.iter().any(|known| is_state(known, word)))
    {
        return Err(no_such("--states", word, &all));
    }
    let with_ended = ["all", "completed", "states", "jobs"].iter().any(|flag| args.has(flag));
    let query = JobsQuery { state: with_ended.then(|| "all".to_owned()), ..JobsQuery::default() };
    let mut jobs = every_job(&client, &query)?;
    let users: Vec<&str> = args.list("user").collect();
    let named = ids(args, &client, session)?;
    let names: Vec<&str> = args.list("names").collect();
    let since = args.value("since").map(|text| session.screen.clock.read(text, session.view().now));
    let since = since
        .transpose()
        .map_err(|why| Failure::new(catalogue::INVALID, format!("gqueue: --since: {why}")))?;
    jobs.retain(|job| {
        let is_mine = users.is_empty() && job.user == session.me();
        let is_named =
            |ids: &Vec<String>| ids.iter().any(|id| id.split('.').next() == Some(job.id.as_str()));
        (is_mine || users.iter().any(|user| *user == "all" || *user == job.user))
            && named.as_ref().is_none_or(is_named)
            && args.value("project").is_none_or(|project| project == job.project)
            && since.is_none_or(|since| job.submitted_at >= since)
    });
    let mut jobs = one_by_one(&client, jobs, with_ended)?;
    jobs.retain(|job| {
        (!args.has("completed") || job.state.is_end())
            && (states.is_empty()
                || states.iter().any(|word| is_state(&job_view::state(job), word)))
            && named.as_ref().is_none_or(|ids| is_of(job, ids))
            && (names.is_empty() || names.contains(&job.name.as_str()))
    });
    sort(&mut jobs, args.value("sort").unwrap_or("id"), session)?;
    limited(jobs, args.value("limit").unwrap_or("0"))
}

/// Replaces arrays by their elements; the waiting elements of a large array share one row.
fn one_by_one(client: &Client, jobs: Vec<Job>, with_ended: bool) -> Result<Vec<Job>> {
    let mut rows = Vec::new();
    for job in jobs {
        let n_elements = job.array.as_ref().map_or(0, |array| array.n_elements);
        let shape = ArrayExpansion { with_ended, is_spread: n_elements <= SPREAD_MAX };
        rows.extend(spread(client, vec![job], shape)?);
    }
    Ok(rows)
}

fn ids(args: &ParsedArgs, client: &Client, session: &Session) -> Result<Option<Vec<String>>> {
    let Some(text) = args.value("jobs") else { return Ok(None) };
    let references = Reference::list(text)
        .map_err(|error| Failure::new(catalogue::INVALID, format!("gqueue: --jobs: {error}")))?;
    let found = resolve::jobs(client, references.iter(), None, session.me(), JobScope::Ever)?;
    Ok(Some(found.ids))
}

fn sort(jobs: &mut [Job], by: &str, session: &Session) -> Result<()> {
    let now = session.view().now;
    in_order(jobs);
    match by {
        "id" => {}
        "state" => jobs.sort_by_key(|job| STATES.iter().position(|s| *s == job_view::state(job))),
        "time" => jobs.sort_by_key(|job| std::cmp::Reverse(job_view::time(job, now))),
        "name" => jobs.sort_by(|a, b| natural(&a.name, &b.name)),
        "gpus" => jobs.sort_by_key(|job| std::cmp::Reverse(job_view::n_gpus(job))),
        "priority" => jobs.sort_by_key(|job| std::cmp::Reverse(job.request.priority_number())),
        other => return Err(no_such("--sort", other, &SORTS)),
    }
    Ok(())
}

/// The first `limit` jobs, the last ones for a negative limit, or all for 0.
fn limited(mut jobs: Vec<Job>, limit: &str) -> Result<Vec<Job>> {
    let Ok(limit) = limit.parse::<i64>() else {
        let what = format!("gqueue: --limit: {limit:?} is not a number");
        return Err(Failure::new(catalogue::INVALID, what));
    };
    let n = usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX);
    match limit {
        0 => {}
        1.. => jobs.truncate(n),
        _ => drop(jobs.drain(..jobs.len().saturating_sub(n))),
    }
    Ok(jobs)
}

fn table(jobs: &[Job], columns: &[Column], is_tree: bool, session: &Session) -> String {
    let now = session.view().now;
    let mut table = Table::new(columns.iter().map(|(column, _)| (*column).to_owned()).collect());
    let mut put = |job: &Job, depth: usize| {
        let cell = |(column, width): &Column| {
            let text = cut(&job_view::cell(job, column, now), *width);
            match *column {
                "JOBID" if depth > 0 => Cell::new(&format!("{}└─{text}", "  ".repeat(depth - 1))),
                _ => Cell::new(&text),
            }
        };
        table.push(columns.iter().map(cell).collect());
    };
    if is_tree {
        for (job, depth) in tree(jobs) {
            put(job, depth);
        }
    } else {
        jobs.iter().for_each(|job| put(job, 0));
    }
    table.render(session.screen.width, false)
}

/// Cuts a text to a width and marks the cut.
fn cut(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if text.chars().count() > width => {
            let kept: String = text.chars().take(width.saturating_sub(1)).collect();
            format!("{kept}…")
        }
        _ => text.to_owned(),
    }
}

/// The jobs as a tree with their depth: each below the first listed job that it waits for.
fn tree(jobs: &[Job]) -> Vec<(&Job, usize)> {
    let parent = |job: &Job| {
        let waited = job.request.after.iter().filter_map(|after| after.rsplit(':').next());
        waited.filter_map(|id| jobs.iter().find(|other| other.id == id)).next()
    };
    let mut found = Vec::new();
    // A job only waits for earlier jobs, so this ends. The last entry is taken first.
    let mut open: Vec<(&Job, usize)> =
        jobs.iter().rev().filter(|job| parent(job).is_none()).map(|job| (job, 0)).collect();
    while let Some((job, depth)) = open.pop() {
        found.push((job, depth));
        let is_below = |other: &&Job| parent(other).is_some_and(|parent| parent.id == job.id);
        open.extend(jobs.iter().rev().filter(is_below).map(|below| (below, depth + 1)));
    }
    found
}

fn grouped(jobs: &[Job], columns: &[Column], session: &Session) -> String {
    let mut text = String::new();
    for state in STATES {
        let of: Vec<Job> =
            jobs.iter().filter(|job| job_view::state(job) == state).cloned().collect();
        if !of.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = write!(
                text,
                "{gap}{} ({})\n{}",
                state.1,
                of.len(),
                table(&of, columns, false, session)
            );
        }
    }
    text
}

fn csv(jobs: &[Job], session: &Session) -> String {
    let keys = ["id", "name", "state", "time", "gpus", "user", "submitted_at", "reason"];
    let mut text = format!("{}\n", keys.join(","));
    for job in jobs {
        let json = job_view::json(job, session);
        let field = |key: &&str| match json.get(*key) {
            None => "-".to_owned(),
            Some(Value::String(text)) => {
                let text = no_formula(text);
                let is_plain = !text.contains([',', '"', '\n']);
                if is_plain { text } else { format!("\"{}\"", text.replace('"', "\"\"")) }
            }
            Some(other) => {
                let text = other.to_string();
                if text.contains(',') { format!("\"{text}\"") } else { text }
            }
        };
        let _ = writeln!(text, "{}", keys.iter().map(field).collect::<Vec<_>>().join(","));
    }
    text
}

/// JSON values are valid YAML, so only the structure around them is written here.
fn yaml(jobs: &[Job], session: &Session) -> String {
    let mut text = if jobs.is_empty() { "jobs: []\n".to_owned() } else { "jobs:\n".to_owned() };
    for job in jobs {
        for (n, (key, value)) in job_view::json(job, session).iter().enumerate() {
            let _ = writeln!(text, "{} {key}: {value}", if n == 0 { "-" } else { " " });
        }
    }
    text
}
