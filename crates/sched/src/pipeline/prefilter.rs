//! Of whom nothing can come in a cycle, told without a look at what he asks for.

use gpool_model::{MilliGpu, OrderKey, PlannedStarts};
use gpool_world::{FitIx, Head, Line};

use super::Cycle;
use super::backfill::UNKNOWN_MAX;
use crate::pipeline::preempt;
use crate::pipeline::queue_order::{Glance, Leaf, Look};

impl Glance for Cycle<'_, '_> {
    fn at_line(&self, leaf: Leaf, line: &Line, is_lending: bool) -> Look {
        self.told(leaf, is_lending, self.look_at_line(leaf, line, is_lending))
    }

    fn at(&self, leaf: Leaf, head: &Head, is_lending: bool) -> Look {
        self.told(leaf, is_lending, self.look(leaf, head, is_lending))
    }
}

impl Cycle<'_, '_> {
    /// Whoever asks for reasons has a look at everybody, once nobody is entitled to more.
    fn told(&self, leaf: Leaf, is_lending: bool, look: Look) -> Look {
        match look {
            Look::Never if !self.waiting.is_silent && (is_lending || leaf.is_none()) => Look::Now,
            Look::Never if !self.waiting.is_silent => Look::Later,
            look => look,
        }
    }

    fn look_at_line(&self, leaf: Leaf, line: &Line, is_lending: bool) -> Look {
        let n_whole = line.least_whole();
        // Of a line the first goes before the most that run.
        let preempts = || line.first().is_some_and(|first| self.may_preempt(leaf, first));
        if self.looks_at_all() || n_whole == 0 || preempts() {
            return Look::Now;
        }
        let finds_nothing = n_whole > self.capacity.most_free() && !self.may_plan();
        if finds_nothing && (is_lending || leaf.is_none()) {
            return Look::Never;
        }
        let Some((projects, row)) = self.projects.as_ref().zip(leaf) else { return Look::Now };
        // GPUs are the first of what is counted.
        let gpus = [MilliGpu::DEVICE.get().saturating_mul(n_whole as u64)];
        let is_refused = || projects.bound(row, &gpus, line.any_preemptible(), &[]).is_some();
        let may_lift = || projects.may_lift(row, &gpus, line.any_preemptible());
        match is_lending {
            true if is_refused() => Look::Never,
            true => Look::Now,
            false if projects.is_entitled(row, &gpus) && (!is_refused() || may_lift()) => Look::Now,
            false => Look::Later,
        }
    }

    fn look(&self, leaf: Leaf, head: &Head, is_lending: bool) -> Look {
        if self.looks_at_all() || self.may_preempt(leaf, (head.priority, head.joins)) {
            return Look::Now;
        }
        let finds_nothing = || self.finds_no_room(head) && !self.may_be_planned(head);
        let Some((projects, row)) = self.projects.as_ref().zip(leaf) else {
            return if finds_nothing() { Look::Never } else { Look::Now };
        };
        if is_lending && finds_nothing() {
            return Look::Never;
        }
        let gpus = [head.gpus.get()];
        let all;
        let charge = match projects.n_kinds() {
            1 => &gpus[..],
            _ => {
                let world = self.snapshot.world;
                all = projects.charge(world, &world.shape(head.shape_ix).shape);
                &all[..]
            }
        };
        let is_refused = || projects.bound(row, charge, head.preemptible, &[]).is_some();
        let may_lift = || projects.may_lift(row, charge, head.preemptible);
        match is_lending {
            true if is_refused() => Look::Never,
            true => Look::Now,
            false if projects.is_entitled(row, charge) && (!is_refused() || may_lift()) => {
                Look::Now
            }
            false if finds_nothing() => Look::Never,
            false => Look::Later,
        }
    }

    /// Whether it takes a look at a job to know what comes of it.
    fn looks_at_all(&self) -> bool {
        self.domain.policy.asks_attained()
            || self.holds.are_reserved()
            || self.projects.as_ref().is_some_and(|projects| projects.classes.are_counted())
    }

    /// Whether it is known that a job finds no room, whoever asks.
    fn finds_no_room(&self, head: &Head) -> bool {
        let FitIx(fit_ix) = head.fit_ix;
        let failed = self.workspace.failed[fit_ix].as_ref();
        head.n_whole > self.capacity.most_free()
            || failed.is_some_and(|failed| failed.covers(head.takes))
    }

    /// Whether others of its project might go for a job.
    fn may_preempt(&self, leaf: Leaf, (priority, joins): (i32, bool)) -> bool {
        let Some(projects) = &self.projects else { return false };
        if !preempt::happens(self.snapshot.world, self.domain.policy) {
            return false;
        }
        let project = leaf.map(|row| projects.project(row));
        let asks = preempt::precedence(self.domain.policy, (priority, joins), 0);
        asks < self.evictions.lasts.of(project)
    }

    /// Whether more starts might be planned.
    fn may_plan(&self) -> bool {
        self.domain.n_planned < self.n_planned_max() && self.domain.unknown.len() < UNKNOWN_MAX
    }

    /// Whether a start might be planned for a job that finds no room.
    fn may_be_planned(&self, head: &Head) -> bool {
        let by_priority = self.domain.policy.order.contains(&OrderKey::Priority);
        let is_seen = self.domain.tops.contains(&if by_priority { head.priority } else { 0 });
        let by_right = head.is_escalated || self.domain.policy.planned_starts == PlannedStarts::All;
        self.may_plan() && !head.joins && (by_right || !is_seen)
    }
}
