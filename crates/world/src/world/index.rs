//! The entries of a job in the indexes: the counts that it adds to, its place in the pending queue,
//! the jobs that wait for its end, and the resources that it books.

use gpool_model::attained::Level;
use gpool_model::job::{DependencyKind, JobState};
use gpool_model::plan::Fit;
use gpool_model::{
    Allocation, AllocationState, Bytes, Dependency, GpuTime, JobId, JobRequest, Likeness, Millis,
    NodeFilter, OrderKey, PartFit, Phase, Placement, Policy, Shape, Timestamp,
};

use crate::ends::FreedOn;
use crate::row::JobRow;
use crate::world::World;

impl World {
    pub(crate) fn index(&mut self, row: &JobRow) {
        self.count(row);
        self.await_others(row);
        self.gangs.insert(row);
        self.groups.insert(row);
        match &row.job.phase {
            Phase::Pending { .. } => self.enqueue(row),
            Phase::Waiting { .. }
            | Phase::Held { .. }
            | Phase::Underway { .. }
            | Phase::Ended(_) => {}
            Phase::Starting { allocations, .. }
            | Phase::Running { allocations, .. }
            | Phase::Paused { allocations, .. }
            | Phase::Stopping { allocations, .. } => {
                self.enqueue(row);
                self.holding.insert(row.job.id);
                self.asks.add(&row.spec);
                let claimed = |it: &Allocation| matches!(it.state, AllocationState::Claimed { .. });
                if allocations.iter().any(claimed) {
                    self.claimants.insert(row.job.id);
                }
                let pausing = |it: &Allocation| it.state == AllocationState::Pausing;
                if matches!(row.job.phase, Phase::Stopping { .. })
                    || allocations.iter().any(pausing)
                {
                    self.leaving.insert(row.job.id);
                }
                let mut freed = Vec::with_capacity(allocations.len());
                for allocation in allocations {
                    let ix = self.node_by_name.get(&allocation.node);
                    let node = *ix.expect("an allocation is on an existing node");
                    self.nodes[node.0].book(allocation);
                    freed.push(FreedOn { node, n_devices: allocation.held_slots().len() });
                }
                self.ends.insert(row, freed.into());
            }
        }
    }

    pub(crate) fn unindex(&mut self, row: &JobRow) {
        self.uncount(row);
        self.await_no_others(row);
        self.gangs.remove(row);
        self.groups.remove(row);
        match &row.job.phase {
            Phase::Pending { .. } => self.unqueue(row),
            Phase::Waiting { .. }
            | Phase::Held { .. }
            | Phase::Underway { .. }
            | Phase::Ended(_) => {}
            Phase::Starting { allocations, .. }
            | Phase::Running { allocations, .. }
            | Phase::Paused { allocations, .. }
            | Phase::Stopping { allocations, .. } => {
                if row.job.phase.waits_for_room_since().is_some() {
                    self.unqueue(row);
                }
                self.holding.remove(&row.job.id);
                self.asks.remove(&row.spec);
                self.claimants.remove(&row.job.id);
                self.leaving.remove(&row.job.id);
                self.ends.remove(row);
                for allocation in allocations {
                    let ix = self.node_by_name.get(&allocation.node);
                    let ix = ix.expect("an allocation is on an existing node");
                    self.nodes[ix.0].unbook(allocation);
                }
            }
        }
    }

    /// Recomputes the shapes of pending jobs.
    pub(crate) fn queue_anew(&mut self, jobs: &[JobId]) {
        for id in jobs {
            let row = self.jobs[id].clone();
            let is_escalated = self.queue.place(*id).is_some_and(|place| place.is_escalated);
            self.unqueue(&row);
            self.enqueue(&row);
            if is_escalated {
                self.queue.escalate(*id, &self.policy);
            }
        }
    }

    pub(crate) fn enqueue(&mut self, row: &JobRow) {
        let Some(since) = row.job.phase.waits_for_room_since() else { return };
        let waits_since = Timestamp::new(since.get().saturating_sub(row.job.waited.get()));
        let had = row.job.net_gpu_time(since);
        let waits_since = waits_since
            .after(self.policy_of(row).escalates_later_by(had, row.spec.gpus_together()));
        let shape = self.shape_of(row);
        let n = row.job.array.as_ref().map_or(1, |array| u64::from(array.unstarted.len()));
        let project_ix = self.project_ix(&row.spec.project);
        let key = (shape, project_ix);
        let since = (row.spec.submitted_at, waits_since);
        self.queue.insert(row.job.id, n, key, since, &self.policy);
        if self.policy_of(row).order.contains(&OrderKey::Predicted) {
            let like = Likeness::of(&row.spec);
            self.pending_by_like.entry(like).or_default().insert(row.job.id);
        }
    }

