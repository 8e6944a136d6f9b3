//! The environments, scripts and array values of jobs, which are files of the store: removed some
//! time after the end of the last job that has them, and missed where a job still needs them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use gpool_model::job::{JobSpec, JobState};
use gpool_model::{Command, JobId, Lack, Millis, NodeLack, Phase, Refusal, Timestamp};
use gpool_store::BlobId;

use crate::fault::internal;
use crate::handle::{CoreHandle, server_itself};
use crate::view::View;

/// How long they are kept after the end of a job, unless `gpool.toml` says otherwise.
pub const KEPT_USUALLY: Millis = Millis::from_hours(7 * 24);
/// Between two looks.
const LOOK: Duration = Duration::from_secs(3600);
/// A look notes the use of a file, so the note may be as old as the time between two, and a little
/// more: nothing goes before its time.
const SLACK: Duration = Duration::from_secs(2 * 3600);
/// Jobs that are looked at in one step of the core.
const AT_ONCE: usize = 10_000;

fn blobs_of(spec: &JobSpec) -> impl Iterator<Item = BlobId> + '_ {
    spec.blobs().filter_map(|blob| blob.0.parse().ok())
}

/// Until when a job that has ended can be run again at least.
pub fn kept_until(phase: &Phase, keep: Millis) -> Option<Timestamp> {
    match phase {
        Phase::Ended(end) => Some(end.ended_at.after(keep)),
        _ => None,
    }
}

/// Whether all files of a job are there.
pub fn are_there(handle: &CoreHandle, spec: &JobSpec) -> bool {
    blobs_of(spec).all(|blob| handle.blobs().has(&blob)) && handle.files().has_upload(spec)
}

/// Looks after the files for as long as the server runs.
pub async fn look_after(handle: CoreHandle) {
    loop {
        let keep = Duration::from_millis(handle.shared.settings.keep_environment.get());
        match look(&handle, keep + SLACK).await {
            Ok(0) => {}
            Ok(n_removed) => {
                tracing::info!(n_removed, "removed environments and scripts that no job uses")
            }
            Err(refusal) => {
                tracing::warn!(?refusal, "can't remove unused environments and scripts")
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Removes the files that were last used longer ago than `keep`, and holds waiting jobs that lack
/// a file. Returns the number of removed files.
pub async fn look(handle: &CoreHandle, keep: Duration) -> Result<usize, Refusal> {
    let mut in_use = HashSet::new();
    let each = |_, spec: &JobSpec, _, found: &mut HashSet<BlobId>| found.extend(blobs_of(spec));
    each_lot(handle, each, |found| in_use.extend(found)).await?;
    let files = handle.clone();
    let sweep = move || files.blobs().sweep(&in_use, keep).map_err(internal);
    let swept = tokio::task::spawn_blocking(sweep).await.map_err(internal)??;
    miss(handle, swept.missing).await?;
    Ok(swept.n_removed)
}

/// Calls `each` for every job that has not ended, some at a time.
async fn each_lot<T: Default + Send + 'static>(
    handle: &CoreHandle,
    each: impl Fn(JobId, &JobSpec, JobState, &mut T) + Clone + Send + 'static,
    mut take: impl FnMut(T),
) -> Result<(), Refusal> {
    let mut after = Bound::Unbounded;
    loop {
        let (each, from) = (each.clone(), after);
        let lot = move |view: &View<'_>| {
            let (mut found, mut last) = (T::default(), None);
            let rows = view.world.jobs().range((from, Bound::Unbounded)).take(AT_ONCE);
            for (id, row) in rows {
                each(*id, &row.spec, row.job.phase.state(), &mut found);
                last = Some(*id);
            }
            (found, last)
        };
        let (found, last) = handle.query(lot).await?;
        take(found);
        match last {
            Some(last) => after = Bound::Excluded(last),
            None => return Ok(()),
        }
    }
}

/// Holds the jobs that wait and need files that are missing, and keeps their names.
async fn miss(handle: &CoreHandle, missing: HashSet<BlobId>) -> Result<(), Refusal> {
    let mut lacking = BTreeMap::new();
    if !missing.is_empty() {
        let missing = Arc::new(missing);
        let each = move |id, spec: &JobSpec, state, found: &mut Vec<(JobId, BlobId)>| {
            let first = blobs_of(spec).find(|blob| missing.contains(blob));
            found.extend(first.filter(|_| state <= JobState::Pending).map(|blob| (id, blob)));
        };
        each_lot(handle, each, |found| lacking.extend(found)).await?;
    }
    let mut by_file: HashMap<&BlobId, Vec<JobId>> = HashMap::new();
    for (job, blob) in &lacking {
        by_file.entry(blob).or_default().push(*job);
    }
    if !lacking.is_empty() {
        let jobs = names(lacking.keys());
        tracing::error!(
            n_jobs = lacking.len(),
            jobs,
            "environments or scripts of jobs are missing"
        );
    }
    let admin = server_itself(handle);
    for (blob, jobs) in by_file {
        let Some(node) = handle.info().nodes.first().cloned() else { break };
        let path = handle.blobs().path(blob).display().to_string();
        let command =
            Command::HoldMissing { jobs, missing: NodeLack { node, lack: Lack::Stored(path) } };
        handle.command(admin.clone(), command).await?;
    }
    *handle.shared.lacking.lock().unwrap_or_else(PoisonError::into_inner) = lacking;
    Ok(())
}

/// The first of many.
fn names<'a>(ids: impl ExactSizeIterator<Item = &'a JobId>) -> String {
    const NAMES_MAX: usize = 20;
    let n_more = ids.len().saturating_sub(NAMES_MAX);
    let mut names: Vec<String> = ids.take(NAMES_MAX).map(ToString::to_string).collect();
    if n_more > 0 {
        names.push(format!("{n_more} more"));
    }
    names.join(", ")
}

/// The jobs that lack a file, in words; `None` if there are none.
pub async fn lacking(handle: &CoreHandle) -> Result<Option<String>, Refusal> {
    let known = handle.shared.lacking.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if known.is_empty() {
        return Ok(None);
    }
    let live = move |view: &View<'_>| -> BTreeMap<JobId, BlobId> {
        known.into_iter().filter(|(id, _)| view.world.is_live(*id)).collect()
    };
    let (mut lacking, files) = (handle.query(live).await?, handle.clone());
    let look = move || {
        // They may be back.
        let mut is_there = HashMap::<BlobId, bool>::new();
        lacking.retain(|_, blob| {
            !*is_there.entry(blob.clone()).or_insert_with(|| files.blobs().has(blob))
        });
        lacking
    };
    let lacking = tokio::task::spawn_blocking(look).await.map_err(internal)?;
    let Some(first) = lacking.values().next() else { return Ok(None) };
    let folder: PathBuf = handle.info().state_dir.join("blobs");
    let (n, path) = (lacking.len(), handle.blobs().path(first));
    let jobs = if n == 1 { "1 job lacks its" } else { &format!("{n} jobs lack their") };
    Ok(Some(format!(
        "{jobs} environment or script and can't run: {}; {} is missing: stop the server, restore \
         {} from a backup, start the server and release the jobs; or cancel them",
        names(lacking.keys()),
        path.display(),
        folder.display(),
    )))
}
