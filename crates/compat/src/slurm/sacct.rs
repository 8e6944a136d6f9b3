//! `sacct`: lists ended and running jobs with their usage.

use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::Standing::{Approximated, Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, Said, Spoken, row};
use gpool_cli::session::Session;
use gpool_wire::{Job, Time, catalogue};

use super::cells::{Cell, elapsed, long_time};
use super::select::Filter;
use super::table::{Field, picked, text};
use crate::shim::{print, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("account", 'A', Value, Covered, "of these projects").also(&["accounts"]),
    row("allocations", 'X', Nothing, Covered, "a job has no steps, so there are no others"),
    row("allclusters", 'L', Nothing, Ignored, "a server has one cluster"),
    row("allusers", 'a', Nothing, Covered, "of all users"),
    row("brief", 'b', Nothing, Covered, "JobID,State,ExitCode"),
    row("clusters", 'M', Value, Ignored, "a server has one cluster"),
    row("completion", 'c', Nothing, Ignored, "all data is in one place"),
    row("delimiter", '\0', Value, Covered, "with --parsable"),
    row("duplicates", 'D', Nothing, Ignored, "IDs are unique"),
    row("endtime", 'E', Value, Covered, "submitted until"),
    row("format", 'o', Value, Approximated, "the fields of --helpformat, NAME%WIDTH"),
    row("helpformat", 'e', Nothing, Covered, "lists the fields"),
    row("jobs", 'j', Value, Covered, "7, 7_4, 7_[1-3], or SLURM_JOB_ID of an element"),
    row("json", '\0', Nothing, Instead, "gpool queue --state all --json"),
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
    row("yaml", '\0', Nothing, Instead, "gpool queue --state all --json"),
];

/// `sacct`.
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

static FIELDS: &[Field<Cell>] = &[
    ("Account", 10, false, Cell::Account),
    ("AllocCPUS", 10, false, Cell::Cpus),
    ("AllocGRES", 12, false, Cell::Gres),
    ("AllocNodes", 10, false, Cell::NumNodes),
    ("AllocTRES", 10, false, Cell::AllocTres),
    ("ArrayJobID", 12, true, Cell::ArrayId),
    ("ArrayTaskID", 12, false, Cell::ArrayIndex),
    ("Cluster", 10, false, Cell::Cluster),
    ("Comment", 14, false, Cell::Comment),
    ("CPUTime", 10, false, Cell::CpuTime),
    ("CPUTimeRAW", 10, false, Cell::CpuTimeRaw),
    ("Elapsed", 10, false, Cell::Elapsed),
    ("ElapsedRaw", 10, false, Cell::ElapsedRaw),
    ("Eligible", 19, false, Cell::Submit),
    ("End", 19, false, Cell::End),
    ("ExitCode", 8, false, Cell::ExitCode),
    ("JobID", 12, true, Cell::Id),
    ("JobIDRaw", 12, true, Cell::IdRaw),
    ("JobName", 10, false, Cell::Name),
    ("MaxRSS", 10, false, Cell::MaxRss),
    ("NCPUS", 10, false, Cell::Cpus),
    ("NNodes", 8, false, Cell::NumNodes),
    ("NodeList", 15, false, Cell::Nodes),
    ("NTasks", 8, false, Cell::Tasks),
    ("Partition", 10, false, Cell::Partition),
    ("Planned", 10, false, Cell::Planned),
    ("Priority", 10, false, Cell::Priority),
    ("QOS", 10, false, Cell::Absent),
    ("Reason", 22, false, Cell::Reason),
    ("ReqCPUS", 8, false, Cell::Cpus),
    ("ReqGRES", 12, false, Cell::Gres),
    ("ReqMem", 10, false, Cell::Memory),
    ("ReqNodes", 8, false, Cell::NumNodes),
    ("ReqTRES", 10, false, Cell::ReqTres),
    ("Restarts", 8, false, Cell::Restarts),
    ("Start", 19, false, Cell::Start),
    ("State", 10, false, Cell::State),
    ("StdErr", 20, false, Cell::StdErr),
    ("StdOut", 20, false, Cell::StdOut),
    ("Submit", 19, false, Cell::Submit),
    ("SubmitLine", 20, false, Cell::Command),
    ("SystemCPU", 10, false, Cell::SystemCpu),
    ("Timelimit", 10, false, Cell::Limit),
    ("TimelimitRaw", 10, false, Cell::LimitRaw),
    ("TotalCPU", 10, false, Cell::TotalCpu),
    ("User", 9, false, Cell::User),
    ("UserCPU", 10, false, Cell::UserCpu),
    ("WorkDir", 20, false, Cell::WorkDir),
];

/// Runs the command.
///
/// # Errors
/// A flag is not valid, or the server can't be asked.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(said) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    if said.has("helpformat") {
        let names: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
        return print(&format!("{}\n", names.join(" ")), session);
    }
    say_ignored(&said, session);
    let format = match said.value("format") {
        Some(format) => format,
        None if said.has("brief") => BRIEF,
        None if said.has("long") => LONG,
        None => USUAL,
    };
    let picked =
        picked("sacct", format, FIELDS).map_err(|failure| failure.tip("sacct --helpformat"))?;
    let jobs = jobs(&said, session)?;
    print(&text(&said, &picked, &jobs, |of, job| cell(of, job, session)), session)
}

fn cell(cell: Cell, job: &Job, session: &Session) -> String {
    match cell {
        Cell::Elapsed => long_time(elapsed(job, session.view().now).unwrap_or(0)),
        cell => cell.text(job, session),
    }
}

/// The selected jobs: without ids, those since midnight; without users, the caller's jobs, or all
/// for root.
fn jobs(said: &Said, session: &Session) -> Result<Vec<Job>> {
    let now = session.view().now;
    let moment = |long: &str| -> Result<Option<Time>> {
        let read = |text| session.screen.clock.read(text, now);
        let moment = said.value(long).map(read).transpose();
        moment.map_err(|why| Failure::new(catalogue::INVALID, format!("--{long}: {why}")))
    };
    let (since, until) = (moment("starttime")?, moment("endtime")?);
    let mut filter = Filter::of(said, "jobs", session)?;
    let sees_all = said.has("allusers") || rustix::process::geteuid().is_root();
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
        since.is_none_or(|since| job.ended_at.is_none_or(|ended| ended >= since))
            && until.is_none_or(|until| job.submitted_at <= until)
    };
    jobs.retain(is_since);
    Ok(jobs)
}
