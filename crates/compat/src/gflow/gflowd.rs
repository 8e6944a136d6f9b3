//! `gflowd`: starts and stops the server.

use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::session::Session;

use super::flags_behind;
use crate::shim::{below, gpool, gpool_line, print, read, say_ignored};

static EVERYWHERE: &[Flag] = &[
    row("cleanup", '\0', Nothing, Instead, "rm gpool.toml; gpool writes to it only with init"),
    row(
        "config",
        'c',
        Value,
        Instead,
        "GPOOL_CONFIG=gpool.toml; gpool import gflow --config FILE --write gpool.toml makes one",
    ),
    row("quiet", 'q', Nothing, Ignored, "the log is STATE/server.log"),
    row("verbose", 'v', Nothing, Ignored, "the log is STATE/server.log"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

static START: &[Flag] = &[
    row("gpu-allocation-strategy", '\0', Value, Covered, "--strategy"),
    row("gpu-poll-interval-secs", '\0', Value, Ignored, "gpool checks GPUs when needed"),
    row("gpus", '\0', Value, Covered, "--gpus"),
];

const IN_FILE: &str = "gpool init, then set it in gpool.toml; or gflowd start with this flag";

static WIZARD: &[Flag] = &[
    row("advanced", '\0', Nothing, Ignored, "the file has comments"),
    row("force", '\0', Nothing, Covered, "gpool init --force"),
    row("host", '\0', Value, Ignored, "the API is a local socket"),
    row("port", '\0', Value, Ignored, "the API is a local socket"),
    row("timezone", '\0', Value, Ignored, "TZ sets it, --utc for one command"),
    row("yes", '\0', Nothing, Covered, "nothing is asked"),
];

/// The flags that gflow writes into its unit; gpool reads these settings from gpool.toml.
static UNIT: &[Flag] = &[
    row("gpu-allocation-strategy", '\0', Value, Instead, IN_FILE),
    row("gpu-poll-interval-secs", '\0', Value, Ignored, "gpool checks GPUs when needed"),
    row("gpus", '\0', Value, Instead, IN_FILE),
];

macro_rules! spoken {
    ($name:ident, $text:literal, $about:literal, $flags:expr) => {
        static $name: Spoken = Spoken { name: $text, about: $about, flags: $flags, words: "" };
    };
}

spoken!(PLAIN, "gflowd", "Start, stop and show the server of gpool", &[EVERYWHERE, START]);
spoken!(UP, "gflowd start", "Start the server of gpool (also: up)", &[EVERYWHERE, START]);
spoken!(STOP, "gflowd stop", "Stop the server; jobs keep running (also: down)", &[EVERYWHERE]);
spoken!(RESTART, "gflowd restart", "Restart the server; jobs keep running", &[EVERYWHERE, START]);
spoken!(RELOAD, "gflowd reload", "Restart the server; jobs keep running", &[EVERYWHERE, START]);
spoken!(STATUS, "gflowd status", "Show the server of gpool", &[EVERYWHERE]);
spoken!(INIT, "gflowd init", "Write a configuration of gpool", &[EVERYWHERE, UNIT, WIZARD]);
spoken!(
    SERVICE,
    "gflowd service",
    "Install or remove a systemd service: install, uninstall",
    &[EVERYWHERE, UNIT]
);

pub const SPOKEN: &[&Spoken] = &[&PLAIN, &INIT, &UP, &STOP, &RESTART, &RELOAD, &STATUS, &SERVICE];

const BELOW: [&str; 10] =
    ["init", "start", "up", "stop", "down", "restart", "reload", "status", "service", "completion"];

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let words = &flags_behind(words, &BELOW, &["-c", "--config"]);
    let Some(first) = words.first().filter(|word| !word.starts_with('-')) else {
        // Without a command it runs the server in the foreground.
        return plain(words, session);
    };
    let (word, rest) = below("gflowd", words, &BELOW)?;
    let spoken = match word {
        "init" => &INIT,
        "start" | "up" => &UP,
        "stop" | "down" => &STOP,
        "restart" => &RESTART,
        "reload" => &RELOAD,
        "status" => &STATUS,
        "service" => return service(rest, session),
        _ => return gpool_line(&[first, rest.first().map_or("bash", String::as_str)], session),
    };
    let Some(args) = read(spoken, rest, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    match word {
        "init" if args.has("force") => gpool_line(&["init", "--force"], session),
        "init" => gpool_line(&["init"], session),
        "start" | "up" => gpool(&up(&args), session),
        "stop" | "down" => gpool_line(&["down"], session),
        "status" => gpool_line(&["status"], session),
        _ => {
            gpool_line(&["down"], session)?;
            gpool(&up(&args), session)
        }
    }
}

fn plain(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&PLAIN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    let mut words = up(&args);
    words.push("--foreground".to_owned());
    gpool(&words, session)
}

fn up(args: &ParsedArgs) -> Vec<String> {
    let mut words = vec!["up".to_owned()];
    words.extend(args.value("gpus").map(|gpus| format!("--gpus={gpus}")));
    words.extend(args.value("gpu-allocation-strategy").map(|how| format!("--strategy={how}")));
    words
}

fn service(words: &[String], session: &Session) -> Result {
    if words.iter().any(|word| word == "--help") {
        return print("gflowd service install | uninstall\n", session);
    }
    let (word, rest) = below("gflowd service", words, &["install", "uninstall"])?;
    let Some(args) = read(&SERVICE, rest, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    match word {
        "install" => gpool_line(&["up", "--systemd", "--now"], session),
        _ => gpool_line(&["down", "--systemd"], session),
    }
}
