//! Jobs that may grow to more nodes than they started on. While such a job runs, another job waits
//! to join it with the tasks of one more node. A joining job is scheduled behind all jobs of the
//! same priority and may be preempted at any time. It ends with the run that it joined.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::event::Upkeep;
use gpool_model::job::StopCause;
use gpool_model::{
    Gang, GpuRequest, Job, JobId, JobRequest, JobSpec, Joins, Life, ModelPattern, Node, NodeFilter,
    NodeName, Phase, Rare,
};
use gpool_world::{JobRow, World};

use crate::control::Control;

impl Control {
    /// Ends joining jobs if the run that they join is over.
    pub(crate) fn let_leave(&mut self, kept: &mut Vec<Upkeep>) {
        let is_over = |row: &&JobRow| {
            let is_told = matches!(
                row.job.phase,
                Phase::Stopping {
                    cause: StopCause::GangEnded { .. } | StopCause::Cancelled { .. },
                    ..
                }
            );
            !is_told && row.spec.joins.as_ref().is_some_and(|joins| !goes_on(&self.world, joins))
        };
        let over: Vec<(JobId, JobId)> = (self.world.joiners().filter(is_over))
            .filter_map(|row| Some((row.job.id, row.spec.joins.as_ref()?.job)))
            .collect();
        for (id, job) in over {
            self.stop(id, StopCause::GangEnded { job });
            kept.push(Upkeep::Left { job: id });
        }
    }

    /// Submits one more joining job for each job that may grow, unless one is waiting already. They
    /// are added one at a time, so that other jobs get their turn in between.
    pub(crate) fn let_join(&mut self, kept: &mut Vec<Upkeep>) {
        let may = |row: &&JobRow| {
            let Gang { nodes, nodes_most, .. } = row.spec.gang;
            let waits = |it: &JobRow| it.job.phase.allocations().is_empty();
            row.job.course.n_joiners < nodes_most - nodes
                && !self.world.joiners_of(row.job.id).any(waits)
        };
        let growing: Vec<JobId> = self.world.elastic().filter(may).map(|row| row.job.id).collect();
        for joins in growing {
            let job = self.add_joiner(joins);
            kept.push(Upkeep::Joining { job, joins });
        }
    }

    fn add_joiner(&mut self, joined: JobId) -> JobId {
        let row = self.world.job(joined).expect("it was just found").clone();
        let mut cluster = self.world.cluster().clone();
        cluster.last_job = cluster.last_job.next();
        let id = JobId { number: cluster.last_job, element: None };
        self.world.put_cluster(cluster);
        let spec = self.joining(&row, id);
        let job = Job::new(id, row.job.priority, Phase::Pending { since: self.now });
        self.add_job(Arc::new(spec), job);
        let mut job = row.job;
        job.course.n_joiners += 1;
        self.put_job(job);
        id
    }

    /// Returns the spec of a job that adds one more node.
    fn joining(&self, row: &JobRow, id: JobId) -> JobSpec {
        let JobRow { spec, job } = row;
        let Gang { nodes, tasks_per_node, .. } = spec.gang;
        let n_before = nodes.saturating_add(job.course.n_joiners);
        let joins = Joins {
            job: job.id,
            attempt: job.attempt,
            gang: spec.gang,
            nodes: job.phase.allocations().iter().map(|it| it.node.clone()).collect(),
            first_rank: n_before.saturating_mul(tasks_per_node),
        };
        let request = JobRequest {
            gpus: self.same_model(row),
            nodes: self.same_domain(row),
            gang: Gang { tasks_per_node, ..Gang::SINGLE },
            after: Rare::default(),
            pty: None,
            life: Life {
                warning: spec.life.warning.clone(),
                preemptible: Some(true),
                ..Life::default()
            },
            ..spec.request.clone()
        };
        JobSpec {
            id,
            owner: spec.owner.clone(),
            request,
            script: spec.script.clone(),
            context: spec.context.clone(),
            setup: None,
            joins: Some(Box::new(joins)),
            retry_of: None,
            submitted_at: self.now,
        }
    }

    /// Returns the nodes of one more task: those in the domain of the job's topology.
    fn same_domain(&self, row: &JobRow) -> Option<Arc<NodeFilter>> {
        let nodes = row.spec.nodes.as_ref()?;
        let Some(topology) = nodes.topology.as_ref().filter(|it| it.is_required) else {
            return Some(Arc::clone(nodes));
        };
        let all = || self.world.nodes_by_name().map(|(_, row)| &row.node);
        let first = row.job.phase.allocations().first().map(|it| &it.node);
        let first = all().find(|node| Some(&node.name) == first);
        let value = first.and_then(|node| node.topology_value(topology));
        let is_there = |node: &&Node| nodes.allows(node) && node.topology_value(topology) == value;
        let mut include: BTreeSet<NodeName> =
            all().filter(is_there).map(|node| node.name.clone()).collect();
        // An empty set would allow every node.
        include.extend(first.map(|node| node.name.clone()));
        Some(Arc::new(NodeFilter { include, ..NodeFilter::clone(nodes) }))
    }

    /// Returns the GPUs of one more task, of the model that the job has.
    fn same_model(&self, row: &JobRow) -> GpuRequest {
        let gpus = row.spec.gpus.clone();
        let held = row.job.phase.allocations().first();
        let model = held.and_then(|held| {
            let uuid = &held.slots.first()?.device;
            let node = &self.world.node(&held.node)?.node;
            Some(&node.devices.iter().find(|device| device.uuid == *uuid)?.model)
        });
        let Some(model) = model else { return gpus };
        let gang = Gang { nodes: row.spec.gang.nodes_most, ..row.spec.gang };
        let choices = self.world.models_to_choose(&gpus, row.spec.pool.as_ref(), gang);
        let rank = gpus.models.iter().position(|pattern| pattern.matches(model));
        let models = match (choices.is_empty(), rank) {
            (false, _) => vec![ModelPattern::exactly(model)],
            (true, Some(rank)) => vec![gpus.models[rank].clone()],
            (true, None) => Vec::new(),
        };
        GpuRequest { models, ..gpus }
    }
}

/// Whether the joined run still runs.
fn goes_on(world: &World, joins: &Joins) -> bool {
    world.job(joins.job).is_some_and(|row| {
        row.job.attempt == joins.attempt && matches!(row.job.phase, Phase::Running { .. })
    })
}
