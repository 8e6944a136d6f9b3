//! `gctl`: changes settings of the scheduler.

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Ignored, Instead};
use gpool_cli::foreign::flag::Takes::Value;
use gpool_cli::foreign::flag::{Flag, Spoken, row};
use gpool_cli::session::Session;

use super::{completion, flags_behind, gctl_quota, gctl_reserve};
use crate::shim::{below, gpool_line, read_words};

static PROCESS: &[Flag] = &[
    row("gpu", '\0', Value, Ignored, "a process is ignored on all GPUs"),
    row(
        "pid",
        '\0',
        Value,
        Instead,
        "gpool down && gpool up --ignore-processes PID; jobs keep running",
    ),
];

macro_rules! spoken {
    ($name:ident, $text:literal, $about:literal, $flags:expr, $words:literal) => {
        static $name: Spoken = Spoken { name: $text, about: $about, flags: $flags, words: $words };
    };
}

spoken!(SET_GPUS, "gctl set-gpus", "Set the GPUs that new jobs may use", &[], "0,2 | 0-2 | all");
spoken!(SHOW_GPUS, "gctl show-gpus", "List GPUs", &[], "");
spoken!(
    OF_PROCESS,
    "gctl gpu-process",
    "Use instead: gpool down && gpool up --ignore-processes PID; jobs keep running",
    &[PROCESS],
    "ignore | unignore | list"
);
spoken!(
    SET_LIMIT,
    "gctl set-limit",
    "Set the number of elements of an array that run at once",
    &[],
    "JOB N"
);

pub const SPOKEN: &[&Spoken] = &[
    &SET_GPUS,
    &SHOW_GPUS,
    &OF_PROCESS,
    &SET_LIMIT,
    &gctl_reserve::CREATE,
    &gctl_reserve::LIST,
    &gctl_reserve::GET,
    &gctl_reserve::CANCEL,
    &gctl_quota::LIST,
    &gctl_quota::SET,
    &gctl_quota::REMOVE,
];

const BELOW: [&str; 14] = [
    "up",
    "down",
    "status",
    "info",
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

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let words = &flags_behind(words, &BELOW, &["--config"]);
    let (word, rest) = below("gctl", words, &BELOW)?;
    match word {
        "set-gpus" => {
            let Some(args) = read_words(&SET_GPUS, rest, 1, session)? else { return Ok(Exit::OK) };
            gpool_line(&["gpus", "allow", &args.words[0]], session)
        }
        "show-gpus" => {
            let Some(_) = read_words(&SHOW_GPUS, rest, 0, session)? else { return Ok(Exit::OK) };
            gpool_line(&["gpus"], session)
        }
        "set-limit" => {
            let Some(args) = read_words(&SET_LIMIT, rest, 2, session)? else { return Ok(Exit::OK) };
            set_limit(&args.words[0], &args.words[1], session)
        }
        "gpu-process" => Err(instead(
            "gctl gpu-process",
            "gpool down && gpool up --ignore-processes PID; jobs keep running",
            "ignore_processes = [\"PROGRAM\"] in gpool.toml, to ignore it for good",
        )),
        "quota" => gctl_quota::run(rest, session),
        "reserve" => gctl_reserve::run(rest, session),
        "up" | "down" | "status" => {
            Err(instead(&format!("gctl {word}"), &format!("gflowd {word}"), "gpool status"))
        }
        "info" => Err(instead("gctl info", "ginfo", "gpool gpus")),
        "completion" => completion(rest, session),
        _ => super::below_help("gctl", word, SPOKEN, session),
    }
}

/// Limits the running elements of an array. Jobs that were submitted one by one have no common
/// limit.
fn set_limit(jobs: &str, limit: &str, session: &Session) -> Result {
    let client = session.client()?;
    for id in jobs.split(',').filter(|id| id.parse::<u64>().is_ok()) {
        if client.job(id)?.array.is_none() {
            let what = format!("gctl set-limit: job {id} is not an array");
            return Err(Failure::new(errors::INVALID, what)
                .tip(format!("gbatch --array 1-10 --max-concurrent {limit} …   (as one array)"))
                .tip(format!("gpool project edit PROJECT --jobs-limit {limit}")));
        }
    }
    gpool_line(&["edit", jobs, &format!("--max-parallel={limit}")], session)
}

fn instead(what: &str, tip: &str, or: &str) -> Failure {
    Failure::new(errors::NO_SUCH_VERB, format!("gpool has nothing like {what}"))
        .why("gpool help compat lists the supported commands")
        .tip(tip)
        .tip(or)
}
