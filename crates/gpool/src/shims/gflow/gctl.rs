//! `gctl`: says what the scheduler may do.

use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::session::Session;
use crate::shims::flag::Standing::{Covered, Ignored, Instead};
use crate::shims::flag::Takes::{Nothing, Value};
use crate::shims::flag::{Flag, Said, Spoken, row};
use crate::shims::{below, gpool, gpool_line, read, say_ignored};

static PROCESS: &[Flag] = &[
    row("gpu", '\0', Value, Ignored, "a process is ignored on every GPU"),
    row("pid", '\0', Value, Instead, "gpool up --ignore-processes NAME, or a pid"),
];

static RESERVE: &[Flag] = &[
    row("duration", '\0', Value, Covered, "--for"),
    row("gpu-spec", '\0', Value, Covered, "--devices"),
    row("gpus", '\0', Value, Covered, "--gpus"),
    row("start", '\0', Value, Covered, "--from"),
    row("timezone", '\0', Value, Instead, "write the zone into --start: 2026-11-20T15:00+08:00"),
    row("user", '\0', Value, Covered, "--user"),
];

static RESERVATIONS: &[Flag] = &[
    row("active", '\0', Nothing, Ignored, "the list says which are"),
    row("from", '\0', Value, Ignored, "the list has them all"),
    row("range", '\0', Value, Ignored, "the list has them all"),
    row("status", '\0', Value, Ignored, "the list says which are"),
    row("timeline", '\0', Nothing, Ignored, "the list is in their order"),
    row("to", '\0', Value, Ignored, "the list has them all"),
    row("user", '\0', Value, Ignored, "the list says whose"),
];

macro_rules! spoken {
    ($name:ident, $text:literal, $about:literal, $flags:expr, $words:literal) => {
        static $name: Spoken = Spoken { name: $text, about: $about, flags: $flags, words: $words };
    };
}

spoken!(SET_GPUS, "gctl set-gpus", "Say which GPUs new jobs may use", &[], "0,2 | 0-2 | all");
spoken!(SHOW_GPUS, "gctl show-gpus", "List GPUs", &[], "");
spoken!(
    OF_PROCESS,
    "gctl gpu-process",
    "Use instead: gpool up --ignore-processes",
    &[PROCESS],
    "ignore | unignore | list"
);
spoken!(SET_LIMIT, "gctl set-limit", "Say how many elements of an array run at once", &[], "JOB N");
spoken!(CREATE, "gctl reserve create", "Set GPUs aside: gpool reserve", &[RESERVE], "");
spoken!(LIST, "gctl reserve list", "List reservations", &[RESERVATIONS], "");
spoken!(GET, "gctl reserve get", "List reservations", &[], "ID");
spoken!(CANCEL, "gctl reserve cancel", "End a reservation", &[], "ID");
spoken!(QUOTA, "gctl quota", "Use instead: quotas in gpool.toml", &[], "list | set | remove");

/// What is below `gctl`.
pub const SPOKEN: &[&Spoken] =
    &[&SET_GPUS, &SHOW_GPUS, &OF_PROCESS, &SET_LIMIT, &CREATE, &LIST, &GET, &CANCEL, &QUOTA];

const BELOW: [&str; 10] = [
    "set-gpus",
    "show-gpus",
    "gpu-process",
    "set-limit",
    "reserve",
    "quota",
    "completion",
    "--help",
    "--version",
    "-V",
];

/// Runs it.
///
/// # Errors
/// What the command of gpool meets.
pub fn run(words: &[String], session: &Session) -> Result {
    let (word, rest) = below("gctl", words, &BELOW)?;
    match word {
        "set-gpus" => {
            let Some(said) = said(&SET_GPUS, rest, 1, session)? else { return Ok(Exit::OK) };
            gpool_line(&["gpus", "allow", &said.words[0]], session)
        }
        "show-gpus" => {
            let Some(_) = said(&SHOW_GPUS, rest, 0, session)? else { return Ok(Exit::OK) };
            gpool_line(&["gpus"], session)
        }
        "set-limit" => {
            let Some(said) = said(&SET_LIMIT, rest, 2, session)? else { return Ok(Exit::OK) };
            let flag = format!("--max-parallel={}", said.words[1]);
            gpool_line(&["edit", &said.words[0], &flag], session)
        }
        "gpu-process" => Err(instead("gctl gpu-process", "gpool up --ignore-processes Xorg,4242")),
        "quota" => Err(instead("gctl quota", "gpool help gflow")),
        "reserve" => reserve(rest, session),
        "completion" => gpool_line(&["completion", rest.first().map_or("bash", |w| w)], session),
        _ => super::below_help("gctl", SPOKEN, session),
    }
}

fn instead(what: &str, tip: &str) -> Failure {
    Failure::new(errors::NO_SUCH_VERB, format!("{what} has no counterpart here"))
        .why("docs/compat.md lists what is understood")
        .tip(tip)
}

/// Reads a command with so many words.
fn said(spoken: &Spoken, words: &[String], n: usize, session: &Session) -> Result<Option<Said>> {
    let Some(said) = read(spoken, words, session)? else { return Ok(None) };
    say_ignored(&said, session);
    if said.words.len() != n {
        let what = format!("{} takes {n} words: {}", spoken.name, spoken.words);
        return Err(Failure::new(errors::USAGE, what));
    }
    Ok(Some(said))
}

fn reserve(words: &[String], session: &Session) -> Result {
    let (word, rest) = below("gctl reserve", words, &["create", "list", "get", "cancel"])?;
    match word {
        "create" => {
            let Some(said) = said(&CREATE, rest, 0, session)? else { return Ok(Exit::OK) };
            let mut words = vec!["reserve".to_owned()];
            for (theirs, ours) in [
                ("gpu-spec", "devices"),
                ("gpus", "gpus"),
                ("user", "user"),
                ("start", "from"),
                ("duration", "for"),
            ] {
                words.extend(said.value(theirs).map(|value| format!("--{ours}={value}")));
            }
            gpool(&words, session)
        }
        "list" | "get" => {
            let (spoken, n) = if word == "get" { (&GET, 1) } else { (&LIST, 0) };
            let Some(_) = said(spoken, rest, n, session)? else { return Ok(Exit::OK) };
            gpool_line(&["reservations"], session)
        }
        _ => {
            let Some(said) = said(&CANCEL, rest, 1, session)? else { return Ok(Exit::OK) };
            gpool_line(&["reserve", "cancel", &said.words[0]], session)
        }
    }
}
