//! `gjob`: shows and changes jobs.

use std::io::{BufRead as _, BufReader, Write as _};

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::foreign::gflow::flags::CONFIG;
use gpool_cli::foreign::gflow::translate;
use gpool_cli::reference::Reference;
use gpool_cli::resolve;
use gpool_cli::screen::not_written;
use gpool_cli::session::Session;
use gpool_client::{LogQuery, LogStream};

use super::{completion, flags_behind, redo};
use crate::shim::{below, gpool, gpool_line, read, say_ignored};

static EVERYWHERE: &[Flag] = &[
    row("quiet", 'q', Nothing, Ignored, "gpool -q prints no notes"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

static LOG: &[Flag] = &[
    row("first", 'f', Value, Covered, "the first lines"),
    row("follow", 'F', Nothing, Covered, "gpool logs --follow"),
    row("last", 'l', Value, Covered, "the last lines: gpool logs --tail"),
    row("no-ansi", '\0', Nothing, Instead, "gpool logs JOB | sed 's/\\x1b\\[[0-9;]*[A-Za-z]//g'"),
    row("path", '\0', Nothing, Instead, "gpool logs JOB; gpool submit --stdout FILE names a file"),
    row("raw", '\0', Nothing, Covered, "output is kept and shown as it was written"),
];

static RELEASE: &[Flag] =
    &[row("at", '\0', Value, Covered, "gpool release --at; after now+ a bare number is minutes")];

const ANEW: &str = "gpool cancel JOB, and submit it again";

static UPDATE: &[Flag] = &[
    row("auto-cancel-on-dep-failure", '\0', Nothing, Covered, "gpool edit --on-unmet cancel"),
    row("clear-conda-env", '\0', Nothing, Instead, ANEW),
    row("clear-gpu-memory-limit", '\0', Nothing, Instead, "gpool edit JOB --gpus N"),
    row("clear-max-concurrent", '\0', Nothing, Covered, "gpool edit --max-parallel 0"),
    row("clear-max-retries", '\0', Nothing, Covered, "gpool edit --retry 0"),
    row("clear-memory-limit", '\0', Nothing, Covered, "gpool edit --mem none"),
    row("clear-time-limit", '\0', Nothing, Covered, "gpool edit --time none"),
    row("command", 'c', Value, Covered, "gpool edit --command"),
    row("conda-env", 'e', Value, Instead, ANEW),
    row("depends-on", 'd', Value, Covered, "gpool edit --after"),
    row("depends-on-all", '\0', Value, Covered, "gpool edit --after"),
    row("depends-on-any", '\0', Value, Covered, "gpool edit --after-one"),
    row("gpu-memory", '\0', Value, Instead, ANEW).also(&["max-gpu-mem"]),
    row("gpus", 'g', Value, Covered, "gpool edit --gpus"),
    row("max-concurrent", '\0', Value, Covered, "gpool edit --max-parallel"),
    row("max-retries", '\0', Value, Covered, "gpool edit --retry N --retry-on fail"),
    row("memory-limit", 'm', Value, Covered, "gpool edit --mem"),
    row("no-auto-cancel-on-dep-failure", '\0', Nothing, Covered, "gpool edit --on-unmet keep"),
    row("param", '\0', Value, Instead, ANEW),
    row("priority", 'p', Value, Covered, "gpool edit --priority, less 10"),
    row("script", 's', Value, Covered, "gpool edit --script"),
    row("time-limit", 't', Value, Covered, "gpool edit --time"),
];

static CLOSE: &[Flag] = &[
    row("all", 'a', Nothing, Ignored, "there are no tmux sessions"),
    row("jobs", 'j', Value, Ignored, "there are no tmux sessions"),
    row("pattern", 'p', Value, Ignored, "there are no tmux sessions"),
    row("state", 's', Value, Ignored, "there are no tmux sessions"),
];

macro_rules! spoken {
    ($name:ident, $text:literal, $about:literal, $flags:expr, $words:literal) => {
        static $name: Spoken = Spoken { name: $text, about: $about, flags: $flags, words: $words };
    };
}

spoken!(OF_ATTACH, "gjob attach", "Attach to a job: gpool attach", &[EVERYWHERE, CONFIG], "JOB");
spoken!(OF_LOG, "gjob log", "Print the output of a job", &[LOG, EVERYWHERE, CONFIG], "JOB");
spoken!(OF_HOLD, "gjob hold", "Hold waiting jobs", &[EVERYWHERE, CONFIG], "JOBS");
spoken!(OF_RELEASE, "gjob release", "Release held jobs", &[RELEASE, EVERYWHERE, CONFIG], "JOBS");
spoken!(OF_UPDATE, "gjob update", "Change jobs: gpool edit", &[UPDATE, EVERYWHERE, CONFIG], "JOBS");
spoken!(OF_SHOW, "gjob show", "Show jobs in full", &[EVERYWHERE, CONFIG], "JOBS");
spoken!(
    OF_REDO,
    "gjob redo",
    "Run a job again: gpool retry, with changes by gpool edit",
    &[redo::FLAGS, EVERYWHERE, CONFIG],
    "JOB"
);
spoken!(OF_CLOSE, "gjob close-sessions", "Does nothing here", &[CLOSE, EVERYWHERE], "");

pub const SPOKEN: &[&Spoken] =
    &[&OF_ATTACH, &OF_LOG, &OF_HOLD, &OF_RELEASE, &OF_UPDATE, &OF_SHOW, &OF_REDO, &OF_CLOSE];

const BELOW: [&str; 21] = [
    "attach",
    "a",
    "log",
    "l",
    "hold",
    "h",
    "release",
    "r",
    "update",
    "u",
    "show",
    "s",
    "redo",
    "progress",
    "p",
    "close-sessions",
    "close",
    "completion",
    "--help",
    "--version",
    "-V",
];

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let words = &flags_behind(words, &BELOW, &["--config"]);
    let (word, rest) = below("gjob", words, &BELOW)?;
    let spoken = match word {
        "attach" | "a" => &OF_ATTACH,
        "log" | "l" => &OF_LOG,
        "hold" | "h" => &OF_HOLD,
        "release" | "r" => &OF_RELEASE,
        "update" | "u" => &OF_UPDATE,
        "show" | "s" => &OF_SHOW,
        "redo" => &OF_REDO,
        "close-sessions" | "close" => &OF_CLOSE,
        "progress" | "p" => {
            let what = "gpool has nothing like gjob progress";
            return Err(Failure::new(errors::NO_SUCH_VERB, what)
                .why(
                    "gpool predicts ends from earlier jobs; the output of a job can show its \
                     progress",
                )
                .tip("echo \"epoch 25/40\" in the job, and gpool logs -f JOB"));
        }
        "completion" => return completion(rest, session),
        _ => return super::below_help("gjob", word, SPOKEN, session),
    };
    let Some(args) = read(spoken, rest, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    if args.words.is_empty() && word != "close-sessions" && word != "close" {
        let what = format!("{}: which job?", spoken.name);
        return Err(Failure::new(errors::USAGE, what).tip(format!("{} 7", spoken.name)));
    }
    match word {
        "attach" | "a" => on_jobs("attach", &args, session),
        "log" | "l" => log(&args, session),
        "hold" | "h" => on_jobs("hold", &args, session),
        "release" | "r" => release(&args, session),
        "update" | "u" => update(&args, session),
        "show" | "s" => on_jobs("show", &args, session),
        "redo" => redo::run(&args, session),
        _ => Ok(Exit::OK),
    }
}

fn on_jobs(verb: &str, args: &ParsedArgs, session: &Session) -> Result {
    let words = std::iter::once(verb).chain(args.words.iter().map(String::as_str));
    gpool_line(&words.collect::<Vec<_>>(), session)
}

fn release(args: &ParsedArgs, session: &Session) -> Result {
    let mut words = vec!["release".to_owned()];
    words.extend(args.words.iter().cloned());
    words.extend(args.value("at").map(|at| format!("--at={}", translate::moment(at))));
    gpool(&words, session)
}

fn update(args: &ParsedArgs, session: &Session) -> Result {
    let mut words = vec!["edit".to_owned()];
    words.extend(args.words.iter().cloned());
    for given in &args.flags {
        let value = given.value.as_str();
        words.extend(match given.flag.long {
            "auto-cancel-on-dep-failure" => Some("--on-unmet=cancel".to_owned()),
            "clear-max-concurrent" => Some("--max-parallel=0".to_owned()),
            "clear-max-retries" => Some("--retry=0".to_owned()),
            "clear-memory-limit" => Some("--mem=none".to_owned()),
            "clear-time-limit" => Some("--time=none".to_owned()),
            "command" => Some(format!("--command={value}")),
            "depends-on" | "depends-on-all" => Some(format!("--after={value}")),
            "depends-on-any" => Some(format!("--after-one={value}")),
            "gpus" => Some(format!("--gpus={value}")),
            "max-concurrent" => Some(format!("--max-parallel={value}")),
            "max-retries" => Some(format!("--retry={value}")),
            "memory-limit" => Some(format!("--mem={}M", translate::mebibytes(given)?)),
            "no-auto-cancel-on-dep-failure" => Some("--on-unmet=keep".to_owned()),
            "priority" => Some(format!("--priority={}", translate::priority(given)?)),
            "script" => Some(format!("--script={value}")),
            "time-limit" => Some(format!("--time={}s", translate::seconds(given)?)),
            _ => None,
        });
    }
    words.extend(args.has("max-retries").then(|| "--retry-on=fail".to_owned()));
    gpool(&words, session)
}

/// Prints the output of a job, or its first or last lines.
fn log(args: &ParsedArgs, session: &Session) -> Result {
    let mut words = vec!["logs".to_owned()];
    if args.has("first") && args.has("last") {
        return Err(Failure::new(
            errors::USAGE,
            "gjob log: --first and --last can't be given together",
        )
        .tip("gjob log 7 --last 50"));
    }
    words.extend(args.value("last").map(|last| format!("--tail={last}")));
    words.extend(args.has("follow").then(|| "--follow".to_owned()));
    let Some(first) = args.value("first") else {
        words.extend(args.words.iter().cloned());
        return gpool(&words, session);
    };
    let invalid = |what: String| Failure::new(errors::INVALID, format!("gjob log: {what}"));
    let Ok(first) = first.parse::<usize>() else {
        return Err(invalid(format!("--first: {first:?} is not a number of lines")));
    };
    let client = session.client()?;
    let job: Reference = args.words[0]
        .parse()
        .map_err(|error: gpool_cli::reference::ReferenceError| invalid(error.to_string()))?;
    let (id, attempt) = resolve::one(&client, &job, session.me())?;
    let query = LogQuery { stream: LogStream::Both, attempt, ..LogQuery::default() };
    let mut lines = BufReader::new(client.logs(&id, &query)?);
    let mut out = std::io::stdout().lock();
    let mut line = Vec::new();
    for _ in 0..first {
        line.clear();
        let read = lines.read_until(b'\n', &mut line);
        let n = read.map_err(|error| Failure::new(errors::CONNECTION_LOST, error.to_string()))?;
        if n == 0 {
            break;
        }
        out.write_all(&line).map_err(|error| not_written(&error))?;
    }
    Ok(Exit::OK)
}
