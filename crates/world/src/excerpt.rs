//! A part of a world, to be made into a world of its own: for runs of the planner on what could
//! be. To take it costs what it holds, however much else waits.

use std::collections::BTreeMap;

use gpool_model::record::{ClusterRecord, Project};
use gpool_model::{JobId, Node, Policy, ProjectName, Timestamp};

use crate::world::{JobRow, World};

/// A part of a world.
#[derive(Debug, Clone)]
pub struct Excerpt {
    cluster: ClusterRecord,
    /// How is decided.
    pub policy: Policy,
    projects: BTreeMap<ProjectName, Project>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// The jobs of the excerpt, by id.
    pub jobs: BTreeMap<JobId, JobRow>,
}

impl World {
    /// The nodes, the rules and those jobs. The caller sees to it that all that hold something
    /// are among them, and for each that waits for others these too.
    #[must_use]
    pub fn excerpt(&self, jobs: impl IntoIterator<Item = JobId>) -> Excerpt {
        let row = |id: JobId| Some((id, self.jobs.get(&id)?.clone()));
        Excerpt {
            cluster: self.cluster.clone(),
            policy: self.policy.clone(),
            projects: self.projects.clone(),
            nodes: self.nodes.iter().map(|row| row.node.clone()).collect(),
            jobs: jobs.into_iter().filter_map(row).collect(),
        }
    }
}

impl Excerpt {
    /// A world of nothing but this, advanced to a moment.
    #[must_use]
    pub fn world(&self, now: Timestamp) -> World {
        let mut world = World::new(self.policy.clone());
        world.cluster = self.cluster.clone();
        world.projects = self.projects.clone();
        for node in &self.nodes {
            world.put_node(node.clone());
        }
        for row in self.jobs.values() {
            world.add_job(row.spec.clone(), row.job.clone());
        }
        world.take_changes();
        world.advance(now);
        world
    }
}
