//! Removes the output of jobs that ended longer ago than it is to be kept: the folders `jobs/ID`
//! below the state folder, with what the job left in them. Files that users named stay.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gpool_model::{JobId, Millis, Phase, Refusal, Timestamp};

use crate::clock::now;
use crate::handle::CoreHandle;

/// Between two looks for output that is due.
const LOOK: Duration = Duration::from_secs(3600);
/// How many jobs have their output removed in one batch.
const AT_ONCE: usize = 500;
/// Between two lots, so that the disk and the archive serve others too.
const PAUSE: Duration = Duration::from_millis(200);

/// Until when the output of a job is kept, if it has ended and output is not kept forever.
pub(crate) fn kept_until(phase: &Phase, keep: Option<Millis>) -> Option<Timestamp> {
    match phase {
        Phase::Ended(end) => Some(end.ended_at.after(keep?)),
        _ => None,
    }
}

/// Removes output as it becomes due, for as long as the server runs.
pub(crate) async fn remove_old(handle: CoreHandle) {
    let Some(keep) = handle.shared.keep_output else { return };
    loop {
        match remove_due(&handle, keep).await {
            Ok(0) => {}
            Ok(n_jobs) => tracing::info!(n_jobs, %keep, "removed output of ended jobs"),
            Err(refusal) => tracing::warn!(?refusal, "can't remove old output"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

pub(crate) async fn remove_due(handle: &CoreHandle, keep: Millis) -> Result<u64, Refusal> {
    let state_dir = handle.info().state_dir.clone();
    let age = Duration::from_millis(keep.get());
    let find = move || untouched(&state_dir, age);
    let found = tokio::task::spawn_blocking(find).await.unwrap_or_default();
    let mut n_removed = 0;
    for lot in found.chunks(AT_ONCE) {
        let ids: Vec<JobId> = lot.iter().map(|(id, _)| *id).collect();
        let lives = move |view: &crate::View<'_>| -> Vec<bool> {
            ids.iter().map(|id| view.world.is_live(*id)).collect()
        };
        let lives = handle.query(lives).await?;
        for ((id, folder), lives) in lot.iter().zip(lives) {
            if lives || !is_due(handle, *id, keep).await? {
                continue;
            }
            let folder = folder.clone();
            let remove = move || remove(&folder);
            n_removed += u64::from(tokio::task::spawn_blocking(remove).await.unwrap_or(false));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(n_removed)
}

/// Whether a job that does not live ended long enough ago. A job that no store knows was submitted
/// after a backup that was restored: its folder was not touched for as long, which is enough.
async fn is_due(handle: &CoreHandle, id: JobId, keep: Millis) -> Result<bool, Refusal> {
    let ended = handle.archived(id).await?;
    let until = ended.and_then(|ended| kept_until(&ended.job.phase, Some(keep)));
    Ok(until.is_none_or(|until| until <= now()))
}

/// The folders of jobs that did not change for that time. The end of a job changes its folder.
pub fn untouched(state_dir: &Path, age: Duration) -> Vec<(JobId, PathBuf)> {
    let Some(before) = SystemTime::now().checked_sub(age) else { return Vec::new() };
    let nodes = std::fs::read_dir(state_dir.join("nodes")).into_iter().flatten().flatten();
    let folders = nodes.map(|node| node.path()).chain([state_dir.to_owned()]);
    let jobs = folders.flat_map(|folder| std::fs::read_dir(folder.join("jobs")));
    let found = jobs.flatten().flatten().filter_map(|entry| {
        let id: JobId = entry.file_name().to_str()?.parse().ok()?;
        let about = entry.metadata().ok().filter(std::fs::Metadata::is_dir)?;
        (about.modified().ok()? < before).then(|| (id, entry.path()))
    });
    let mut found: Vec<(JobId, PathBuf)> = found.collect();
    found.sort_unstable();
    found
}

/// Removes a folder whose content users may have chosen: links in it are removed, not followed.
pub fn remove(folder: &Path) -> bool {
    match std::fs::remove_dir_all(folder) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "can't remove output");
            false
        }
    }
}
