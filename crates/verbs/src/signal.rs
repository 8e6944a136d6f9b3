//! `gpool signal`: sends a signal to the processes of running jobs.

use clap::Args;
use gpool_cli::act::on_jobs_saying;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_model::{JobVerb, SignalTo};
use gpool_wire::{Problem, Quantity};

#[derive(Debug, Clone, Args)]
pub struct SignalArgs {
    /// Name or number of the signal, e.g. USR1, SIGUSR1 or 10
    #[arg(value_name = "SIGNAL")]
    signal: String,
    #[command(flatten)]
    jobs: Jobs,
    /// Processes that get it: all of the job, its program (script) alone, or those of srun
    #[arg(long, value_name = "WHICH", default_value = "job")]
    #[arg(value_parser = ["job", "program", "steps"], hide_possible_values = true)]
    to: String,
    /// Do not ask before signalling jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs the verb.
pub fn run(args: &SignalArgs, session: &Session) -> Result {
    let signal = check(&args.signal)?;
    let to = SignalTo::named(&args.to).unwrap_or_default();
    // The signal may end a job later, so its state now says nothing.
    let sent = match gpool_wire::signal::name(signal) {
        Some(name) => format!("was sent SIG{name}"),
        None => format!("was sent signal {signal}"),
    };
    let verb = JobVerb::Signal { signal, to };
    on_jobs_saying(&args.jobs, verb, &|_| sent.clone(), args.yes, session)
}

/// Reads a signal before jobs are looked up.
pub fn check(text: &str) -> Result<i32> {
    let number = gpool_wire::signal::number(&Quantity::from(text));
    number.map_err(|refusal| Failure::from(Problem::from(&refusal)))
}
