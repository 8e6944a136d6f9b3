//! `gpool rsh`, a remote shell into the tasks of the job for programs that start their processes by
//! one, such as Open MPI's `mpirun`. It needs no key and no daemon on the nodes.

use clap::Args;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;

use crate::StepJob;

/// Run a command line on another node of the job; launchers of MPI call this
#[derive(Debug, Clone, Args)]
pub struct RshArgs {
    /// Node of the job
    node: String,
    /// Command line for sh on that node
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    words: Vec<String>,
}

/// Runs the verb.
///
/// # Errors
/// This process is in no job, or the job has no task on the node.
pub fn run(args: &RshArgs, session: &Session) -> Result {
    let Some(job) = StepJob::here() else {
        let what = "gpool rsh works only in a job with several tasks";
        return Err(Failure::new(errors::USAGE, what).tip("gpool exec JOB -- COMMAND"));
    };
    let Some(rank) = job.rank_on(&args.node) else {
        let what = format!("job {} has no task on node {}", job.id(), args.node);
        return Err(Failure::new(errors::USAGE, what).why(format!("its nodes: {}", job.nodes())));
    };
    // As with other remote shells, the words are one line for a shell.
    let (rank, line) = (rank.to_string(), args.words.join(" "));
    let words = ["exec", "--no-pty", "--rank", &rank, job.id(), "--", "sh", "-c", &line];
    session.verb(&words.map(str::to_owned))
}
