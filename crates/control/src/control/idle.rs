//! Running jobs that do not use their GPUs: events, notifications, and the policy of the pool.

use std::sync::Arc;

use gpool_model::effect::Change;
use gpool_model::event::Upkeep;
use gpool_model::job::{Holder, StopCause};
use gpool_model::kind::OnIdle;
use gpool_model::node::IdleTask;
use gpool_model::{
    Exit, Job, JobId, JobKind, JobSpec, NodeName, PauseCause, Phase, PoolName, Timestamp,
};

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
                self.unsaid.push(Upkeep::Idle { job, since: None, done: None, why: None });
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
        let row = self.world.job(id).expect("an idle job is there");
        let (spec, job) = (Arc::clone(&row.spec), row.job.clone());
        let policy = match spec.idle_after() {
            Some(_) => self.world.policy().of_pool(pool.as_ref()).idle,
            None => OnIdle::Report,
        };
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
            OnIdle::Release => match self.why_not_released(&spec, &job) {
                None => {
                    self.release_idle(id, &spec, by);
                    Some(policy)
                }
                Some(why) => return self.not_released(id, &why),
            },
            OnIdle::Warn | OnIdle::Requeue | OnIdle::Cancel => {
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
        self.unsaid.push(Upkeep::Idle { job: id, since: Some(since), done, why: None });
    }

    /// Whether the GPU calls of a job that starts in a pool go through a gate: drivers crash
    /// programs that synchronise with a GPU or query it during a pause.
    pub(crate) fn needs_gate(&self, spec: &JobSpec, pool: &PoolName) -> bool {
        let is_released = self.world.policy().of_pool(Some(pool)).idle == OnIdle::Release
            && spec.idle_after().is_some()
            && spec.yields().is_none();
        is_released || spec.life.exits.contains(&Exit::Pause)
    }

    /// Why the devices of an idle job can't be released; `None` if that can be tried.
    fn why_not_released(&self, spec: &JobSpec, job: &Job) -> Option<String> {
        if !spec.is_of_one_size() {
            let why = if spec.has_parts() { "it has parts" } else { "it is elastic" };
            return Some(why.to_owned());
        }
        if spec.yields().is_some() {
            return None;
        }
        job.phase.allocations().iter().find_map(|it| {
            let node = &self.world.node(&it.node)?.node;
            if !node.can_pause() {
                let name = &node.name;
                return Some(format!("the GPU driver of node {name} can't pause jobs"));
            }
            let has_gate = |idle: &&IdleTask| idle.task == it.task && idle.has_gate;
            node.facts.idle.iter().find(has_gate).is_none().then(|| {
                "its GPU calls go through no gate, because it started before the pool released \
                 idle GPUs, or its node has no gate (gpool doctor)"
                    .to_owned()
            })
        })
    }

    /// Frees the devices of an idle job, until it needs them again.
    fn release_idle(&mut self, id: JobId, spec: &JobSpec, by: Arc<str>) {
        if spec.yields().is_some() {
            self.pause_one(id, PauseCause::Asked { by });
            // Otherwise it would continue at once while its GPUs are free.
            return self.hold_paused(id, None);
        }
        self.pause_one(id, PauseCause::Idle);
        let mut job = self.job(id);
        if let Phase::Paused { held, .. } = &mut job.phase {
            *held = Some(Holder::Idle);
        }
        job.course.not_released = None;
        self.put_job(job);
    }

    /// Handles an idle job with devices that could not be released: it runs on, and its owner gets
    /// a notification.
    pub(crate) fn not_released(&mut self, id: JobId, why: &str) {
        self.go_on_now(id);
        let since = self.idle_since(id).unwrap_or(self.now);
        let Some(row) = self.world.job(id) else { return };
        let (spec, mut job) = (Arc::clone(&row.spec), row.job.clone());
        let why: Arc<str> = Arc::from(why);
        if job.course.not_released.as_ref() != Some(&why) {
            job.course.not_released = Some(Arc::clone(&why));
            self.put_job(job.clone());
        }
        self.tell_idle(&spec, &job, since);
        let (since, done) = (Some(since), Some(OnIdle::Warn));
        self.unsaid.push(Upkeep::Idle { job: id, since, done, why: Some(why.to_string()) });
    }

    /// Lets the jobs resume that need their released devices again.
    pub(crate) fn returns(&mut self, node: &NodeName) {
        let Some(row) = self.world.node(node) else { return };
        for task in row.node.facts.returning.clone() {
            let Some(row) = self.world.job(task.job) else { continue };
            let mut job = row.job.clone();
            let is_own = job.phase.allocations().iter().any(|it| it.task == task);
            let Phase::Paused { why: PauseCause::Idle, held, .. } = &mut job.phase else {
                continue;
            };
            if !is_own || *held != Some(Holder::Idle) {
                continue;
            }
            *held = None;
            self.put_job(job);
            self.unsaid.push(Upkeep::Returns { job: task.job });
        }
    }
}
