//! gflow: what its commands and the `# GFLOW` lines of scripts are here.

use super::flag::Spoken;
use super::{Family, Shim, print};
use crate::failure::Result;
use crate::session::Session;

pub mod flags;
mod gbatch;
mod gcancel;
mod gctl;
mod gflowd;
mod ginfo;
mod gjob;
mod gqueue;
mod gstats;
mod shown;
pub mod translate;

/// Hands in a script or a command.
pub const GBATCH: Shim = Shim {
    name: "gbatch",
    family: Family::Gflow,
    run: gbatch::run,
    spoken: &[&flags::GBATCH, &gbatch::NEW],
};
/// Lists jobs.
pub const GQUEUE: Shim =
    Shim { name: "gqueue", family: Family::Gflow, run: gqueue::run, spoken: &[&gqueue::SPOKEN] };
/// Ends jobs.
pub const GCANCEL: Shim =
    Shim { name: "gcancel", family: Family::Gflow, run: gcancel::run, spoken: &[&gcancel::SPOKEN] };
/// Lists GPUs.
pub const GINFO: Shim =
    Shim { name: "ginfo", family: Family::Gflow, run: ginfo::run, spoken: &[&ginfo::SPOKEN] };
/// Looks at jobs and changes them.
pub const GJOB: Shim =
    Shim { name: "gjob", family: Family::Gflow, run: gjob::run, spoken: gjob::SPOKEN };
/// Says what the scheduler may do.
pub const GCTL: Shim =
    Shim { name: "gctl", family: Family::Gflow, run: gctl::run, spoken: gctl::SPOKEN };
/// Starts and stops the server.
pub const GFLOWD: Shim =
    Shim { name: "gflowd", family: Family::Gflow, run: gflowd::run, spoken: gflowd::SPOKEN };
/// Counts jobs.
pub const GSTATS: Shim =
    Shim { name: "gstats", family: Family::Gflow, run: gstats::run, spoken: &[&gstats::SPOKEN] };

/// What is below a command, a line each.
fn below_help(name: &str, spoken: &[&Spoken], session: &Session) -> Result {
    let lines = spoken.iter().map(|spoken| format!("  {:<22} {}\n", spoken.name, spoken.about));
    print(&format!("{name}, as a command of gpool:\n{}", lines.collect::<String>()), session)
}
