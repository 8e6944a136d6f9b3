//! The spec of a job: the request of its user as it was admitted.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use crate::allocation::Slot;
use crate::exit::Exit;
use crate::gang::Joins;
use crate::id::{BlobId, JobId};
use crate::job::owner::Owner;
use crate::request::job::JobRequest;
use crate::resource::Resources;
use crate::unit::{MilliGpu, Millis, Timestamp};

/// A job as it was admitted: the request of its user, and what the system gave it. It changes only
/// if somebody edits the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Which job.
    pub id: JobId,
    /// Who it belongs to.
    pub owner: Owner,
    /// What its user asked for.
    pub request: JobRequest,
    /// The script as it was when submitted, run in place of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<BlobId>,
    /// Environment, limits and umask of the caller ([`crate::agent::LaunchContext`]).
    pub context: BlobId,
    /// The job that was submitted with it to prepare it; one of [`JobRequest::after`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<JobId>,
    /// The job that it joins, if it is one of those that make a job larger while that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<Box<Joins>>,
    /// The ended job whose elements, or which, it runs anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<Box<JobId>>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
}

/// A spec reads as the request that it embeds: `spec.gpus`.
impl Deref for JobSpec {
    type Target = JobRequest;

    fn deref(&self) -> &JobRequest {
        &self.request
    }
}

impl DerefMut for JobSpec {
    fn deref_mut(&mut self) -> &mut JobRequest {
        &mut self.request
    }
}

impl JobSpec {
    /// Every blob that it needs.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobId> {
        let values = self.array.as_ref().and_then(|array| array.values.as_ref());
        let values = values.map(|values| &values.blob);
        std::iter::once(&self.context).chain(&self.script).chain(values)
    }

    /// What one task books on its node with those parts of devices.
    #[must_use]
    pub fn resources(&self, slots: &[Slot]) -> Resources {
        let charge = |sum: MilliGpu, slot: &Slot| sum.saturating_add(slot.part.charge());
        Resources::none()
            .with_gpus(slots.iter().fold(MilliGpu::ZERO, charge))
            .with_cpus(self.cpus.unwrap_or_default())
            .with_memory(self.memory.unwrap_or_default())
            .with_tasks(1)
            .with_whole_node(self.is_exclusive())
    }

    /// Whether it is of one size: one that others join, or that joins one, is not paused, as its
    /// parts would have to be together.
    #[must_use]
    pub fn is_of_one_size(&self) -> bool {
        self.joins.is_none() && self.gang.nodes_most == self.gang.nodes
    }

    /// What one task books on its node while it is paused.
    #[must_use]
    pub fn resources_paused(&self) -> Resources {
        Resources::none().with_memory(self.memory.unwrap_or_default()).with_tasks(1)
    }

    /// How long its tasks have between the first signal and KILL when it is taken back that way.
    #[must_use]
    pub fn grace_for(&self, exit: Exit) -> Millis {
        let to_save = match exit {
            Exit::Checkpoint => self.life.checkpoint.and_then(|it| it.grace),
            Exit::Pause | Exit::Requeue | Exit::Kill => None,
        };
        to_save.unwrap_or(self.grace)
    }
}
