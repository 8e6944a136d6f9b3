//! `gpool signal`: sends a signal to the processes of running jobs.

use clap::Args;
use gpool_wire::catalogue;

use super::act::on_jobs;
use crate::args::jobs::Jobs;
use crate::failure::{Failure, Result};
use crate::render::words::SIGNALS;
use crate::session::Session;

/// Send a signal to the processes of running jobs
#[derive(Debug, Clone, Args)]
pub struct SignalArgs {
    /// Name or number: USR1, SIGUSR1, 10
    #[arg(value_name = "SIGNAL")]
    signal: String,
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before touching jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs it.
///
/// # Errors
/// There is no such signal, there are no such jobs, or the server refuses.
pub fn run(args: &SignalArgs, session: &Session) -> Result {
    let signal = check(&args.signal)?;
    on_jobs(&args.jobs, "signal", args.yes, session, |client, ids| client.signal(ids, &signal))
}

/// A signal's name without `SIG`, or its number.
fn check(text: &str) -> Result<String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if SIGNALS.iter().any(|(known, _)| *known == name) {
        return Ok(name.to_owned());
    }
    // Real-time signals end at 64.
    if name.parse::<u32>().is_ok_and(|number| (1..=64).contains(&number)) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
    let failure = Failure::new(catalogue::INVALID, format!("{text:?} is no signal"))
        .why(format!("there are {}, and numbers to 64", names.join(", ")));
    Err(match gpool_wire::json::nearest(name, names.iter().copied()) {
        Some(near) => failure.tip(format!("gpool signal {near} JOB")),
        None => failure.tip("gpool signal USR1 JOB"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, signal) in [("usr1", "USR1"), ("SIGTERM", "TERM"), ("9", "9"), ("64", "64")] {
            assert_eq!(check(text).as_deref(), Ok(signal));
        }
        for text in ["", "0", "65", "-9", "SIG", "TREM"] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
