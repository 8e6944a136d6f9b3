//! Storage of a job's launch context, outside all records, journal entries, answers and logs.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use gpool_model::agent::LaunchContext;
use gpool_model::job::BlobId;
use gpool_model::{Bytes, Caller, Command, NewJob, Refusal, Reply};
use gpool_store::{BlobError, PinEnd};
use gpool_wire::CheckedJob;

use super::asker::Limit;
use gpool_server::fault::{internal, refusal_of};
use gpool_server::handle::CoreHandle;
use gpool_server::view::View;

/// Files that a request is about to name in a command. The server keeps them until the answer;
/// after a refusal, it removes those that no job uses.
pub(crate) struct Files {
    handle: CoreHandle,
    /// The user that stores the files.
    uid: u32,
    pinned: HashSet<gpool_store::BlobId>,
    /// Since it was last read.
    sizes: Sizes,
    is_sent: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    /// Of all files of the request.
    pub files: u64,
    /// On the disk, of files that were not stored before.
    pub new: u64,
}

impl Files {
    pub fn new(handle: CoreHandle, uid: u32) -> Self {
        Self { handle, uid, pinned: HashSet::new(), sizes: Sizes::default(), is_sent: false }
    }

    /// Pins files that are already stored; `None` if one is missing.
    pub fn of(handle: CoreHandle, uid: u32, blobs: &[BlobId]) -> Option<Self> {
        let ids = blobs.iter().map(|blob| blob.0.parse().ok());
        let pinned = ids.collect::<Option<HashSet<_>>>()?;
        handle.blobs().pin(&pinned).ok()?;
        Some(Self { handle, uid, pinned, sizes: Sizes::default(), is_sent: false })
    }

    pub fn handle(&self) -> &CoreHandle {
        &self.handle
    }

    /// Returns the bytes of the files since the last call.
    pub fn take_sizes(&mut self) -> Sizes {
        std::mem::take(&mut self.sizes)
    }

    /// Stores bytes. Waits for the disk, unless the same bytes are already stored.
    pub fn store(&mut self, bytes: &[u8]) -> Result<BlobId, Refusal> {
        let id = self.handle.blobs().name(self.uid, bytes);
        self.store_as(id, bytes)
    }

    fn store_as(&mut self, id: gpool_store::BlobId, bytes: &[u8]) -> Result<BlobId, Refusal> {
        let (blobs, most) = (self.handle.blobs(), self.handle.limits().stored);
        let name = BlobId(Arc::from(id.as_str()));
        self.sizes.files += bytes.len() as u64;
        if self.pinned.contains(&id) {
            return Ok(name);
        }
        match blobs.store(&id, bytes, most.get()) {
            Ok(n_new) => {
                self.sizes.new += n_new;
                self.pinned.insert(id);
                Ok(name)
            }
            Err(BlobError::TooMuch { n_kept, n_more, most }) => {
                let [n_kept, n_more, most] = [n_kept, n_more, most].map(Bytes::new);
                Err(Refusal::TooMuchStored { n_kept, n_more, most })
            }
            Err(error) => Err(match self.handle.shared.storage.presence.check() {
                Err(gone) => refusal_of(&gone),
                Ok(()) => Refusal::StorageFull { why: error.to_string() },
            }),
        }
    }

