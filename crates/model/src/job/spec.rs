//! The spec of a job: the user's request as admitted.

use std::borrow::Cow;
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

/// An admitted job: the user's request with the additions of the server. Verbs such as `edit`
/// and `extend` change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The ID of the job.
    pub id: JobId,
    /// The user that it belongs to.
    pub owner: Owner,
    /// The user's request.
    pub request: JobRequest,
    /// The script as submitted; it runs instead of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<BlobId>,
    /// Environment, limits and umask of the caller ([`crate::agent::LaunchContext`]).
    pub context: BlobId,
    /// The setup job that was submitted with it; one of [`JobRequest::after`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<JobId>,
    /// The elastic job that it joins, if it extends one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<Box<Joins>>,
    /// The ended job, or array of elements, that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<Box<JobId>>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
}

/// A spec dereferences to its request: `spec.gpus`.
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
    /// The blobs that it needs.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobId> {
        let values = self.array.as_ref().and_then(|array| array.values.as_ref());
        let values = values.map(|values| &values.blob);
        std::iter::once(&self.context).chain(&self.script).chain(values)
    }

    /// The spec of the task with this rank: of its part, if the job has parts.
    #[must_use]
    pub fn of_task(&self, rank: u32) -> Cow<'_, Self> {
        match self.part_of(rank) {
            None => Cow::Borrowed(self),
            Some((at, _)) => Cow::Owned(Self { request: self.request.of_part(at), ..self.clone() }),
        }
    }

    /// The resources that the task with this rank books on its node with these slots.
    #[must_use]
    pub fn resources(&self, rank: u32, slots: &[Slot]) -> Resources {
        let charge = |sum: MilliGpu, slot: &Slot| sum.saturating_add(slot.part.charge());
        let (cpus, memory) = match self.part_of(rank) {
            None => (self.cpus, self.memory),
            Some((at, _)) => (self.parts[at].cpus, self.parts[at].memory),
        };
        Resources::none()
            .with_gpus(slots.iter().fold(MilliGpu::ZERO, charge))
            .with_cpus(cpus.unwrap_or_default())
            .with_memory(memory.unwrap_or_default())
            .with_tasks(1)
            .with_whole_node(self.is_exclusive())
    }

    /// Whether its size is fixed and its tasks are alike. An elastic job and the jobs that join it
    /// are not paused, because all of them would have to be paused together.
    #[must_use]
    pub fn is_of_one_size(&self) -> bool {
        self.joins.is_none() && self.gang.nodes_most == self.gang.nodes && !self.has_parts()
    }

    /// The resources that one task books on its node while it is paused.
    #[must_use]
    pub fn resources_paused(&self) -> Resources {
        Resources::none().with_memory(self.memory.unwrap_or_default()).with_tasks(1)
    }

    /// The time between the first signal and KILL when a job is evicted with this exit.
    #[must_use]
    pub fn grace_for(&self, exit: Exit) -> Millis {
        let to_save = match exit {
            Exit::Checkpoint => self.life.checkpoint.and_then(|it| it.grace),
            Exit::Pause | Exit::Requeue | Exit::Kill => None,
        };
        to_save.unwrap_or(self.grace)
    }
}
