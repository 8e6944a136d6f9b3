//! `gpool note`: writes something beside a job.

use clap::Args;
use gpool_wire::JobPatch;

use super::edit::apply;
use crate::args::jobs::Jobs;
use crate::args::values::{References, note_alone, references};
use crate::failure::Result;
use crate::session::Session;

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
    let patch = JobPatch { note: Some(args.text), ..JobPatch::default() };
    apply(&Jobs { jobs: vec![args.jobs], user: None }, &patch, session)
}
