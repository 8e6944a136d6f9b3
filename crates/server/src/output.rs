//! Removes the output of jobs that ended longer ago than it is to be kept: their folders on the
//! nodes, with everything in them. Files that users named stay.

use std::sync::Arc;
use std::time::Duration;

use gpool_model::{JobId, Millis, Phase, Refusal, Timestamp};
use gpool_protocol::{FileAnswer, FileQuestion};

use crate::View;
use crate::agents::AgentPeer;
use crate::clock::now;
use crate::handle::CoreHandle;

/// Between two looks for output that is due.
const LOOK: Duration = Duration::from_secs(3600);
/// How many jobs have their output removed in one batch.
const AT_ONCE: usize = 500;
/// Between two batches, so that the disk and the archive serve others too.
const PAUSE: Duration = Duration::from_millis(200);

/// Until when the output of a job is kept, if it has ended and output is not kept forever.
pub fn kept_until(phase: &Phase, keep: Option<Millis>) -> Option<Timestamp> {
    match phase {
        Phase::Ended(end) => Some(end.ended_at.after(keep?)),
        _ => None,
    }
}

/// Removes output as it becomes due, for as long as the server runs.
pub async fn remove_old(handle: CoreHandle) {
    let Some(keep) = handle.shared.settings.keep_output else { return };
    loop {
        match remove_expired(&handle, keep).await {
            Ok(0) => {}
            Ok(n_jobs) => tracing::info!(n_jobs, %keep, "removed output of ended jobs"),
            Err(refusal) => tracing::warn!(?refusal, "can't remove old output"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Removes the output that is due on all nodes; returns for how many jobs.
pub async fn remove_expired(handle: &CoreHandle, keep: Millis) -> Result<u64, Refusal> {
    let mut n_removed = 0;
    for agent in handle.agents() {
        let before = Timestamp::new(now().get().saturating_sub(keep.get()));
        let jobs = match agent.files(FileQuestion::OldJobs { before }).await {
            Some(FileAnswer::OldJobs(jobs)) => jobs,
            _ => {
                tracing::warn!(node = %agent.node(), "the agent did not list old output in time");
                continue;
            }
        };
        for batch in jobs.chunks(AT_ONCE) {
            n_removed += remove(handle, &agent, batch, keep).await?;
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(n_removed)
}

/// Removes the output of those jobs that ended long enough ago.
async fn remove(
    handle: &CoreHandle,
    agent: &Arc<AgentPeer>,
    jobs: &[JobId],
    keep: Millis,
) -> Result<u64, Refusal> {
    let ids = jobs.to_vec();
    let ended = move |view: &View<'_>| -> Vec<JobId> {
        ids.into_iter().filter(|id| !view.world.is_live(*id)).collect()
    };
    let mut due = Vec::new();
    for id in handle.query(ended).await? {
        if is_due(handle, id, keep).await? {
            due.push(id);
        }
    }
    if due.is_empty() {
        return Ok(0);
    }
    match agent.files(FileQuestion::RemoveJobs { jobs: due }).await {
        Some(FileAnswer::RemovedJobs(n_removed)) => Ok(n_removed),
        _ => {
            tracing::warn!(node = %agent.node(), "the agent did not remove old output in time");
            Ok(0)
        }
    }
}

/// Whether a job that does not live ended long enough ago. A job that no store knows was submitted
/// after a backup that was restored: its folder was not touched for as long, which is enough.
async fn is_due(handle: &CoreHandle, id: JobId, keep: Millis) -> Result<bool, Refusal> {
    let ended = handle.archived(id).await?;
    let until = ended.and_then(|ended| kept_until(&ended.job.phase, Some(keep)));
    Ok(until.is_none_or(|until| until <= now()))
}
