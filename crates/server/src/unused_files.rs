//! Removes the objects that neither a job, nor results, nor a recent upload needs, some time after
//! their last use.

use std::collections::HashSet;
use std::time::Duration;

use gpool_files::ObjectId;
use gpool_model::Refusal;

use crate::fault::internal;
use crate::handle::CoreHandle;
use crate::view::View;

/// Between two looks for objects that no job needs.
const LOOK: Duration = Duration::from_secs(3600);

/// Removes objects that no job needs, for as long as the server runs.
pub async fn look_after(handle: CoreHandle) {
    loop {
        match look(&handle).await {
            Ok(0) => {}
            Ok(n_removed) => tracing::info!(n_removed, "removed files that no job needs"),
            Err(refusal) => tracing::warn!(?refusal, "can't remove files that no job needs"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Removes results that are due, and objects that neither a job, nor results, nor a recent upload
/// needs. Returns the number of removed objects.
///
/// # Errors
/// The server is stopping, or the disk refuses.
pub async fn look(handle: &CoreHandle) -> Result<usize, Refusal> {
    let uploads = |view: &View<'_>| -> Vec<(u32, String)> {
        let uploads = view.world.jobs().values().filter_map(|row| {
            let upload = row.spec.files.upload.as_deref()?;
            Some((row.spec.owner.uid, upload.to_owned()))
        });
        uploads.collect()
    };
    let uploads = handle.query(uploads).await?;
    let settings = &handle.shared.settings;
    let keep_results = settings.keep_output.map(|keep| Duration::from_millis(keep.get()));
    // A job may be retried for this time, and an upload be used.
    let keep = Duration::from_millis(settings.keep_environment.get());
    let handle = handle.clone();
    let work = move || {
        let files = handle.files();
        let mut manifests = files.results.sweep(keep_results).map_err(internal)?;
        let of_uploads = uploads.iter().filter_map(|(uid, it)| Some((*uid, it.parse().ok()?)));
        let of_uploads: HashSet<(u32, ObjectId)> = of_uploads.collect();
        let mut in_use = HashSet::new();
        for (uid, manifest) in &of_uploads {
            // The time of the last use, for jobs that end until the next look.
            if let Ok(members) = files.objects.members(*uid, manifest) {
                drop(files.objects.missing(*uid, members.iter().copied()));
            }
        }
        manifests.extend(of_uploads);
        for (uid, manifest) in manifests {
            let members = files.objects.members(uid, &manifest);
            in_use.extend(members.iter().flat_map(|it| it.iter()).map(|id| (uid, *id)));
        }
        files.objects.sweep(&in_use, keep).map_err(internal)
    };
    tokio::task::spawn_blocking(work).await.map_err(internal)?
}
