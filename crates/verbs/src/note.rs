//! `gpool note`: sets the note of a job.

use clap::Args;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::args::values::{References, note_alone, references};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;
use gpool_wire::{JobCreate, JobPatch};

use super::edit::apply;

#[derive(Debug, Clone, Args)]
pub struct NoteArgs {
    /// Jobs to change, e.g. 1842 or 1842,1850
    #[arg(value_name = "JOB", value_parser = references)]
    jobs: References,
    /// Text of the note; '' removes it
    #[arg(value_name = "TEXT", value_parser = note_alone)]
    text: String,
}

/// Runs the verb.
pub fn run(args: NoteArgs, session: &Session) -> Result {
    let patch = JobPatch::from(JobCreate { note: Some(args.text), ..JobCreate::default() });
    apply(&Jobs { jobs: vec![args.jobs], user: None }, &patch, session)
}