    pub(crate) fn unqueue(&mut self, row: &JobRow) {
        self.queue.remove(row.job.id, &self.policy);
        if self.pending_by_like.is_empty() {
            return;
        }
        let like = Likeness::of(&row.spec);
        if let Some(jobs) = self.pending_by_like.get_mut(&like) {
            jobs.remove(&row.job.id);
            if jobs.is_empty() {
                self.pending_by_like.remove(&like);
            }
        }
    }

    pub(crate) fn count(&mut self, row: &JobRow) {
        for (state, n) in counts(row) {
            *self.n_by_state.entry(state).or_default() += n;
            self.count_for_user(row, state, n);
        }
        self.count_dependencies(row);
        self.count_held(row);
        self.count_for_project(row);
        self.set_timers(row);
        self.set_rotations(row);
        self.n_arrays += usize::from(row.job.array.is_some());
        self.n_with_share_rule += usize::from(row.spec.share_with.is_some());
        if row.job.id.element.is_some() {
            let own = self.elements.entry(row.job.id.number).or_default();
            own.n_rows += 1;
            own.n_live += u32::from(is_live(row));
            self.n_element_rows += 1;
        }
    }

    pub(crate) fn uncount(&mut self, row: &JobRow) {
        for (state, n) in counts(row) {
            take(&mut self.n_by_state, &state, n);
            self.uncount_for_user(row, state, n);
        }
        self.uncount_dependencies(row);
        self.uncount_held(row);
        self.uncount_for_project(row);
        self.unset_timers(row);
        self.unset_rotations(row);
        self.n_arrays -= usize::from(row.job.array.is_some());
        self.n_with_share_rule -= usize::from(row.spec.share_with.is_some());
        let number = row.job.id.number;
        if row.job.id.element.is_some()
            && let Some(own) = self.elements.get_mut(&number)
        {
            own.n_rows -= 1;
            own.n_live -= u32::from(is_live(row));
            if own.n_rows == 0 {
                self.elements.remove(&number);
            }
            self.n_element_rows -= 1;
        }
    }

    pub(crate) fn await_others(&mut self, row: &JobRow) {
        for dependency in awaited(row) {
            self.dependents.entry(dependency.job).or_default().insert(row.job.id);
        }
    }

    pub(crate) fn await_no_others(&mut self, row: &JobRow) {
        for dependency in awaited(row) {
            if let Some(waiting) = self.dependents.get_mut(&dependency.job) {
                waiting.remove(&row.job.id);
                if waiting.is_empty() {
                    self.dependents.remove(&dependency.job);
                }
            }
        }
    }

    #[must_use]
    pub fn shape_of(&self, row: &JobRow) -> Shape {
        let spec = &row.spec;
        let policy = self.policy_of(row);
        let asks = policy.order.contains(&OrderKey::Predicted);
        let prediction = asks.then(|| self.prediction(spec)).flatten();
        let parts = spec.part_fits(|part| fit_of_request(row, part));
        Shape {
            project: spec.project.clone(),
            uid: self.told_apart(spec.owner.uid, &spec.project),
            reserved_as: self.reserved_as(JobId { element: None, ..row.job.id }),
            domain: self.policy.domain(spec.pool.as_ref()).cloned(),
            priority: row.job.priority,
            preemptible: spec.life.preemptible == Some(true),
            joins: spec.joins.is_some(),
            takes: Shape::takes(left_of(row), spec.grace),
            predicted: prediction.map(|prediction| Shape::rounded_length(prediction.p50)),
            level: level_of(policy, row.job.net_gpu_time(Timestamp::ZERO)),
            fit: first_of(&parts, || fit_of_request(row, &spec.request)),
            parts,
        }
    }

    /// Whether some jobs do not accept all others on their devices.
    #[must_use]
    pub fn has_share_rules(&self) -> bool {
        self.n_with_share_rule > 0 || self.policy.has_share_rule()
    }

    /// The policy that decides about a job.
    #[must_use]
    pub fn policy_of(&self, row: &JobRow) -> &Policy {
        self.policy.of_pool(row.spec.pool.as_ref())
    }

