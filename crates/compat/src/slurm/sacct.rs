//! `sacct`: lists ended and running jobs with their usage.

use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Maybe, Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::foreign::slurm::moment::past;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::{Job, Time, catalogue};

use super::cells::SlurmJobRow;
use super::json::{Parser, command_line};
use super::json_accounting;
use super::sacct_fields::{FIELDS, FieldContent};
use super::select::Filter;
use super::steps::Step;
use super::table::{help_format, picked, text};
use crate::shim::{print, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("account", 'A', Value, Covered, "of these projects").also(&["accounts"]),
    row("allocations", 'X', Nothing, Covered, "only jobs, without their steps"),
    row("allclusters", 'L', Nothing, Ignored, "a server has one cluster"),
    row("allusers", 'a', Nothing, Covered, "of all users"),
    row("brief", 'b', Nothing, Covered, "JobID,State,ExitCode"),
    row("clusters", 'M', Value, Ignored, "a server has one cluster"),
    row("completion", 'c', Nothing, Ignored, "all data is in one place"),
    row("delimiter", '\0', Value, Covered, "with --parsable"),
    row("duplicates", 'D', Nothing, Ignored, "IDs are unique"),
    row("endtime", 'E', Value, Covered, "submitted until"),
    row("format", 'o', Value, Covered, "all fields of Slurm, NAME%WIDTH"),
    row("helpformat", 'e', Nothing, Covered, "lists the fields"),
    row("jobs", 'j', Value, Covered, "7, 7_4, 7_[1-3], or SLURM_JOB_ID of an element"),
    row("json", '\0', Maybe, Covered, "in the form of data_parser/v0.0.41, or $GPOOL_DATA_PARSER"),
    row("long", 'l', Nothing, Covered, "more fields"),
    row("name", '\0', Value, Covered, "of these names"),
    row("noconvert", '\0', Nothing, Ignored, "memory is in K"),
    row("nodelist", 'N', Value, Covered, "on these nodes"),
    row("noheader", 'n', Nothing, Covered, "no heads"),
    row("parsable", 'p', Nothing, Covered, "| between the fields, and one at the end"),
    row("parsable2", 'P', Nothing, Covered, "| between"),
    row("partition", 'r', Value, Covered, "in these pools"),
    row("qos", 'q', Value, Ignored, "--accounts names projects"),
    row("starttime", 'S', Value, Covered, "jobs submitted since then (default: today)"),
    row("state", 's', Value, Covered, "in these states"),
    row("truncate", 'T', Nothing, Ignored, "times are not truncated"),
    row("units", '\0', Value, Ignored, "memory is in K"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("user", 'u', Value, Covered, "of these users").also(&["uid"]),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("yaml", '\0', Maybe, Covered, "as --json, in YAML"),
];

pub static SPOKEN: Spoken = Spoken {
    name: "sacct",
    about: "List past and present jobs of gpool",
    flags: &[FLAGS],
    words: "",
};

const USUAL: &str = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
const BRIEF: &str = "JobID,State,ExitCode";
const LONG: &str = "JobID,JobName,Partition,User,Account,AllocCPUS,ReqMem,MaxRSS,Submit,Start,End,\
                    Elapsed,Timelimit,TotalCPU,State,ExitCode,NodeList";

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    if args.has("helpformat") {
        return print(&help_format(FIELDS), session);
    }
    say_ignored(&args, session);
    if let Some(parser) = Parser::of(&args)? {
        let jobs = jobs(&args, session)?;
        let values =
            jobs.iter().map(|job| json_accounting::job(&SlurmJobRow::of(job, session), parser));
        let line = command_line("sacct", words);
        return parser.print("jobs", values.collect(), &line, session);
    }
    let variable = std::env::var("SACCT_FORMAT").ok();
    let format = match args.value("format").or(variable.as_deref()) {
        Some(format) => format,
        None if args.has("brief") => BRIEF,
        None if args.has("long") => LONG,
        None => USUAL,
    };
    let picked =
        picked("sacct", format, FIELDS).map_err(|failure| failure.tip("sacct --helpformat"))?;
    let jobs = jobs(&args, session)?;
    let lines: Vec<SacctLine<'_>> =
        jobs.iter().flat_map(|job| lines(job, &args, session)).collect();
    print(&text(&args, &picked, &lines, cell), session)
}

/// A line: a job, or a step.
enum SacctLine<'r> {
    Job(SlurmJobRow<'r>),
    Step(Box<Step<'r>>),
}

/// The lines of a job: itself, and its steps unless only allocations are requested.
fn lines<'r>(job: &'r Job, said: &ParsedArgs, session: &'r Session) -> Vec<SacctLine<'r>> {
    let row = SlurmJobRow::of(job, session);
    let steps = if said.has("allocations") { Vec::new() } else { Step::all(&row) };
    std::iter::once(SacctLine::Job(row))
        .chain(steps.into_iter().map(|step| SacctLine::Step(Box::new(step))))
        .collect()
}

fn cell(FieldContent(of_job, absent, of_step): FieldContent, line: &SacctLine<'_>) -> String {
    let text = match line {
        SacctLine::Job(row) => of_job(row).unwrap_or_else(|| absent.to_owned()),
        SacctLine::Step(step) => of_step.text(step, of_job).unwrap_or_default(),
    };
    safe(&text).into_owned()
}

/// The selected jobs: without ids, those since midnight; without users, the caller's jobs, or all
/// for root.
fn jobs(args: &ParsedArgs, session: &Session) -> Result<Vec<Job>> {
    let now = session.view().now;
    let moment = |long: &str| -> Result<Option<Time>> {
        let read = |text| session.screen.clock.read(&past(text), now);
        let moment = args.value(long).map(read).transpose();
        moment.map_err(|why| Failure::new(catalogue::INVALID, format!("--{long}: {why}")))
    };
    let (since, until) = (moment("starttime")?, moment("endtime")?);
    let mut filter = Filter::of(args, "jobs", session)?;
    let sees_all = args.has("allusers") || rustix::process::geteuid().is_root();
    if filter.ids.is_empty() && !filter.has_users() && !sees_all {
        filter.only_user(session.me());
    }
    let since = match since {
        None if filter.ids.is_empty() => session.screen.clock.read("00:00", now).ok(),
        since => since,
    };
    let mut jobs = filter.rows(&session.client()?, true, false)?;
    // A job that still runs, or ended later, overlaps the time.
    let is_since = |job: &Job| {
        since.is_none_or(|since| job.run.ended_at.is_none_or(|ended| ended >= since))
            && until.is_none_or(|until| job.submitted_at <= until)
    };
    jobs.retain(is_since);
    Ok(jobs)
}
