//! `gpool signal`: sends a signal to the processes of running jobs.

use clap::Args;
use gpool_cli::act::on_jobs;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_model::JobVerb;
use gpool_wire::{Problem, Written};

/// Send a signal to the processes of running jobs
#[derive(Debug, Clone, Args)]
pub struct SignalArgs {
    /// Name or number of the signal: USR1, SIGUSR1, 10
    #[arg(value_name = "SIGNAL")]
    signal: String,
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before signalling jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs the verb.
///
/// # Errors
/// There is no such signal, there are no such jobs, or the server refuses.
pub fn run(args: &SignalArgs, session: &Session) -> Result {
    let signal = check(&args.signal)?;
    on_jobs(&args.jobs, JobVerb::Signal { signal }, args.yes, session)
}

/// Reads a signal before jobs are looked up.
fn check(text: &str) -> Result<i32> {
    let number = gpool_wire::signal::number(&Written::from(text));
    number.map_err(|refusal| Failure::from(Problem::from(&refusal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, signal) in [("usr1", 10), ("SIGTERM", 15), ("9", 9), ("64", 64)] {
            assert_eq!(check(text), Ok(signal));
        }
        for text in ["", "0", "65", "-9", "SIG", "TREM"] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
