//! A part of a world that can be built into a world of its own, for runs of the planner on
//! hypothetical states. The cost depends on what the part holds, not on the number of other pending
//! jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::record::ClusterRecord;
use gpool_model::{
    Job, JobId, JobNumber, Likeness, Node, PastRuns, Policy, Project, ProjectName, Reservation,
    ReservationName, Timestamp, Used,
};

use crate::row::JobRow;
use crate::world::World;

#[derive(Debug, Clone)]
pub struct Excerpt {
    cluster: ClusterRecord,
    pub policy: Policy,
    pub projects: Arc<BTreeMap<ProjectName, Project>>,
    /// The run times of jobs like these.
    past: BTreeMap<String, PastRuns>,
    used: Vec<Used>,
    pub reservations: BTreeMap<ReservationName, Reservation>,
    pub nodes: Vec<Node>,
    /// The jobs of the excerpt, by id.
    pub jobs: BTreeMap<JobId, JobRow>,
}

impl World {
    /// Copies the nodes, the rules and these jobs. The caller must include every job that holds
    /// something, and for each job its dependencies.
    #[must_use]
    pub fn excerpt(&self, jobs: impl IntoIterator<Item = JobId>) -> Excerpt {
        let row = |id: JobId| Some((id, self.job(id)?.clone()));
        let jobs: BTreeMap<JobId, JobRow> = jobs.into_iter().filter_map(row).collect();
        let likenesses: BTreeSet<Likeness> =
            jobs.values().map(|row| Likeness::of(&row.spec)).collect();
        let past = likenesses.iter();
        let past = past.filter_map(|like| Some((like.key(), self.past.runs(like)?.clone())));
        Excerpt {
            cluster: self.cluster.clone(),
            policy: self.policy.clone(),
            projects: Arc::clone(&self.projects),
            past: past.collect(),
            used: self.all_used().collect(),
            reservations: self.reservations.clone(),
            nodes: self.nodes.iter().map(|row| row.node.clone()).collect(),
            jobs,
        }
    }
}

impl Excerpt {
    /// The number of the last job in the whole world.
    #[must_use]
    pub fn last_job(&self) -> JobNumber {
        self.cluster.last_job
    }

    /// A project and all projects above it.
    pub fn projects_above(&self, name: &ProjectName) -> impl Iterator<Item = &Project> {
        let above = |it: &&Project| self.projects.get(it.parent.as_ref()?);
        std::iter::successors(self.projects.get(name), above).take(self.projects.len())
    }

    /// Builds a world of this excerpt alone, advanced to a moment.
    #[must_use]
    pub fn world(&self, now: Timestamp) -> World {
        let mut world = World::new(self.policy.clone());
        world.cluster = self.cluster.clone();
        let there = world.projects.keys().cloned().collect::<Vec<_>>();
        for name in there.iter().filter(|name| !self.projects.contains_key(name)) {
            world.remove_project(name);
        }
        for project in self.projects.values() {
            world.put_project(project.clone());
        }
        for runs in self.past.values() {
            world.past.insert(runs.clone());
        }
        for used in &self.used {
            world.put_used(used);
        }
        for node in &self.nodes {
            world.put_node(node.clone());
        }
        for reservation in self.reservations.values() {
            world.put_reservation(reservation.clone());
        }
        for row in self.jobs.values() {
            // A hypothetical state sends no messages, and needs no time for them.
            world.add_job(row.spec.clone(), Job { notify: Vec::new(), ..row.job.clone() });
        }
        world.take_changes();
        world.advance(now);
        world
    }
}
