//! Stage prefilter: skips jobs that can't start in this cycle, by counters and by earlier searches,
//! before their demand is read.

use gpool_model::MilliGpu;
use gpool_world::{PendingQueue, QueueHead, World};

use super::find_placement::Placing;
use super::preempt::{self, Lasts};
use super::{PlannedCluster, PolicyScope};
use crate::preemption;
use crate::quota_state::Leaf;

/// Whether a job is considered.
pub(super) enum Verdict {
    Now,
    /// Not before every project has its share.
    Later,
    /// It can't start in this cycle.
    Never,
}

/// The state of the cycle, as the prefilter reads it.
pub(super) struct Prefilter<'c, 'a> {
    pub cluster: &'c PlannedCluster<'a>,
    pub scope: &'c PolicyScope<'a>,
    pub placing: &'c Placing,
    pub lasts: &'c Lasts,
    /// Whether every project has its share, and idle capacity is lent.
    pub is_lending: bool,
    /// Whether the plan has no reasons.
    pub is_silent: bool,
}

impl<'a> Prefilter<'_, 'a> {
    pub fn world(&self) -> &'a World {
        self.cluster.snapshot.world
    }

    /// The verdict on all jobs of a line that are left.
    pub fn of_line(&self, leaf: Leaf, line: &PendingQueue) -> Verdict {
        self.with_reasons(leaf, self.verdict_of_line(leaf, line))
    }

    pub fn of_job(&self, leaf: Leaf, head: &QueueHead) -> Verdict {
        self.with_reasons(leaf, self.verdict(leaf, head))
    }

    /// A plan with reasons looks at every job, once every project has its share.
    fn with_reasons(&self, leaf: Leaf, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Never if self.is_silent => Verdict::Never,
            Verdict::Never if self.is_lending || leaf.is_none() => Verdict::Now,
            Verdict::Never => Verdict::Later,
            verdict => verdict,
        }
    }

    fn verdict_of_line(&self, leaf: Leaf, line: &PendingQueue) -> Verdict {
        let n_whole = line.least_whole();
        // The first job of a line preempts the most jobs.
        let preempts = || line.first().is_some_and(|first| self.may_preempt(leaf, first));
        if self.reads_all() || n_whole == 0 || preempts() {
            return Verdict::Now;
        }
        let finds_nothing = n_whole > self.cluster.capacity.most_free() && !self.scope.may_plan();
        if finds_nothing && (self.is_lending || leaf.is_none()) {
            return Verdict::Never;
        }
        // GPUs are the first of the counted kinds.
        let gpus = [MilliGpu::DEVICE.get().saturating_mul(n_whole as u64)];
        let by_quota = self.by_quota(leaf, &gpus, line.any_preemptible());
        by_quota.unwrap_or(Verdict::Now)
    }

    fn verdict(&self, leaf: Leaf, head: &QueueHead) -> Verdict {
        if self.reads_all() || self.may_preempt(leaf, (head.priority, head.joins)) {
            return Verdict::Now;
        }
        let finds_nothing = || self.finds_no_place(head) && !self.may_be_planned(head);
        let Some(projects) = self.cluster.projects.as_ref().filter(|_| leaf.is_some()) else {
            return if finds_nothing() { Verdict::Never } else { Verdict::Now };
        };
        if self.is_lending && finds_nothing() {
            return Verdict::Never;
        }
        let gpus = [head.gpus.get()];
        let all;
        let charge = match projects.kinds.len() {
            1 => &gpus[..],
            _ => {
                let world = self.world();
                all = projects.charge(world, &world.shape(head.shape_ix).shape);
                &all[..]
            }
        };
        match self.by_quota(leaf, charge, head.preemptible) {
            Some(Verdict::Later) if finds_nothing() => Verdict::Never,
            verdict => verdict.unwrap_or(Verdict::Now),
        }
    }

    /// The verdict by the quota of the project; `None` without shares.
    fn by_quota(&self, leaf: Leaf, charge: &[u64], preemptible: bool) -> Option<Verdict> {
        let (projects, row) = self.cluster.projects.as_ref().zip(leaf)?;
        let is_refused = || projects.bound(row, charge, preemptible, &[]).is_some();
        let is_limited_above = || projects.is_limited_above(row, charge, preemptible);
        Some(match self.is_lending {
            true if is_refused() => Verdict::Never,
            true => Verdict::Now,
            false if projects.is_entitled(row, charge) && (!is_refused() || is_limited_above()) => {
                Verdict::Now
            }
            false => Verdict::Later,
        })
    }

    /// Whether the demand of a job must be read before its verdict is known.
    fn reads_all(&self) -> bool {
        let projects = self.cluster.projects.as_ref();
        self.scope.policy.asks_attained()
            || self.cluster.holds.are_reserved()
            || projects.is_some_and(|projects| projects.classes.are_counted)
    }

    /// Whether a job is known to find no place, whatever its project.
    fn finds_no_place(&self, head: &QueueHead) -> bool {
        head.n_whole > self.cluster.capacity.most_free()
            || self.placing.has_failed(head.fit_ix, head.takes)
    }

    /// Whether a job might preempt others of its project.
    fn may_preempt(&self, leaf: Leaf, (priority, joins): (i32, bool)) -> bool {
        let Some(projects) = &self.cluster.projects else { return false };
        let policy = self.scope.policy;
        if !preemption::is_possible(self.world(), policy) {
            return false;
        }
        let project = leaf.map(|row| projects.project(row));
        let own = preempt::precedence(policy, (priority, joins), 0);
        own < self.lasts.of(project)
    }

    /// Whether a start might be planned for a job that finds no place.
    fn may_be_planned(&self, head: &QueueHead) -> bool {
        let priority = self.scope.priority_of(head.priority);
        let is_first = !self.scope.waiting_priorities.contains(&priority);
        self.scope.may_plan() && !head.joins && (self.scope.plans_always(head) || is_first)
    }
}