    /// Stores a launch context with some variables changed. Waits for the disk.
    pub fn store_changed(
        &mut self,
        old: &BlobId,
        variables: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<BlobId, Refusal> {
        let id = old.0.parse().map_err(internal)?;
        let bytes = self.handle.blobs().get(&id).map_err(internal)?;
        let mut context = LaunchContext::read(&bytes).ok_or_else(|| {
            internal("the environment is in the format of an older version; submit the job again")
        })?;
        context.environment.retain(|(name, _)| !variables.contains_key(name));
        let added = variables.iter().map(|(name, value)| (name.clone(), value.clone()));
        context.environment.extend(added);
        self.store(&context.bytes())
    }

    /// Sends the command that names the files.
    pub async fn command(mut self, caller: Caller, command: Command) -> Result<Reply, Refusal> {
        // From here on a commit may name the files, even if the caller disconnects.
        self.is_sent = true;
        let reply = self.handle.command(caller, command).await;
        self.unpin(end_of(reply.as_ref()));
        reply
    }

    /// The same, with a look at the state right after it.
    pub async fn command_and_look<T: Send + 'static>(
        mut self,
        caller: Caller,
        command: Command,
        look: impl FnOnce(&View<'_>, &Reply) -> T + Send + 'static,
    ) -> Result<(Reply, Option<T>), Refusal> {
        self.is_sent = true;
        let reply = self.handle.command_and_look(caller, command, look).await;
        self.unpin(end_of(reply.as_ref().map(|(reply, _)| reply)));
        reply
    }

    fn unpin(&mut self, end: PinEnd) {
        let pinned = std::mem::take(&mut self.pinned);
        self.handle.blobs().unpin(&pinned, end);
    }
}

/// What becomes of the files of a command with that answer.
fn end_of(reply: Result<&Reply, &Refusal>) -> PinEnd {
    match reply {
        Ok(Reply::Submitted { repeated: true, .. }) => PinEnd::Refused,
        Ok(_) => PinEnd::Used,
        // The commit may still succeed.
        Err(
            Refusal::StorageFull { .. }
            | Refusal::StateGone { .. }
            | Refusal::Internal { .. }
            | Refusal::ShuttingDown,
        ) => PinEnd::Unknown,
        Err(_) => PinEnd::Refused,
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.unpin(if self.is_sent { PinEnd::Unknown } else { PinEnd::Refused });
    }
}

/// The files of a job: its launch context, its script, and the values of array elements.
pub(crate) struct Contents {
    values: Option<PendingBlob>,
    context: PendingBlob,
    script: Option<PendingBlob>,
}

/// A file before it is stored.
struct PendingBlob {
    id: gpool_store::BlobId,
    bytes: Vec<u8>,
}

impl Contents {
    pub fn of(checked: &mut CheckedJob, limits: &[Limit], files: &Files) -> Result<Self, Refusal> {
        let content = |bytes: Vec<u8>| PendingBlob {
            id: files.handle.blobs().name(files.uid, &bytes),
            bytes,
        };
        let values = checked.values.as_ref().map(serde_json::to_vec);
        Ok(Self {
            values: values.transpose().map_err(internal)?.map(content),
            context: content(context_of(&checked.environment, checked.umask, limits).bytes()),
            script: checked.script.take().map(|script| content(script.bytes)),
        })
    }

    /// Whether the same files are already stored, so that it takes microseconds to store them.
    pub fn are_known(&self, files: &Files) -> bool {
        let all = [Some(&self.context), self.values.as_ref(), self.script.as_ref()];
        all.into_iter().flatten().all(|content| files.handle.blobs().is_known(&content.id))
    }

    /// Stores the files of a job; returns it after its setup job. Waits for the disk, unless they
    /// are known.
    pub fn store(self, files: &mut Files, mut checked: CheckedJob) -> Result<Vec<NewJob>, Refusal> {
        let mut put = |it: PendingBlob| files.store_as(it.id, &it.bytes);
        if let Some(values) = self.values {
            checked.name_values(put(values)?);
        }
        let context = put(self.context)?;
        let script = self.script.map(put).transpose()?;
        Ok(checked.into_new_jobs(context, script))
    }
}

/// Stores the parameter values of array elements.
pub(crate) fn store_values(files: &mut Files, checked: &mut CheckedJob) -> Result<(), Refusal> {
    if let Some(values) = &checked.values {
        let blob = files.store(&serde_json::to_vec(values).map_err(internal)?)?;
        checked.name_values(blob);
    }
    Ok(())
}

/// Stores the launch context. Waits for the disk, unless the same context is already stored.
pub(crate) fn store_context(
    files: &mut Files,
    environment: &BTreeMap<Vec<u8>, Vec<u8>>,
    umask: Option<u32>,
    limits: &[Limit],
) -> Result<BlobId, Refusal> {
    files.store(&context_of(environment, umask, limits).bytes())
}

fn context_of(
    environment: &BTreeMap<Vec<u8>, Vec<u8>>,
    umask: Option<u32>,
    limits: &[Limit],
) -> LaunchContext {
    let entries = environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    LaunchContext { environment: entries.collect(), limits: limits.to_vec(), umask }
}

/// Returns a job for a dry run, without stored files, after its setup job.
pub(crate) fn not_stored(mut checked: CheckedJob) -> Vec<NewJob> {
    checked.name_values(nowhere());
    let script = checked.script.as_ref().map(|_| nowhere());
    checked.into_new_jobs(nowhere(), script)
}

/// Returns one of many jobs for a dry run.
pub(crate) fn one_not_stored(mut checked: CheckedJob) -> NewJob {
    checked.name_values(nowhere());
    let script = checked.script.as_ref().map(|_| nowhere());
    checked.into_new_job(nowhere(), script)
}

fn nowhere() -> BlobId {
    BlobId(Arc::from(""))
}
