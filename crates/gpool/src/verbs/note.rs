//! `gpool note`: writes something beside a job.

use clap::Args;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::args::values::{References, note_alone, references};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;
use gpool_wire::{JobCreate, JobPatch};

use super::edit::apply;

/// Write something beside a job
#[derive(Debug, Clone, Args)]
pub struct NoteArgs {
    /// Jobs, as for the other verbs
    #[arg(value_name = "JOB", value_parser = references)]
    jobs: References,
    /// What to write; an empty one removes what is there
    #[arg(value_name = "TEXT", value_parser = note_alone)]
    text: String,
}

/// Runs it.
///
/// # Errors
/// There is no such job, or the server refuses.
pub fn run(args: NoteArgs, session: &Session) -> Result {
    let patch = JobPatch::from(JobCreate { note: Some(args.text), ..JobCreate::default() });
    apply(&Jobs { jobs: vec![args.jobs], user: None }, &patch, session)
}
