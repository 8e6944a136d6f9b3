//! A situation: the contents of a scenario in the types of the core, and the world that it
//! describes.

use std::sync::Arc;

use gpool_model::job::BlobId;
use gpool_model::record::ClusterRecord;
use gpool_model::{
    GpuRequest, Job, JobId, JobNumber, JobRequest, JobSpec, Millis, Node, Owner, PastRuns, Policy,
    Project, Reservation, Timestamp, Used,
};
use gpool_world::{ProjectIx, Snapshot, World};

/// Everything that a cycle reads, at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// The current time.
    pub now: Timestamp,
    pub policy: Policy,
    /// The nodes in the order of the lines; names are unique.
    pub nodes: Vec<Node>,
    /// The jobs in the order of the lines; ids are unique.
    pub jobs: Vec<(Arc<JobSpec>, Job)>,
    /// The reservations in the order of the lines; names are unique.
    pub reservations: Vec<Reservation>,
    /// Earlier run times, once for each likeness.
    pub past: Vec<PastRuns>,
    /// Recent usage, as far as the policy uses it.
    pub used: Vec<Used>,
    /// The projects in the order of the lines; any other project is unlimited.
    pub projects: Vec<Project>,
}

/// The default user of jobs.
pub(crate) const OWN_UID: u32 = 1000;

impl Situation {
    /// The time of scenarios: late enough for any age.
    pub const NOW: Timestamp = Timestamp::new(1_700_000_000_000);

    /// A cluster without nodes and jobs.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            now: Self::NOW,
            policy: Policy::fair(),
            nodes: Vec::new(),
            jobs: Vec::new(),
            reservations: Vec::new(),
            past: Vec::new(),
            used: Vec::new(),
            projects: Vec::new(),
        }
    }

    /// The situation of a world at a time.
    #[must_use]
    pub fn of(snapshot: &Snapshot<'_>) -> Self {
        let world = snapshot.world;
        Self {
            now: snapshot.now,
            policy: world.policy().clone(),
            nodes: world.nodes().iter().map(|row| row.node.clone()).collect(),
            jobs: (world.job_rows()).map(|row| (Arc::clone(&row.spec), row.job.clone())).collect(),
            reservations: world.reservations().values().cloned().collect(),
            past: world.past_runs().cloned().collect(),
            used: used_by(snapshot).collect(),
            projects: world.projects().values().cloned().collect(),
        }
    }

    /// The world with this situation, advanced to its time and completely committed.
    ///
    /// # Panics
    /// If two jobs have the same id, or a job has an allocation on a missing node.
    #[must_use]
    pub fn world(&self) -> World {
        let mut world = World::new(self.policy.clone());
        for node in &self.nodes {
            world.put_node(node.clone());
        }
        for project in &self.projects {
            world.put_project(project.clone());
        }
        for used in &self.used {
            world.put_used(used);
        }
        for runs in &self.past {
            world.put_past_runs(runs.clone());
        }
        for (spec, job) in &self.jobs {
            world.add_job(Arc::clone(spec), job.clone());
        }
        let last_job = self.jobs.iter().map(|(spec, _)| spec.id.number).max();
        for reservation in &self.reservations {
            world.put_reservation(reservation.clone());
        }
        world.put_cluster(ClusterRecord {
            last_job: last_job.unwrap_or(JobNumber(0)),
            ..ClusterRecord::default()
        });
        world.take_changes();
        world.advance(self.now);
        world
    }
}

/// The decayed usage, if the policy uses it.
fn used_by(snapshot: &Snapshot<'_>) -> impl Iterator<Item = Used> {
    let Snapshot { world, now } = *snapshot;
    let rows = world.project_rows().iter().enumerate();
    let rows = rows.filter(|_| world.policy().asks_used());
    rows.flat_map(move |(ix, row)| {
        row.used.keys().map(move |uid| {
            let amount = world.used_by(ProjectIx(ix), *uid, now);
            Used { project: row.name.clone(), uid: *uid, amount, at: now }
        })
    })
}

/// The spec of a job that requests only these GPUs.
pub(crate) fn bare_spec(
    id: JobId,
    name: &str,
    gpus: &GpuRequest,
    submitted_at: Timestamp,
) -> JobSpec {
    JobSpec {
        id,
        owner: Owner { uid: OWN_UID, gid: OWN_UID, user: Arc::from("ana") },
        script: None,
        context: BlobId(Arc::from("none")),
        setup: None,
        retry_of: None,
        joins: None,
        submitted_at,
        request: JobRequest {
            name: Arc::from(name),
            command: vec!["true".to_owned()],
            gpus: gpus.clone(),
            gpus_written: Arc::from(gpus.to_string()),
            grace: Millis::from_secs(10),
            allow_unsatisfiable: true,
            ..JobRequest::default()
        },
    }
}
