//! `squeue`: lists jobs that have not ended.

use std::fmt::Write as _;

use super::cells::{self, Cell, SlurmJobRow};
use super::format::{Column, Format};
use super::json::{Parser, command_line};
use super::json_job;
use super::select::{self, Filter};
use super::squeue_columns::{COLUMNS, STEP_COLUMNS};
use super::states::is_in;
use super::steps::{OfStep, Step};
use crate::shim::{interval, print, print_every, read, say_ignored};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Maybe, Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::render::list::natural;
use gpool_cli::session::Session;
use gpool_wire::Job;

static FLAGS: &[Flag] = &[
    row("account", 'A', Value, Covered, "of these projects"),
    row("all", 'a', Nothing, Covered, "there are no hidden partitions"),
    row("array", 'r', Nothing, Covered, "one element per line, also waiting ones"),
    row("array-unique", '\0', Nothing, Covered, "one element a line"),
    row("clusters", 'M', Value, Ignored, "a server has one cluster"),
    row("federation", '\0', Nothing, Ignored, "a server has one cluster"),
    row("format", 'o', Value, Covered, "all letters of Slurm, with widths"),
    row("Format", 'O', Value, Covered, "all names of Slurm; JobID:10 or JobID:|"),
    row("helpFormat", '\0', Nothing, Covered, "lists the names of --Format"),
    row("helpformat", '\0', Nothing, Covered, "lists the letters of --format"),
    row("hide", '\0', Nothing, Covered, "there are no hidden partitions"),
    row("iterate", 'i', Value, Covered, "repeats after N seconds"),
    row("jobs", 'j', Value, Covered, "7, 7_4, 7_[1-3], or SLURM_JOB_ID of an element")
        .also(&["job"]),
    row("json", '\0', Maybe, Covered, "in the form of data_parser/v0.0.41, or $GPOOL_DATA_PARSER"),
    row("licenses", 'L', Value, Ignored, "there are no licenses"),
    row("local", '\0', Nothing, Covered, "a server has one cluster"),
    row("long", 'l', Nothing, Covered, "more columns"),
    row("me", '\0', Nothing, Covered, "only mine"),
    row("name", 'n', Value, Covered, "of these names"),
    row("noconvert", '\0', Nothing, Ignored, "amounts use the largest exact unit"),
    row("only-job-state", '\0', Nothing, Covered, "all fields are read at once"),
    row("notme", '\0', Nothing, Covered, "of other users"),
    row("nodelist", 'w', Value, Covered, "on these nodes"),
    row("noheader", 'h', Nothing, Covered, "no heads"),
    row("partition", 'p', Value, Covered, "in these pools"),
    row("priority", 'P', Nothing, Ignored, "a job is in one partition"),
    row("qos", 'q', Value, Ignored, "--account names projects"),
    row("reservation", 'R', Value, Ignored, "gpool reserve list"),
    row("sibling", '\0', Nothing, Ignored, "a server has one cluster"),
    row("sort", 'S', Value, Covered, "letters of --format; - before one reverses it"),
    row("start", '\0', Nothing, Covered, "likely starts of pending jobs"),
    row("state", 't', Value, Covered, "in these states; all includes ended jobs").also(&["states"]),
    row("step", 's', Maybe, Covered, "running steps; --step=7.batch is the one of job 7")
        .also(&["steps"]),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("user", 'u', Value, Covered, "of these users").also(&["users"]),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("yaml", '\0', Maybe, Covered, "as --json, in YAML"),
];

pub static SPOKEN: Spoken =
    Spoken { name: "squeue", about: "List jobs of gpool", flags: &[FLAGS], words: "" };

/// The format without a flag.
pub const USUAL: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
pub const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
pub const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
pub const STEPS: &str = "%.15i %.8j %.9P %.8u %.9M %N";

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    if let Some(help) = Format::requested_help(&args, COLUMNS) {
        return print(&help, session);
    }
    say_ignored(&args, session);
    let mut filter = Filter::of(&args, "jobs", session)?;
    filter.ids.extend(select::ids(args.value("step").map(str::to_owned).into_iter())?);
    if let Some(parser) = Parser::of(&args)? {
        let jobs = rows(&args, &filter, session)?;
        let jobs =
            jobs.iter().map(|job| json_job::job(&SlurmJobRow::of(job, session), parser)).collect();
        return parser.print("jobs", jobs, &command_line("squeue", words), session);
    }
    let every = args.value("iterate").map(|every| interval(every, "--iterate")).transpose()?;
    if args.has("step") {
        let format = choose_format(&args, STEPS, STEP_COLUMNS, session);
        return print_every(every, session, || steps_text(&args, &filter, &format, session));
    }
    let usual = match () {
        () if args.has("start") => START,
        () if args.has("long") => LONG,
        () => USUAL,
    };
    let format = choose_format(&args, usual, COLUMNS, session);
    print_every(every, session, || text(&args, &filter, &format, session))
}

