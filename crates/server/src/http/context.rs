//! What a job inherits from its caller, stored where no record, journal, answer or log can show
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::agent::LaunchContext;
use gpool_model::job::BlobId;
use gpool_model::{NewJob, Refusal};
use gpool_store::Blobs;
use gpool_wire::CheckedJob;

use super::asker::Limit;
use crate::handle::internal;

/// Stores the context and script of a job; gives it after the job that prepares it. Waits for the
/// disk.
pub(crate) fn store(
    blobs: &Blobs,
    mut checked: CheckedJob,
    limits: &[Limit],
) -> Result<Vec<NewJob>, Refusal> {
    store_values(blobs, &mut checked)?;
    let context = store_context(blobs, &checked.environment, checked.umask, limits)?;
    let script = match &checked.script {
        Some(script) => Some(put(blobs, &script.bytes)?),
        None => None,
    };
    Ok(checked.into_new_jobs(context, script))
}

/// Stores what the elements of an array are given.
pub(crate) fn store_values(blobs: &Blobs, checked: &mut CheckedJob) -> Result<(), Refusal> {
    if let Some(values) = &checked.values {
        let blob = put(blobs, &serde_json::to_vec(values).map_err(internal)?)?;
        checked.name_values(blob);
    }
    Ok(())
}

/// Stores what a job inherits. Waits for the disk, unless the same was stored before.
pub(crate) fn store_context(
    blobs: &Blobs,
    environment: &BTreeMap<Vec<u8>, Vec<u8>>,
    umask: Option<u32>,
    limits: &[Limit],
) -> Result<BlobId, Refusal> {
    let entries = environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    let context = LaunchContext { environment: entries.collect(), limits: limits.to_vec(), umask };
    put(blobs, &serde_json::to_vec(&context).map_err(internal)?)
}

/// Stores bytes.
pub(crate) fn put(blobs: &Blobs, bytes: &[u8]) -> Result<BlobId, Refusal> {
    match blobs.put(bytes) {
        Ok(id) => Ok(BlobId(Arc::from(id.as_str()))),
        Err(error) => Err(Refusal::StorageFull { why: error.to_string() }),
    }
}

/// A job that is only asked about, so that nothing needs to be stored; after the job that prepares
/// it.
pub(crate) fn not_stored(mut checked: CheckedJob) -> Vec<NewJob> {
    checked.name_values(nowhere());
    let script = checked.script.as_ref().map(|_| nowhere());
    checked.into_new_jobs(nowhere(), script)
}

/// One job of many that is only asked about.
pub(crate) fn one_not_stored(mut checked: CheckedJob) -> NewJob {
    checked.name_values(nowhere());
    let script = checked.script.as_ref().map(|_| nowhere());
    checked.into_new_job(nowhere(), script)
}

fn nowhere() -> BlobId {
    BlobId(Arc::from(""))
}
