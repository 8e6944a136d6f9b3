//! `squeue`: lists jobs that have not ended.

use std::fmt::Write as _;

use super::cells::{Cell, is_in};
use super::select::Filter;
use crate::shim::{interval, print_every, read, say_ignored};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::Standing::{Approximated, Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, Said, Spoken, row};
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
    row("format", 'o', Value, Approximated, "%i %A %F %K %j %u %t %T %M %l %L %D %N %R …"),
    row("Format", 'O', Value, Approximated, "JobID,Name,UserName,State,TimeUsed,ReasonList,…"),
    row("hide", '\0', Nothing, Covered, "there are no hidden partitions"),
    row("iterate", 'i', Value, Covered, "repeats after N seconds"),
    row("jobs", 'j', Value, Covered, "7, 7_4, 7_[1-3], or SLURM_JOB_ID of an element")
        .also(&["job"]),
    row("json", '\0', Nothing, Instead, "gpool queue --json, with the keys of gpool"),
    row("licenses", 'L', Value, Ignored, "there are no licenses"),
    row("local", '\0', Nothing, Covered, "a server has one cluster"),
    row("long", 'l', Nothing, Covered, "more columns"),
    row("me", '\0', Nothing, Covered, "only mine"),
    row("name", 'n', Value, Covered, "of these names"),
    row("noconvert", '\0', Nothing, Ignored, "amounts use the largest exact unit"),
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
    row("step", 's', Value, Instead, "gpool show JOB: a job has no steps"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("user", 'u', Value, Covered, "of these users").also(&["users"]),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("yaml", '\0', Nothing, Instead, "gpool queue --json, with the keys of gpool"),
];

/// `squeue`.
pub static SPOKEN: Spoken =
    Spoken { name: "squeue", about: "List jobs of gpool", flags: &[FLAGS], words: "" };

/// The format without a flag.
pub const USUAL: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
/// The format of `--long`.
pub const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
/// The format of `--start`.
pub const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

/// The columns: letter of `--format`, name of `--Format`, head, cell.
const COLUMNS: &[(char, &str, &str, Cell)] = &[
    ('a', "Account", "ACCOUNT", Cell::Account),
    ('A', "JobArrayID", "JOBID", Cell::Id),
    ('b', "tres-per-node", "TRES_PER_NODE", Cell::Gres),
    ('c', "MinCpus", "MIN_CPUS", Cell::Cpus),
    ('C', "NumCPUs", "CPUS", Cell::Cpus),
    ('D', "NumNodes", "NODES", Cell::NumNodes),
    ('e', "EndTime", "END_TIME", Cell::End),
    ('E', "Dependency", "DEPENDENCY", Cell::Dependency),
    ('f', "Feature", "FEATURES", Cell::Absent),
    ('F', "ArrayJobID", "ARRAY_JOB_ID", Cell::ArrayId),
    ('g', "GroupName", "GROUP", Cell::Absent),
    ('i', "JobID", "JOBID", Cell::Id),
    ('j', "Name", "NAME", Cell::Name),
    ('k', "Comment", "COMMENT", Cell::Comment),
    ('K', "ArrayTaskID", "ARRAY_TASK_ID", Cell::ArrayIndex),
    ('l', "TimeLimit", "TIME_LIMIT", Cell::Limit),
    ('L', "TimeLeft", "TIME_LEFT", Cell::Left),
    ('m', "MinMemory", "MIN_MEMORY", Cell::Memory),
    ('M', "TimeUsed", "TIME", Cell::Elapsed),
    ('N', "NodeList", "NODELIST", Cell::Nodes),
    ('o', "Command", "COMMAND", Cell::Command),
    ('p', "Priority", "PRIORITY", Cell::Priority),
    ('P', "Partition", "PARTITION", Cell::Partition),
    ('q', "QOS", "QOS", Cell::Absent),
    ('Q', "PriorityLong", "PRIORITY", Cell::Priority),
    ('r', "Reason", "REASON", Cell::Reason),
    ('R', "ReasonList", "NODELIST(REASON)", Cell::Where),
    ('S', "StartTime", "START_TIME", Cell::Start),
    ('t', "StateCompact", "ST", Cell::StateShort),
    ('T', "State", "STATE", Cell::State),
    ('u', "UserName", "USER", Cell::User),
    ('v', "Reservation", "RESERVATION", Cell::Absent),
    ('V', "SubmitTime", "SUBMIT_TIME", Cell::Submit),
    ('Y', "SchedNodes", "SCHEDNODES", Cell::Absent),
    ('Z', "WorkDir", "WORK_DIR", Cell::WorkDir),
];

/// A part of a line: text, or a cell with a width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text between cells.
    Text(String),
    /// A cell.
    Cell {
        /// Its head.
        head: &'static str,
        /// Its content.
        cell: Cell,
        /// Its width; `None` fits the content.
        width: Option<usize>,
        /// Whether it is aligned to the right.
        is_right: bool,
    },
}

