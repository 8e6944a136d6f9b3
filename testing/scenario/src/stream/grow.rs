//! Jobs that grow, as in `control`: joining jobs are added one at a time to running jobs, and end
//! with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::job::Usage;
use gpool_model::{Gang, Job, JobEnd, JobId, JobSpec, Life, Outcome, Phase, Rare};
use gpool_world::JobRow;

use super::Cluster;
use crate::gang;

impl Cluster {
    /// Adds a joining job to each running job up to its maximum, and ends the joining jobs of
    /// others; returns whether anything changed.
    pub fn tend(&mut self, most: &BTreeMap<JobId, usize>) -> bool {
        let mut changed = false;
        for (id, most) in most {
            let Some(row) = self.world.job(*id).cloned() else { continue };
            let joiners: Vec<Job> = self.world.joiners_of(*id).map(|row| row.job.clone()).collect();
            if !matches!(row.job.phase, Phase::Running { .. }) {
                changed |= !joiners.is_empty();
                joiners.into_iter().for_each(|job| self.leave(job));
                continue;
            }
            let one_waits = joiners.iter().any(|job| job.phase.allocations().is_empty());
            if joiners.len() < *most && !one_waits {
                self.join(&row, joiners.len());
                changed = true;
            }
        }
        changed
    }

    fn leave(&mut self, mut job: Job) {
        let allocations = job.phase.allocations().to_vec();
        job.phase = Phase::Ended(Box::new(JobEnd {
            outcome: Outcome::Cancelled,
            cause: None,
            exit: None,
            started_at: None,
            ended_at: self.now,
            usage: Usage::default(),
            allocations,
            resized: 0,
            steps: Rare::default(),
        }));
        self.put(job);
    }

    fn join(&mut self, row: &JobRow, n_before: usize) {
        let mut cluster = self.world.cluster().clone();
        cluster.last_job = cluster.last_job.next();
        let id = JobId { number: cluster.last_job, element: None };
        self.world.put_cluster(cluster);
        let mut spec = JobSpec {
            id,
            joins: Some(gang::joins(row.job.id)),
            submitted_at: self.now,
            ..JobSpec::clone(&row.spec)
        };
        spec.name = format!("{}.{}", row.spec.name, n_before + 1).into();
        spec.gang = Gang::SINGLE;
        spec.after = Rare::default();
        spec.life = Life { preemptible: Some(true), ..Life::default() };
        let job = Job::new(id, row.job.priority, Phase::Pending { since: self.now });
        self.world.add_job(Arc::new(spec), job);
    }
}
