//! The folders of jobs below state folders, for the removal of old output.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use gpool_model::id::JobId;
use gpool_model::unit::Timestamp;

use crate::job_folder;

/// The jobs with a folder that has not changed since a time, in order. The end of a job changes its
/// folder.
#[must_use]
pub fn old_jobs(state_dirs: &[PathBuf], before: Timestamp) -> Vec<JobId> {
    let before = UNIX_EPOCH + Duration::from_millis(before.get());
    let folders = state_dirs.iter().flat_map(|dir| std::fs::read_dir(dir.join("jobs")));
    let found = folders.flatten().flatten().filter_map(|entry| {
        let job: JobId = entry.file_name().to_str()?.parse().ok()?;
        let about = entry.metadata().ok().filter(std::fs::Metadata::is_dir)?;
        (about.modified().ok()? < before).then_some(job)
    });
    let mut found: Vec<JobId> = found.collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Removes the folders of a job, whose content its user may have chosen: links in them are removed,
/// not followed. Returns whether there were any.
pub fn remove_job(state_dirs: &[PathBuf], job: JobId) -> bool {
    let folder = job_folder(job);
    let mut is_removed = false;
    for folder in state_dirs.iter().map(|dir| dir.join(&folder)) {
        match std::fs::remove_dir_all(&folder) {
            Ok(()) => is_removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "can't remove output");
            }
        }
    }
    is_removed
}