    /// Returns the shape of a new job of a user, as far as the shape decides about its placement.
    #[must_use]
    pub fn shape_of_new(&self, new: &JobRequest, uid: u32) -> Shape {
        let parts = new.part_fits(|part| fit_of_new(part, uid));
        Shape {
            project: new.project.clone(),
            uid: self.told_apart(uid, &new.project),
            reserved_as: None,
            domain: self.policy.domain(new.pool.as_ref()).cloned(),
            priority: new.standing.priority,
            preemptible: new.life.preemptible == Some(true),
            joins: false,
            takes: Shape::takes(new.time_limit, new.grace),
            predicted: None,
            level: level_of(self.policy.of_pool(new.pool.as_ref()), GpuTime::ZERO),
            fit: first_of(&parts, || fit_of_new(new, uid)),
            parts,
        }
    }
}

/// Returns the level of a pending job with this attained GPU-time, if the order uses levels.
fn level_of(policy: &Policy, had: GpuTime) -> Option<Level> {
    policy.asks_attained().then(|| policy.level(had))
}

/// Returns how much of its time limit a job has left.
fn left_of(row: &JobRow) -> Option<Millis> {
    let limit = row.spec.time_limit?;
    let ran = row.job.phase.is_parked().then(|| row.job.ran(Timestamp::ZERO));
    Some(limit.saturating_sub(ran.unwrap_or_default()))
}

/// Returns what each part of a job asks of nodes, or the whole job if it has no parts. A paused job
/// asks for the devices that it had and for its cores.
#[must_use]
pub fn fits_of(row: &JobRow) -> Vec<Fit> {
    let parts = row.spec.part_fits(|part| fit_of_request(row, part));
    match parts.is_empty() {
        true => vec![fit_of_request(row, &row.spec.request)],
        false => parts.into_iter().map(|part| part.fit).collect(),
    }
}

/// The same by the request of one part.
fn fit_of_request(row: &JobRow, request: &JobRequest) -> Fit {
    let place = |it: &Allocation| Placement { node: it.node.clone(), slots: it.slots.clone() };
    let is_parked = row.job.phase.is_parked();
    let at = row.job.phase.allocations().iter().map(place);
    let fit = fit_of_new(request, row.spec.owner.uid);
    match is_parked {
        false => Fit { lacking_nodes: row.job.course.lacking_nodes.clone(), ..fit },
        true => {
            let nodes = NodeFilter::while_paused(request.nodes.as_ref());
            Fit { memory: Bytes::ZERO, pool: None, nodes, at: at.collect(), ..fit }
        }
    }
}

/// The requirements of the first part, or of a whole job.
fn first_of(parts: &[PartFit], whole: impl FnOnce() -> Fit) -> Fit {
    parts.first().map_or_else(whole, |part| part.fit.clone())
}

fn fit_of_new(new: &JobRequest, uid: u32) -> Fit {
    Fit { sharer: new.sharer(uid).map(Box::new), ..Fit::of(new) }
}

/// Whether a job holds anything but host memory.
fn is_live(row: &JobRow) -> bool {
    !row.job.phase.allocations().is_empty() && !row.job.phase.is_parked()
}

/// Returns how many jobs of each state a row counts for. The row of an array counts for its
/// elements that have no row.
fn counts(row: &JobRow) -> impl Iterator<Item = (JobState, u64)> {
    let state = row.job.phase.state();
    let counts = match (&row.job.array, &row.job.phase) {
        (None, _) => [(state, 1), (state, 0)],
        (Some(array), Phase::Pending { .. }) => {
            [(state, array.unstarted.len()), (JobState::Waiting, array.waiting.len())]
        }
        (Some(array), _) => [(state, array.n_unstarted()), (state, 0)],
    };
    counts.into_iter().filter(|(_, n)| *n > 0).map(|(state, n)| (state, u64::from(n)))
}

/// The dependencies of a row that has not started. Those that are met count too: an element that
/// has ended may run again.
fn awaited(row: &JobRow) -> impl Iterator<Item = &Dependency> {
    let waits =
        matches!(row.job.phase, Phase::Waiting { .. } | Phase::Held { .. } | Phase::Pending { .. });
    let in_part = row.job.array.as_ref().is_some_and(|array| !array.waiting.is_empty());
    let each = move |after: &&Dependency| in_part && after.kind == DependencyKind::Each;
    let one = row.spec.life.after_one.iter().filter(move |_| waits);
    row.spec.after.iter().filter(move |after| waits || each(after)).chain(one)
}

fn take<K: Ord>(counts: &mut std::collections::BTreeMap<K, u64>, key: &K, n: u64) {
    if let Some(count) = counts.get_mut(key) {
        *count -= n;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
