//! Jobs as they come to a cluster: what their users ask for, and how long they run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::job::{BlobId, Owner};
use gpool_model::{Exit, Gang, GpuRequest, JobRequest, MilliGpu, Millis, NewJob, Timestamp};

use crate::cluster::Nodes;
use crate::jobs::TraceJob;

/// What is known of jobs, and what it costs to take something back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Whether it is known of each job how long it will run.
    pub are_ends_known: bool,
    /// Whether jobs may be taken back, and go on later from where they were.
    pub are_preemptible: bool,
    /// How much of what it did a job has to do again each time that it was taken back.
    pub restart: Millis,
    /// How often it is forecast when those will start that wait, if at all.
    pub forecast_every: Option<Millis>,
}

/// Users have numbers from this one on.
const FIRST_UID: u32 = 1_000;

/// A job that comes.
#[derive(Debug, Clone)]
pub struct Coming {
    /// When it comes.
    pub at: Timestamp,
    /// How long it runs, if nobody takes it back.
    pub duration: Millis,
    /// Who submits it.
    pub owner: Owner,
    /// Whose it is in tables: a user, a team, a project.
    pub whose: Arc<str>,
    /// What is asked for.
    pub job: NewJob,
}

impl Coming {
    /// How much it asks for, all of its tasks together.
    #[must_use]
    pub fn gpus(&self) -> MilliGpu {
        let n_tasks = u64::from(self.job.gang.n_tasks());
        self.job.gpus.size().checked_mul(n_tasks).unwrap_or(MilliGpu::MAX)
    }

    /// The same job with what is known of all of them, and may be done to them.
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

    /// Whether it goes on where it was after it was taken back, and is not run from its start.
    pub(crate) fn goes_on(&self) -> bool {
        self.job.life.exits.contains(&Exit::Checkpoint)
    }
}

/// Makes of the jobs of a file what is asked of nodes that are alike.
pub(crate) struct Asking {
    nodes: Nodes,
    /// Users by number.
    users: BTreeMap<Arc<str>, u32>,
}

impl Asking {
    pub fn of(nodes: Nodes) -> Self {
        Self { nodes, users: BTreeMap::new() }
    }

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

    /// Devices of each node, and how many nodes: those that do not fit on one have whole ones, or
    /// as many of each as divides them.
    fn parts(&self, n_gpus: u32) -> (u32, u32) {
        let most = self.nodes.n_gpus.max(1);
        let n_nodes = (n_gpus.div_ceil(most)..=n_gpus).find(|n| n_gpus.is_multiple_of(*n));
        match n_nodes {
            Some(n_nodes) if n_gpus > most => (n_gpus / n_nodes, n_nodes),
            Some(_) | None => (n_gpus, 1),
        }
    }
}

/// A name for all jobs of that size: lengths are told from jobs whose names differ in digits alone.
fn name_of_size(n_gpus: u32) -> String {
    let letter = |digit: char| digit.to_digit(10).map_or('x', |digit| SIZE_LETTERS[digit as usize]);
    n_gpus.to_string().chars().map(letter).collect()
}

/// In place of digits.
const SIZE_LETTERS: [char; 10] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];

/// A job that asks for so many devices on each of so many nodes.
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
