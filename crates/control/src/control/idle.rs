//! Running jobs that do not use their GPUs: events, notifications, and the policy of the pool.

use std::sync::Arc;

use gpool_model::effect::Change;
use gpool_model::event::Kept;
use gpool_model::job::StopCause;
use gpool_model::kind::OnIdle;
use gpool_model::node::IdleTask;
use gpool_model::{JobId, JobKind, NodeName, PauseCause, Phase, Timestamp};

use crate::control::Control;

impl Control {
    /// Compares the idle tasks of a node with those of its last report, and acts on the jobs that
    /// became idle since.
    pub(crate) fn idle_changed(&mut self, node: &NodeName, before: &[IdleTask]) {
        let Some(row) = self.world.node(node) else { return };
        let now = row.node.facts.idle.clone();
        for old in before.iter().filter(|old| !now.contains(old)) {
            let job = self.world.job(old.task.job);
            let goes_on = job.is_some_and(|row| matches!(row.job.phase, Phase::Running { .. }));
            let is_idle = now.iter().any(|new| new.task == old.task);
            if goes_on && !is_idle {
                let job = old.task.job;
                self.publish(Change::JobIdle { job, since: None });
                self.idle.push(Kept::Idle { job, since: None, done: None });
            }
        }
        for new in now.iter().filter(|new| !before.contains(new)) {
            if let Some(since) = self.idle_since(new.task.job) {
                self.is_idle(new.task.job, node, since);
            }
        }
    }

    /// Since when all tasks of a running job have not used their devices; `None` if one does.
    fn idle_since(&self, id: JobId) -> Option<Timestamp> {
        let row = self.world.job(id)?;
        let Phase::Running { allocations, .. } = &row.job.phase else { return None };
        let since = |allocation: &gpool_model::Allocation| {
            let node = &self.world.node(&allocation.node)?.node;
            node.idle_since(allocation.task)
        };
        let all: Option<Vec<Timestamp>> = allocations.iter().map(since).collect();
        all?.into_iter().max()
    }

    /// Carries out the policy of the node's pool for a job that became idle.
    fn is_idle(&mut self, id: JobId, node: &NodeName, since: Timestamp) {
        self.publish(Change::JobIdle { job: id, since: Some(since) });
        let pool = self.world.node(node).map(|row| row.node.pool.clone());
        let policy = self.world.policy().of_pool(pool.as_ref()).idle;
        let row = self.world.job(id).expect("an idle job is there");
        let (spec, job) = (Arc::clone(&row.spec), row.job.clone());
        let is_batch = spec.kind() != JobKind::Notebook;
        let by: Arc<str> = Arc::from("the policy for idle jobs");
        let done = match policy {
            OnIdle::Report => None,
            OnIdle::Requeue if is_batch && spec.life.requeue != Some(false) => {
                self.stop(id, StopCause::Requeued { by, hold: false });
                Some(policy)
            }
            OnIdle::Cancel if is_batch => {
                self.stop(id, StopCause::Cancelled { by });
                Some(policy)
            }
            OnIdle::Release if spec.yields().is_some() && spec.is_of_one_size() => {
                self.pause_one(id, PauseCause::Asked { by });
                // Otherwise it would continue at once while its GPUs are free.
                self.hold_paused(id, None);
                Some(policy)
            }
            OnIdle::Warn | OnIdle::Release | OnIdle::Requeue | OnIdle::Cancel => {
                self.tell_idle(&spec, &job, since);
                Some(OnIdle::Warn)
            }
            OnIdle::Demote => {
                self.tell_idle(&spec, &job, since);
                // All elements of an array have the same request.
                if id.element.is_none() && spec.life.preemptible != Some(true) {
                    let mut spec = (*spec).clone();
                    spec.life.preemptible = Some(true);
                    self.world.put_spec(&Arc::new(spec));
                }
                Some(policy)
            }
        };
        self.idle.push(Kept::Idle { job: id, since: Some(since), done });
    }
}
