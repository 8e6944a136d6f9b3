//! `sreport`: GPU time of the cluster, of accounts and of users, from the recorded history.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Approximated, Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::foreign::slurm::moment::past;
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_model::Timestamp;
use gpool_wire::usage::{GpuHistoryParams, UsageParams, UsageRow};
use gpool_wire::{Time, catalogue};

use super::sreport_lines::{self as report, Capacity, ReportKind, Unit, UsageLine};
use super::table::{picked, text};
use crate::shim::{print, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("all_clusters", 'a', Nothing, Covered, "a server has one cluster"),
    row("cluster", 'M', Value, Ignored, "a server has one cluster").also(&["clusters"]),
    row("federation", '\0', Nothing, Ignored, "a server has one cluster"),
    row("local", '\0', Nothing, Covered, "a server has one cluster"),
    row("noheader", 'n', Nothing, Covered, "no heads"),
    row("parsable", 'p', Nothing, Covered, "| after each field"),
    row("parsable2", 'P', Nothing, Covered, "| between fields"),
    row("quiet", 'Q', Nothing, Ignored, "gpool -q prints no notes"),
    row("time", 't', Value, Covered, "Seconds, Minutes, Hours, Percent, SecPer, MinPer, HourPer"),
    row("tres", 'T', Value, Approximated, "gres/gpu, also by default: the server records GPU time"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

pub static SPOKEN: Spoken = Spoken {
    name: "sreport",
    about: "Report GPU time: cluster Utilization, AccountUtilizationByUser, \
            UserUtilizationByAccount; user TopUsage",
    flags: &[FLAGS],
    words: "REPORT",
};

/// The reports: the two words, and the report. Words may be cut.
const REPORTS: [(&str, &str, ReportKind); 4] = [
    ("cluster", "Utilization", ReportKind::Cluster),
    ("cluster", "AccountUtilizationByUser", ReportKind::Accounts),
    ("cluster", "UserUtilizationByAccount", ReportKind::Users),
    ("user", "TopUsage", ReportKind::Top),
];

/// Points of the history that a report of the cluster reads.
const POINTS: u32 = 2000;

/// The words after the names of a report.
#[derive(Default)]
struct ReportOptions {
    start: Option<String>,
    end: Option<String>,
    format: Option<String>,
    accounts: Vec<String>,
    users: Vec<String>,
    n_top: Option<usize>,
    is_tree: bool,
    is_grouped: bool,
}

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    say_tres(&args, session)?;
    let of = which(&args.words)?;
    let options = options(&args.words[2..])?;
    let unit = Unit::read(args.value("time").unwrap_or("Minutes"))?;
    let (start, end) = range(&options, session)?;
    let client = session.client()?;
    let capacity = match of == ReportKind::Cluster || unit.is_part() {
        true => Some(capacity(&client, start, end)?),
        false => None,
    };
    let picked =
        picked("sreport", options.format.as_deref().unwrap_or(of.fields()), report::FIELDS)?;
    let lines = lines(&client, of, &options, (start, end), capacity.as_ref())?;
    let total = capacity.as_ref().map_or(0.0, |it| it.reported);
    let mut shown = String::new();
    if !args.has("noheader") {
        let length = end.0.since(start.0).get() / 1000;
        let last = Time(Timestamp::new(end.0.get().saturating_sub(1000)));
        let clock = &session.screen.clock;
        let rule = "-".repeat(80);
        let _ = writeln!(
            shown,
            "{rule}\n{} {} - {} ({length} secs)\nUsage reported in {}\n{rule}",
            of.title(options.n_top()),
            clock.plain(start),
            clock.plain(last),
            unit.name(),
        );
    }
    shown.push_str(&text(&args, &picked, &lines, |cell, line| line.text(cell, unit, total)));
    print(&shown, session)
}

impl ReportOptions {
    fn n_top(&self) -> usize {
        self.n_top.unwrap_or(10)
    }
}

/// Warns of resources other than GPUs.
fn say_tres(args: &ParsedArgs, session: &Session) -> Result<()> {
    let is_gpu = |name: &&str| matches!(name.to_ascii_lowercase().as_str(), "gres/gpu" | "all");
    let (known, others): (Vec<&str>, Vec<&str>) = args.list("tres").partition(is_gpu);
    if !others.is_empty() && known.is_empty() {
        let what =
            format!("sreport of gpool has no {}: the server records GPU time", others.join(", "));
        return Err(Failure::new(catalogue::INVALID, what).tip("sreport -T gres/gpu …"));
    }
    if !others.is_empty() {
        session
            .screen
            .warn(&format!("ignored: -T {}: the server records GPU time", others.join(",")));
    }
    Ok(())
}

fn is_cut(word: &str, known: &str) -> bool {
    !word.is_empty()
        && known.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn which(words: &[String]) -> Result<ReportKind> {
    let found = words.first().zip(words.get(1)).and_then(|(kind, name)| {
        REPORTS.iter().find(|(first, second, _)| is_cut(kind, first) && is_cut(name, second))
    });
    found.map(|(.., of)| *of).ok_or_else(|| {
        let known: Vec<String> =
            REPORTS.iter().map(|(first, second, _)| format!("{first} {second}")).collect();
        let what = match words.is_empty() {
            true => "sreport: the report is missing".to_owned(),
            false => format!("sreport of gpool has no report {:?}", words.join(" ")),
        };
        Failure::new(errors::NO_SUCH_VERB, what)
            .why(format!("the choices are {}", known.join(", ")))
            .tip("gpool usage")
    })
}

fn options(words: &[String]) -> Result<ReportOptions> {
    let mut options = ReportOptions::default();
    let all = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let is = |known: &str| is_cut(key, known);
        match word.contains('=') {
            true if is("start") => options.start = Some(value.to_owned()),
            true if is("end") => options.end = Some(value.to_owned()),
            true if is("format") => options.format = Some(value.to_owned()),
            true if is("accounts") => options.accounts = all(value),
            true if is("users") => options.users = all(value),
            true if is("topcount") => options.n_top = value.parse().ok(),
            true if is("clusters") => {}
            false if is("tree") => options.is_tree = true,
            false if is("group") => options.is_grouped = true,
            _ => {
                let what = format!("sreport of gpool has no option {word:?}");
                let known = "start= end= format= accounts= users= clusters= topcount= tree group";
                return Err(
                    Failure::new(errors::USAGE, what).why(format!("the choices are {known}"))
                );
            }
        }
    }
    Ok(options)
}

/// The range: by default the day before today. It ends now at the latest.
fn range(options: &ReportOptions, session: &Session) -> Result<(Time, Time)> {
    let now = session.view().now;
    let moment = |name: &str, text: Option<&str>, usual: &str| -> Result<Time> {
        let moment = session.screen.clock.read(&past(text.unwrap_or(usual)), now);
        moment.map_err(|why| Failure::new(catalogue::INVALID, format!("{name}: {why}")))
    };
    let start = moment("start", options.start.as_deref(), "yesterday")?;
    let end = moment("end", options.end.as_deref(), "today")?.min(now);
    // As in Slurm, a start of today needs no end.
    let end = if options.end.is_none() && end <= start { now } else { end };
    if end <= start {
        let what = "sreport: the end is not after the start".to_owned();
        return Err(Failure::new(catalogue::INVALID, what).tip("sreport … start=now-7days end=now"));
    }
    Ok((start, end))
}

/// GPU time by the properties `by`, in rows of an hour or of the whole range.
fn usage(
    client: &Client,
    by: &str,
    (start, end): (Time, Time),
    step: Option<&str>,
) -> Result<Vec<UsageRow>> {
    // The last minute of a range belongs to it.
    let until = Time(Timestamp::new(end.0.get().saturating_sub(1)));
    let (since, until) = (Some(start), Some(until));
    let step = step.map(str::to_owned);
    let asked =
        UsageParams { by: Some(by.to_owned()), since, until, step, ..UsageParams::default() };
    Ok(client.usage(&asked)?)
}

fn capacity(client: &Client, start: Time, end: Time) -> Result<Capacity> {
    let series = Some("allocated".to_owned());
    let (since, until, points) = (Some(start), Some(end), Some(POINTS));
    let asked = GpuHistoryParams { since, until, points, series, ..GpuHistoryParams::default() };
    Ok(Capacity::of(&client.gpu_history(&asked)?))
}

fn lines(
    client: &Client,
    of: ReportKind,
    options: &ReportOptions,
    range: (Time, Time),
    capacity: Option<&Capacity>,
) -> Result<Vec<UsageLine>> {
    if let (ReportKind::Cluster, Some(capacity)) = (of, capacity) {
        let rows = usage(client, "kind", range, Some("hour"))?;
        return Ok(vec![report::cluster(&rows, capacity)]);
    }
    let mut rows = usage(client, "project,user", range, None)?;
    let is_wanted = |wanted: &[String], name: Option<&String>| {
        wanted.is_empty() || name.is_some_and(|name| wanted.contains(name))
    };
    // Processes that gpool did not start have no project; jobs that only waited have no GPU time.
    rows.retain(|row| {
        row.gpu_hours > 0.0
            && row.project.as_ref().is_some_and(|project| !project.is_empty())
            && is_wanted(&options.users, row.user.as_ref())
            && (of == ReportKind::Accounts || is_wanted(&options.accounts, row.project.as_ref()))
    });
    Ok(match of {
        ReportKind::Accounts => {
            let projects = client.quota()?.projects;
            let mut lines = report::accounts(&rows, &projects, options.is_tree);
            lines.retain(|line| {
                is_wanted(&options.accounts, Some(&line.account.trim_start().to_owned()))
            });
            lines
        }
        ReportKind::Top => report::top(&rows, options.n_top(), options.is_grouped),
        ReportKind::Users | ReportKind::Cluster => report::users(&rows),
    })
}
