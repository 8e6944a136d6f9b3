//! Jobs of a simulation: their requests and their run times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::job::{BlobId, Owner};
use gpool_model::{Exit, Gang, GpuRequest, JobRequest, MilliGpu, Millis, NewJob, Timestamp};

use crate::cluster::Nodes;
use crate::jobs::TraceJob;

/// Assumptions of a simulation: known run times, and the cost of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Whether the scheduler knows the run time of each job.
    pub are_ends_known: bool,
    /// Whether jobs are preemptible and continue their work later.
    pub are_preemptible: bool,
    /// How much of its work a job repeats after each eviction.
    pub restart: Millis,
    /// The time between forecasts for waiting jobs, if there are any.
    pub forecast_every: Option<Millis>,
}

/// The first user ID.
const FIRST_UID: u32 = 1_000;

/// A job to be submitted.
#[derive(Debug, Clone)]
pub struct Coming {
    /// When it is submitted.
    pub at: Timestamp,
    /// Its run time without evictions.
    pub duration: Millis,
    /// The user that submits it.
    pub owner: Owner,
    /// Its owner in tables: a user, a team or a project.
    pub whose: Arc<str>,
    /// The request.
    pub job: NewJob,
}

impl Coming {
    /// Returns the amount of GPUs that all its tasks ask for.
    #[must_use]
    pub fn gpus(&self) -> MilliGpu {
        let n_tasks = u64::from(self.job.gang.n_tasks());
        self.job.gpus.size().checked_mul(n_tasks).unwrap_or(MilliGpu::MAX)
    }

    /// Returns the job with the assumptions applied.
    pub(crate) fn under(mut self, terms: Terms) -> Self {
        if terms.are_ends_known {
            self.job.time_limit = Some(self.duration);
        }
        if terms.are_preemptible {
            self.job.life.preemptible = Some(true);
            self.job.life.exits = BTreeSet::from([Exit::Checkpoint]).into();
        }
        self
    }

    /// Whether it continues its work after an eviction, instead of starting again.
    pub(crate) fn goes_on(&self) -> bool {
        self.job.life.exits.contains(&Exit::Checkpoint)
    }
}

/// Turns jobs of a file into requests to equal nodes.
pub struct Asking {
    nodes: Nodes,
    /// User IDs by owner.
    users: BTreeMap<Arc<str>, u32>,
}

impl Asking {
    /// For jobs of traces on these nodes.
    pub fn of(nodes: Nodes) -> Self {
        Self { nodes, users: BTreeMap::new() }
    }

    /// The request of a job of a trace.
    pub fn for_job(&mut self, job: TraceJob) -> Coming {
        let next = u32::try_from(self.users.len()).unwrap_or(u32::MAX).saturating_add(FIRST_UID);
        let uid = *self.users.entry(Arc::clone(&job.owner)).or_insert(next);
        let (each, n_nodes) = self.parts(job.n_gpus);
        Coming {
            at: job.came_at(),
            duration: job.duration(),
            owner: Owner { uid, gid: uid, user: Arc::clone(&job.owner) },
            whose: job.owner,
            job: new_job(each, n_nodes),
        }
    }

    /// Returns the devices per node and the number of nodes. A job that does not fit one node gets
    /// whole nodes, or as many devices of each as divide its number.
    fn parts(&self, n_gpus: u32) -> (u32, u32) {
        let most = self.nodes.n_gpus.max(1);
        let n_nodes = (n_gpus.div_ceil(most)..=n_gpus).find(|n| n_gpus.is_multiple_of(*n));
        match n_nodes {
            Some(n_nodes) if n_gpus > most => (n_gpus / n_nodes, n_nodes),
            Some(_) | None => (n_gpus, 1),
        }
    }
}

/// Returns a name for all jobs of this size: predictions treat jobs as equal if their names differ
/// only in digits.
fn name_of_size(n_gpus: u32) -> String {
    let letter = |digit: char| digit.to_digit(10).map_or('x', |digit| SIZE_LETTERS[digit as usize]);
    n_gpus.to_string().chars().map(letter).collect()
}

/// Letters in place of digits.
const SIZE_LETTERS: [char; 10] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];

/// A job that asks for this many devices on each of this many nodes.
pub(crate) fn new_job(n_gpus: u32, n_nodes: u32) -> NewJob {
    NewJob {
        context: BlobId(Arc::from("none")),
        request: JobRequest {
            gang: Gang { nodes: n_nodes, nodes_most: n_nodes, ..Gang::SINGLE },
            name: Arc::from(name_of_size(n_gpus.saturating_mul(n_nodes))),
            command: vec!["true".to_owned()],
            gpus: GpuRequest::whole(n_gpus),
            gpus_written: Arc::from(n_gpus.to_string()),
            grace: Millis::ZERO,
            ..JobRequest::default()
        },
        ..NewJob::default()
    }
}
