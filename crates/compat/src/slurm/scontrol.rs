//! `scontrol`: shows jobs, nodes and partitions as `Key=value`, and changes jobs and nodes.

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Maybe, Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::session::Session;

use super::{scontrol_more as more, scontrol_show, scontrol_update, select};
use crate::shim::{gpool, print, read, say_ignored, version};

static FLAGS: &[Flag] = &[
    row("all", 'a', Nothing, Covered, "there are no hidden partitions"),
    row("cluster", 'M', Value, Ignored, "a server has one cluster").also(&["clusters"]),
    row("details", 'd', Nothing, Covered, "also the GPUs of each node of a job"),
    row("federation", 'F', Nothing, Ignored, "a server has one cluster"),
    row("future", '\0', Nothing, Ignored, "there are no future nodes"),
    row("hide", '\0', Nothing, Covered, "there are no hidden partitions"),
    row(
        "json",
        '\0',
        Maybe,
        Covered,
        "of show, in the form of data_parser/v0.0.41, or $GPOOL_DATA_PARSER",
    ),
    row("local", '\0', Nothing, Covered, "a server has one cluster"),
    row("oneliner", 'o', Nothing, Covered, "one line per object"),
    row("quiet", 'Q', Nothing, Ignored, "gpool -q prints no notes"),
    row("sibling", '\0', Nothing, Ignored, "a server has one cluster"),
    row("uid", 'u', Value, Instead, "sudo -u USER scontrol …"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("yaml", '\0', Maybe, Covered, "as --json, in YAML"),
];

macro_rules! spoken {
    ($name:ident, $text:literal, $about:literal, $words:literal) => {
        static $name: Spoken =
            Spoken { name: $text, about: $about, flags: &[FLAGS], words: $words };
    };
}

spoken!(
    SHOW,
    "scontrol show",
    "Show job, step, node, partition, reservation, config, hostnames or hostlist",
    "WHAT [NAME]"
);
spoken!(UPDATE, "scontrol update", "Change a job or a node", "JobId=ID KEY=VALUE …");
spoken!(HOLD, "scontrol hold", "Hold waiting jobs (also: uhold)", "IDS");
spoken!(RELEASE, "scontrol release", "Release held jobs", "IDS");
spoken!(REQUEUE, "scontrol requeue", "Stop jobs and queue them again", "IDS");
spoken!(REQUEUE_HOLD, "scontrol requeuehold", "Stop jobs and hold them in the queue", "IDS");
spoken!(SUSPEND, "scontrol suspend", "Pause jobs: gpool pause", "IDS");
spoken!(RESUME, "scontrol resume", "Resume paused jobs: gpool resume", "IDS");

spoken!(PING, "scontrol ping", "Show whether the server answers", "");
spoken!(VERSION, "scontrol version", "Print the version", "");
spoken!(COMPLETING, "scontrol completing", "Show jobs that are ending", "");
spoken!(WAIT_JOB, "scontrol wait_job", "Wait until a job has started", "ID");
spoken!(TOP, "scontrol top", "Put a job before the other pending jobs of its user", "IDS");
spoken!(LIST_PIDS, "scontrol listpids", "List processes of jobs on this machine", "[ID]");
spoken!(WRITE, "scontrol write batch_script", "Write the script of a job to a file", "ID [FILE]");

pub const SPOKEN: &[&Spoken] = &[
    &SHOW,
    &UPDATE,
    &HOLD,
    &RELEASE,
    &REQUEUE,
    &REQUEUE_HOLD,
    &SUSPEND,
    &RESUME,
    &PING,
    &VERSION,
    &COMPLETING,
    &WAIT_JOB,
    &TOP,
    &LIST_PIDS,
    &WRITE,
];

/// Subcommands with another name in gpool.
const INSTEAD: [(&str, &str); 8] = [
    ("cancel_reboot", "gpool undrain NODE"),
    ("create", "gpool reserve create, gpool maint create, gpool pool move"),
    ("delete", "gpool reserve cancel NAME"),
    ("notify", "gpool note JOB TEXT"),
    ("reboot", "gpool drain NODE --reason reboot"),
    ("reconfigure", "gpool down && gpool up; jobs keep running"),
    ("shutdown", "gpool down; jobs keep running"),
    ("token", "gpool help"),
];

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    // Flags may come before or after the subcommand.
    let at = words.iter().position(|word| !word.starts_with('-'));
    let Some((at, verb)) = at.and_then(|at| Some((at, words.get(at)?))) else {
        return without_verb(words, session);
    };
    let rest: Vec<String> = words[..at].iter().chain(&words[at + 1..]).cloned().collect();
    let verb = verb.to_ascii_lowercase();
    let spoken = match verb.as_str() {
        "show" => &SHOW,
        "update" => &UPDATE,
        "hold" | "uhold" => &HOLD,
        "release" => &RELEASE,
        "requeue" => &REQUEUE,
        "requeuehold" => &REQUEUE_HOLD,
        "suspend" => &SUSPEND,
        "resume" => &RESUME,
        "ping" => &PING,
        "version" => &VERSION,
        "completing" => &COMPLETING,
        "wait_job" => &WAIT_JOB,
        "top" => &TOP,
        "listpids" => &LIST_PIDS,
        "write" => &WRITE,
        other => return Err(no_such(other)),
    };
    let Some(args) = read(spoken, &rest, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    match verb.as_str() {
        "show" => scontrol_show::run(&args, session),
        "ping" => more::ping(session),
        "version" => print(&format!("{}\n", version("scontrol")), session),
        "completing" => more::completing(session),
        "wait_job" => more::wait_job(&args.words, session),
        "top" => more::top(&args.words, session),
        "listpids" => more::list_pids(&args.words, session),
        "write" => more::write(&args.words, session),
        "update" => scontrol_update::run(&args.words, session),
        "hold" | "uhold" => on_jobs(&["hold"], &args, spoken, session),
        "release" => on_jobs(&["release"], &args, spoken, session),
        "requeue" => on_jobs(&["requeue"], &args, spoken, session),
        "requeuehold" => on_jobs(&["requeue", "--hold"], &args, spoken, session),
        "suspend" => on_jobs(&["pause"], &args, spoken, session),
        _ => on_jobs(&["resume"], &args, spoken, session),
    }
}

fn without_verb(words: &[String], session: &Session) -> Result {
    if words.iter().any(|word| word == "--version" || word == "-V") {
        return print(&format!("{}\n", version("scontrol")), session);
    }
    if words.iter().any(|word| word == "--help" || word == "-h") {
        let lines: String =
            SPOKEN.iter().map(|it| format!("  {:<22} {}\n", it.name, it.about)).collect();
        return print(&format!("scontrol, as a command of gpool:\n{lines}"), session);
    }
    Err(Failure::new(
        errors::USAGE,
        "scontrol: the command is missing; gpool's scontrol has no prompt",
    )
    .tip("scontrol show job 17"))
}

fn no_such(verb: &str) -> Failure {
    let known = SPOKEN.iter().map(|it| it.name.trim_start_matches("scontrol "));
    let known: Vec<&str> = known.collect();
    let failure =
        Failure::new(errors::NO_SUCH_VERB, format!("scontrol of gpool has no command {verb:?}"))
            .why(format!("the choices are {}", known.join(", ")));
    match INSTEAD.iter().find(|(theirs, _)| *theirs == verb) {
        Some((_, ours)) => failure.tip(*ours),
        None => failure.tip("scontrol show job 17"),
    }
}

fn on_jobs(verb: &[&str], args: &ParsedArgs, spoken: &Spoken, session: &Session) -> Result {
    let ids = select::ids(args.words.iter().cloned())?;
    if ids.is_empty() {
        let what = format!("{}: which job?", spoken.name);
        return Err(Failure::new(errors::USAGE, what).tip(format!("{} 17", spoken.name)));
    }
    let words = verb.iter().map(|word| (*word).to_owned()).chain(ids);
    gpool(&words.collect::<Vec<_>>(), session)
}