/// The format that the flags choose. A note names its unknown parts.
fn choose_format<C>(
    args: &ParsedArgs,
    usual: &str,
    columns: &'static [Column<C>],
    session: &Session,
) -> Format<C> {
    // As in Slurm, the variables only replace the format without a flag.
    let variable = |name: &str| std::env::var(name).ok().filter(|_| usual == USUAL);
    let (letters, names) = (variable("SQUEUE_FORMAT"), variable("SQUEUE_FORMAT2"));
    let format = match (args.value("format"), args.value("Format")) {
        (Some(letters), _) => Format::by_letters(letters, columns),
        (None, Some(names)) => Format::by_names(names, columns),
        (None, None) => match (letters, names) {
            (Some(letters), _) => Format::by_letters(&letters, columns),
            (None, Some(names)) => Format::by_names(&names, columns),
            (None, None) => Format::by_letters(usual, columns),
        },
    };
    format.say_unknown("squeue", session);
    format
}

fn rows(args: &ParsedArgs, filter: &Filter, session: &Session) -> Result<Vec<Job>> {
    let is_spread = args.has("array") || args.has("array-unique");
    let mut jobs = filter.rows(&session.client()?, filter.has_states(), is_spread)?;
    if args.has("start") {
        jobs.retain(|job| is_in(job, "PD"));
    }
    if args.has("notme") {
        jobs.retain(|job| job.user != session.me());
    }
    sort(&mut jobs, args, session)?;
    Ok(jobs)
}

fn text(
    args: &ParsedArgs,
    filter: &Filter,
    format: &Format<Cell>,
    session: &Session,
) -> Result<String> {
    let jobs = rows(args, filter, session)?;
    let rows: Vec<SlurmJobRow<'_>> = jobs.iter().map(|job| SlurmJobRow::of(job, session)).collect();
    let lines = format.lines(!args.has("noheader"), &rows, |cell, row| cell(row));
    Ok(framed(args, &lines, session))
}

/// The lines of the steps of running jobs.
fn steps_text(
    args: &ParsedArgs,
    filter: &Filter,
    format: &Format<OfStep>,
    session: &Session,
) -> Result<String> {
    let jobs = rows(args, filter, session)?;
    let running = jobs.iter().filter(|job| is_in(job, "R") || is_in(job, "S"));
    let steps: Vec<Step<'_>> =
        running.filter_map(|job| Step::of(SlurmJobRow::of(job, session))).collect();
    let lines =
        format.lines(!args.has("noheader"), &steps, |cell, step| cell.text(step, cells::none));
    Ok(framed(args, &lines, session))
}

/// The lines under the time, and before an empty line, as the flags request.
fn framed(args: &ParsedArgs, lines: &str, session: &Session) -> String {
    let mut text = String::new();
    if args.has("iterate") || args.has("long") && !args.has("noheader") {
        let _ = writeln!(text, "{}", session.screen.clock.full(session.view().now));
    }
    text.push_str(lines);
    if args.has("iterate") {
        text.push('\n');
    }
    text
}

fn sort(jobs: &mut [Job], args: &ParsedArgs, session: &Session) -> Result<()> {
    let keys: Vec<&str> = args.list("sort").collect();
    for key in keys.into_iter().rev() {
        let (key, turned) = match key.strip_prefix(['-', '+']) {
            Some(letter) => (letter, key.starts_with('-')),
            None => (key, false),
        };
        let Some(Column(_, _, _, cell, _)) =
            COLUMNS.iter().find(|column| key == column.0.to_string())
        else {
            let what = format!("squeue can't sort by {key:?}");
            return Err(Failure::new(errors::BAD_COLUMN, what).tip("squeue --sort=-p,i"));
        };
        let text = |job: &Job| cell(&SlurmJobRow::of(job, session)).unwrap_or_default();
        jobs.sort_by(|a, b| {
            let order = natural(&text(a), &text(b));
            if turned { order.reverse() } else { order }
        });
    }
    Ok(())
}
