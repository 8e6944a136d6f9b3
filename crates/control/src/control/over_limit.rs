//! Running jobs that use more GPU memory than their limit: the policy of the pool.

use std::sync::Arc;

use gpool_model::device::Device;
use gpool_model::event::Upkeep;
use gpool_model::id::TaskId;
use gpool_model::job::StopCause;
use gpool_model::over_limit::{OverLimit, OverMemory};
use gpool_model::{JobKind, NodeName, Phase};

use crate::control::Control;

impl Control {
    /// Acts on the jobs of a node that are above their limit for several samples since the last
    /// report.
    pub(crate) fn over_limit_changed(&mut self, node: &NodeName, before: &[Device]) {
        let Some(row) = self.world.node(node) else { return };
        let lasting = |devices: &[Device]| -> Vec<(TaskId, OverMemory)> {
            let of_device = |device: &Device| {
                let (index, over) = (device.index, device.overshoots.iter());
                let lasts = over.filter(|it| it.lasts()).map(move |it| {
                    (it.task, OverMemory { device: index, limit: it.limit, used: it.used })
                });
                lasts.collect::<Vec<_>>()
            };
            devices.iter().flat_map(of_device).collect()
        };
        let known = lasting(before);
        let mut new = lasting(&row.node.devices);
        new.retain(|(task, memory)| {
            !known.iter().any(|(of, last)| of == task && last.device == memory.device)
        });
        for (task, memory) in new {
            self.is_over(task, node, memory);
        }
    }

    /// Carries out the policy of the node's pool for a task.
    fn is_over(&mut self, task: TaskId, node: &NodeName, memory: OverMemory) {
        let id = task.job;
        let pool = self.world.node(node).map(|row| row.node.pool.clone());
        let policy = self.world.policy().of_pool(pool.as_ref()).over_limit;
        let Some(row) = self.world.job(id) else { return };
        let (spec, job) = (Arc::clone(&row.spec), row.job.clone());
        let runs = matches!(job.phase, Phase::Running { .. });
        if !runs || !job.phase.allocations().iter().any(|it| it.task == task) {
            return;
        }
        let can_requeue = spec.kind() != JobKind::Notebook && spec.life.requeue != Some(false);
        let done = match policy {
            OverLimit::Requeue if !can_requeue => OverLimit::Warn,
            policy => policy,
        };
        let by: Arc<str> = Arc::from("the policy for jobs above their GPU memory limit");
        if done != OverLimit::Report {
            self.tell_over(&spec, &job, memory);
        }
        match done {
            OverLimit::Report | OverLimit::Warn => {}
            OverLimit::Requeue => self.stop(id, StopCause::Requeued { by, hold: false }),
            OverLimit::Cancel => self.stop(id, StopCause::Cancelled { by }),
        }
        self.unsaid.push(Upkeep::OverLimit { job: id, node: node.clone(), memory, done });
    }
}
