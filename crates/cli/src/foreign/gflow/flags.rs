//! The flags of `gbatch`, `grun` and `# GFLOW` lines.

use crate::foreign::flag::FlagSupport::{Approximated, Covered, Ignored, Instead};
use crate::foreign::flag::Takes::{Nothing, Value};
use crate::foreign::flag::{Flag, Spoken, row};

/// The flags of `gbatch` and `# GFLOW` lines.
pub static JOB: &[Flag] = &[
    row("array", '\0', Value, Covered, "--array; the id printed is that of the whole array"),
    row("auto-close", '\0', Nothing, Ignored, "there are no tmux sessions to close"),
    row("begin", '\0', Value, Covered, "--begin; after now+ a bare number is minutes"),
    row("conda-env", 'c', Value, Covered, "--conda"),
    row("depends-on", 'd', Value, Covered, "--after").also(&["dependency"]),
    row("depends-on-all", '\0', Value, Covered, "--after"),
    row("depends-on-any", '\0', Value, Covered, "--after-one"),
    row("dry-run", '\0', Nothing, Covered, "--dry-run"),
    row("gpu-memory", '\0', Value, Covered, "--gpu-memory, with --shared; alone it is ignored")
        .also(&["max-gpu-mem", "max-gpu-memory"]),
    row("gpus", 'g', Value, Covered, "--gpus").also(&["gres"]),
    row("max-concurrent", '\0', Value, Covered, "--max-parallel"),
    row("max-retries", '\0', Value, Covered, "--retry N --retry-on fail"),
    row("memory", 'm', Value, Covered, "--mem; a bare number is MB")
        .also(&["max-mem", "max-memory"]),
    row("name", 'n', Value, Covered, "--name").also(&["job-name", "J"]),
    row("name-template", '\0', Value, Covered, "--name; {lr} is filled in for each element"),
    row("no-auto-cancel", '\0', Nothing, Covered, "--on-unmet keep"),
    row("notify-email", '\0', Value, Covered, "--notify EVENTS@mailto:…; by default at any end"),
    row(
        "notify-on",
        '\0',
        Value,
        Approximated,
        "--notify EVENTS@mailto:…; some events are ignored",
    ),
    row("param", '\0', Value, Covered, "--param; 1:5 and 0:1:0.1 are ranges"),
    row("param-file", '\0', Value, Covered, "--param-file"),
    row("priority", 'p', Value, Approximated, "--priority N-10, so that gflow's 10 is 0")
        .also(&["nice"]),
    row("project", 'P', Value, Approximated, "--project, if there is one of that name"),
    row("shared", '\0', Nothing, Covered, "--shared"),
    row("strict", '\0', Nothing, Covered, "of gpool: ignored flags become errors"),
    row("time", 't', Value, Covered, "--time; a bare number is minutes")
        .also(&["time-limit", "timelimit"]),
];

/// The flag for gflow's settings, which every command has.
pub static CONFIG: &[Flag] = &[row(
    "config",
    '\0',
    Value,
    Instead,
    "GPOOL_CONFIG=gpool.toml; gpool import gflow --config FILE --write gpool.toml makes one",
)];

/// The flags that only `gbatch` has.
pub static BATCH: &[Flag] = &[
    row("command", '\0', Value, Covered, "a command line for /bin/sh instead of words"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

pub static GBATCH: Spoken = Spoken {
    name: "gbatch",
    about: "Submit a script or a command as a job of gpool",
    flags: &[JOB, BATCH, CONFIG],
    words: "SCRIPT | COMMAND",
};

/// The flags that only `grun` has.
static ATTENDED: &[Flag] = &[
    row("no-export-env", '\0', Nothing, Covered, "--clean-env"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

pub static GRUN: Spoken = Spoken {
    name: "grun",
    about: "Run a command as a job of gpool and show its output; Ctrl-C twice cancels it",
    flags: &[JOB, ATTENDED, CONFIG],
    words: "COMMAND",
};

/// A `# GFLOW` line.
pub static DIRECTIVE: Spoken = Spoken {
    name: "# GFLOW",
    about: "A comment at the start of a script",
    flags: &[JOB],
    words: "",
};
