//! Tests of output in state folders.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

mod files;
mod jobs;
mod output;

use std::path::{Path, PathBuf};

use gpool_model::id::TaskId;
use gpool_output::{file_name, run_folder};

/// The user of the test.
pub fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes the folder of a task's run, and returns the path of a file in it.
pub fn file_of(state_dir: &Path, task: TaskId, name: &str) -> PathBuf {
    let folder = state_dir.join(run_folder(task));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(file_name(name, task))
}

/// Reads a task's ID.
pub fn task(text: &str) -> TaskId {
    text.parse().unwrap()
}