/// Runs the command.
///
/// # Errors
/// A flag is not valid, or the server can't be asked.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(said) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&said, session);
    let parts = match (said.value("format"), said.value("Format")) {
        (Some(format), _) => by_letters(format)?,
        (None, Some(names)) => by_names(names)?,
        (None, None) if said.has("start") => by_letters(START)?,
        (None, None) if said.has("long") => by_letters(LONG)?,
        (None, None) => by_letters(USUAL)?,
    };
    let filter = Filter::of(&said, "jobs", session)?;
    let every = said.value("iterate").map(|every| interval(every, "--iterate")).transpose()?;
    print_every(every, session, || text(&said, &filter, &parts, session))
}

fn text(said: &Said, filter: &Filter, parts: &[Part], session: &Session) -> Result<String> {
    let is_spread = said.has("array") || said.has("array-unique");
    let mut jobs = filter.rows(&session.client()?, filter.has_states(), is_spread)?;
    if said.has("start") {
        jobs.retain(|job| is_in(job, "PD"));
    }
    sort(&mut jobs, said, session)?;
    let mut text = String::new();
    if said.has("iterate") || said.has("long") && !said.has("noheader") {
        let _ = writeln!(text, "{}", session.screen.clock.full(session.view().now));
    }
    if !said.has("noheader") {
        line(&mut text, parts, |head, _| head.to_owned());
    }
    for job in &jobs {
        line(&mut text, parts, |_, cell| cell.text(job, session));
    }
    if said.has("iterate") {
        text.push('\n');
    }
    Ok(text)
}

fn line(text: &mut String, parts: &[Part], of: impl Fn(&'static str, Cell) -> String) {
    for part in parts {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Cell { head, cell, width, is_right } => {
                let value = of(head, *cell);
                let width = width.unwrap_or(value.chars().count());
                let cut: String = value.chars().take(width).collect();
                let _ = match is_right {
                    true => write!(text, "{cut:>width$}"),
                    false => write!(text, "{cut:<width$}"),
                };
            }
        }
    }
    text.push('\n');
}

/// Parses `%.18i %.9P`: a point right-aligns, the number is the width.
pub fn by_letters(format: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = format.chars().peekable();
    let mut literal = String::new();
    while let Some(c) = rest.next() {
        if c != '%' {
            literal.push(c);
            continue;
        }
        let is_right = rest.next_if_eq(&'.').is_some();
        let mut width = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            width.push(digit);
        }
        let letter = rest.next().unwrap_or(' ');
        if letter == '%' {
            literal.push('%');
            continue;
        }
        let Some((_, _, head, cell)) = COLUMNS.iter().find(|(known, ..)| *known == letter) else {
            let known: Vec<String> = COLUMNS.iter().map(|(c, ..)| format!("%{c}")).collect();
            return Err(Failure::new(
                errors::BAD_COLUMN,
                format!("squeue of gpool has no %{letter}"),
            )
            .why(format!("the choices are {}", known.join(" "))));
        };
        if !literal.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut literal)));
        }
        let width = width.parse().ok().filter(|width: &usize| (1..=1000).contains(width));
        parts.push(Part::Cell { head, cell: *cell, width, is_right });
    }
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    Ok(parts)
}

/// Parses `JobID:10,Name:.20`; the default width is 20.
pub fn by_names(names: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let (name, width) = name.split_once(':').unwrap_or((name, "20"));
        let is_right = width.starts_with('.');
        let known = COLUMNS.iter().find(|(_, known, ..)| known.eq_ignore_ascii_case(name));
        let Some((_, _, head, cell)) = known else {
            let known: Vec<&str> = COLUMNS.iter().map(|(_, name, ..)| *name).collect();
            return Err(Failure::new(
                errors::BAD_COLUMN,
                format!("squeue of gpool has no {name:?}"),
            )
            .why(format!("the choices are {}", known.join(", "))));
        };
        let width = width.trim_start_matches('.').parse().ok();
        let width = width.filter(|width: &usize| (1..=1000).contains(width)).or(Some(20));
        parts.push(Part::Cell { head, cell: *cell, width, is_right });
    }
    Ok(parts)
}

fn sort(jobs: &mut [Job], said: &Said, session: &Session) -> Result<()> {
    let keys: Vec<&str> = said.list("sort").collect();
    for key in keys.into_iter().rev() {
        let (key, turned) = match key.strip_prefix(['-', '+']) {
            Some(letter) => (letter, key.starts_with('-')),
            None => (key, false),
        };
        let Some((_, _, _, cell)) = COLUMNS.iter().find(|(letter, ..)| key == letter.to_string())
        else {
            let what = format!("squeue can't sort by {key:?}");
            return Err(Failure::new(errors::BAD_COLUMN, what).tip("squeue --sort=-p,i"));
        };
        jobs.sort_by(|a, b| {
            let order = natural(&cell.text(a, session), &cell.text(b, session));
            if turned { order.reverse() } else { order }
        });
    }
    Ok(())
}
