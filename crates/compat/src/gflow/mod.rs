//! gflow: its commands, and the `# GFLOW` lines of scripts.

use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::Spoken;
use gpool_cli::foreign::gflow::flags;
use gpool_cli::session::Session;

use crate::shim::{Family, Shim, gpool_line, print};

pub(crate) mod gbatch;
mod gcancel;
mod gctl;
mod gctl_quota;
mod gctl_reserve;
mod gflowd;
mod ginfo;
mod gjob;
mod gqueue;
mod grun;
mod gstats;
mod job_view;
mod redo;

/// Submits a script or a command.
pub const GBATCH: Shim = Shim {
    name: "gbatch",
    family: Family::Gflow,
    run: gbatch::run,
    spoken: &[&flags::GBATCH, &gbatch::NEW],
};
/// Runs a command as a job and shows its output.
pub const GRUN: Shim =
    Shim { name: "grun", family: Family::Gflow, run: grun::run, spoken: &[&flags::GRUN] };
/// Lists jobs.
pub const GQUEUE: Shim =
    Shim { name: "gqueue", family: Family::Gflow, run: gqueue::run, spoken: &[&gqueue::SPOKEN] };
/// Ends jobs.
pub const GCANCEL: Shim =
    Shim { name: "gcancel", family: Family::Gflow, run: gcancel::run, spoken: &[&gcancel::SPOKEN] };
/// Lists GPUs.
pub const GINFO: Shim =
    Shim { name: "ginfo", family: Family::Gflow, run: ginfo::run, spoken: &[&ginfo::SPOKEN] };
/// Shows and changes jobs.
pub const GJOB: Shim =
    Shim { name: "gjob", family: Family::Gflow, run: gjob::run, spoken: gjob::SPOKEN };
/// Changes settings of the scheduler.
pub const GCTL: Shim =
    Shim { name: "gctl", family: Family::Gflow, run: gctl::run, spoken: gctl::SPOKEN };
/// Starts and stops the server.
pub const GFLOWD: Shim =
    Shim { name: "gflowd", family: Family::Gflow, run: gflowd::run, spoken: gflowd::SPOKEN };
/// Counts jobs.
pub const GSTATS: Shim =
    Shim { name: "gstats", family: Family::Gflow, run: gstats::run, spoken: &[&gstats::SPOKEN] };

/// Prints a completion script for `COMMAND completion SHELL`.
fn completion(words: &[String], session: &Session) -> Result {
    let shell = words.first().map_or("bash", String::as_str);
    gpool_line(&["completion", shell], session)
}

/// Moves flags from before a subcommand to after it: `gflowd -vv up` becomes `gflowd up -vv`. The
/// flags in `with_value` have a value.
fn flags_behind(words: &[String], known: &[&str], with_value: &[&str]) -> Vec<String> {
    let mut at = 0;
    while words.get(at).is_some_and(|word| word.starts_with('-') && !known.contains(&&**word)) {
        at += if with_value.contains(&words[at].as_str()) { 2 } else { 1 };
    }
    let Some(verb) = words.get(at).filter(|_| at > 0) else { return words.to_vec() };
    let rest = words[..at].iter().chain(&words[at + 1..]);
    std::iter::once(verb).chain(rest).cloned().collect()
}

/// Prints the version, or the subcommands, one line each.
fn below_help(name: &str, word: &str, spoken: &[&Spoken], session: &Session) -> Result {
    if word != "--help" {
        let version = env!("CARGO_PKG_VERSION");
        return print(&format!("gpool {version}, called as {name}\n"), session);
    }
    let lines = spoken.iter().map(|spoken| format!("  {:<22} {}\n", spoken.name, spoken.about));
    print(&format!("{name}, as a command of gpool:\n{}", lines.collect::<String>()), session)
}
