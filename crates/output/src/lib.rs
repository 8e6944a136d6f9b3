//! The output of tasks, in the state folders of their agents. An agent reads it for its server,
//! and `gpool logs` where no server answers.
//!
//! - [`Output`] is that of one task: one stream, or both in the order of their writing.
//! - [`JobFiles`] answers a server's questions about all tasks of some state folders.
//! - [`run_folder`] and [`file_name`] are the paths. Users can write to the folders of their own
//!   runs, so no path there is trusted.

#![forbid(unsafe_code)]

mod files;
mod jobs;
mod lines;
mod output;

use std::path::PathBuf;

use gpool_model::id::{JobId, TaskId};

pub use files::JobFiles;
pub use jobs::{old_jobs, remove_job};
pub use output::Output;

/// The folder of a job below the state folder.
#[must_use]
pub fn job_folder(job: JobId) -> PathBuf {
    PathBuf::from("jobs").join(job.to_string())
}

/// The folder of one run of a job below the state folder.
#[must_use]
pub fn run_folder(task: TaskId) -> PathBuf {
    job_folder(task.job).join(task.attempt.to_string())
}

/// The name of a task's file in the folder of its run; the first task's has no rank.
#[must_use]
pub fn file_name(name: &str, task: TaskId) -> String {
    if task.rank == 0 { name.to_owned() } else { format!("{name}-{}", task.rank) }
}
