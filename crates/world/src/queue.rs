//! Pending jobs, grouped by shape. Jobs of one shape differ only in age, so a cycle looks at the
//! first job of each shape and skips the others if it does not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::{JobId, Policy, PoolName, Shape, Timestamp};

use crate::lines::{self, PendingQueue, PendingQueueKey, PendingQueues};
use crate::row::{FitIx, ProjectIx, ShapeIx};

/// The first fresh job and the first escalated one.
type Firsts = [Option<(Timestamp, JobId)>; 2];

/// The pending jobs of one shape, oldest first.
#[derive(Debug, Clone)]
pub struct ShapeQueue {
    /// What the jobs have in common.
    pub shape: Arc<Shape>,
    /// The shape of each of its parts, if it has parts.
    pub parts: Vec<Shape>,
    /// The row of `shape.project`.
    pub project_ix: ProjectIx,
    /// The row of `shape.fit`.
    pub fit_ix: FitIx,
    /// Jobs that have waited for less than the escalation time, by submission and ID.
    pub fresh: BTreeSet<(Timestamp, JobId)>,
    /// Jobs that have waited longer, by submission and ID.
    pub escalated: BTreeSet<(Timestamp, JobId)>,
    /// How many jobs wait: an array is in the sets once and counts for many elements.
    n_jobs: u64,
    /// How many jobs an entry counts for, if not one.
    n_by_job: BTreeMap<JobId, u64>,
}

impl ShapeQueue {
    /// How many jobs wait, elements of arrays one by one.
    #[must_use]
    pub fn n_jobs(&self) -> u64 {
        self.n_jobs
    }

    /// Returns how many jobs an entry of the sets counts for.
    #[must_use]
    pub fn n_of(&self, job: JobId) -> u64 {
        self.n_by_job.get(&job).copied().unwrap_or(1)
    }

    /// The pending queue that the jobs belong to.
    #[must_use]
    pub fn line(&self) -> PendingQueueKey {
        PendingQueueKey { project_ix: self.project_ix, uid: self.shape.uid }
    }

    /// The heads: the first of `fresh` and the first of `escalated`.
    fn firsts(&self) -> Firsts {
        [&self.fresh, &self.escalated].map(|jobs| jobs.first().copied())
    }

    fn note_n(&mut self, job: JobId, n: u64) {
        match n {
            1 => drop(self.n_by_job.remove(&job)),
            n => drop(self.n_by_job.insert(job, n)),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.escalated.is_empty()
    }
}

/// The position of a pending job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuePosition {
    pub shape_ix: ShapeIx,
    pub submitted_at: Timestamp,
    /// When its wait began, with all its waits put together into one.
    pub waits_since: Timestamp,
    pub is_escalated: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    // Invariant: `shapes[ix]` is `None` exactly for the rows in `free_shapes`; likewise fits.
    shapes: Vec<Option<ShapeQueue>>,
    free_shapes: BTreeSet<usize>,
    shape_by_content: BTreeMap<Arc<Shape>, ShapeIx>,
    n_shapes_by_fit: Vec<usize>,
    free_fits: BTreeSet<usize>,
    fit_by_content: BTreeMap<Fit, FitIx>,
    places: BTreeMap<JobId, QueuePosition>,
    n_jobs: u64,
    /// Jobs that are not escalated, by the time at which they will be.
    to_escalate: BTreeSet<(Timestamp, JobId)>,
    lines: PendingQueues,
}

impl Queue {
    pub fn insert(
        &mut self,
        job: JobId,
        n: u64,
        (shape, project_ix): (Shape, ProjectIx),
        (submitted_at, waits_since): (Timestamp, Timestamp),
        policy: &Policy,
    ) {
        let shape_ix = self.intern(shape, project_ix);
        let place = QueuePosition { shape_ix, submitted_at, waits_since, is_escalated: false };
        let queue = self.queue_mut(shape_ix);
        let firsts = queue.firsts();
        queue.fresh.insert((submitted_at, job));
        queue.note_n(job, n);
        self.change_n(shape_ix, 0, n);
        self.to_escalate.insert((self.escalates_at(place, policy), job));
        let before = self.places.insert(job, place);
        assert!(before.is_none(), "job {job} is queued once");
        self.stand_in_line(shape_ix, firsts, policy);
    }

    pub fn remove(&mut self, job: JobId, policy: &Policy) {
        let place = self.places.remove(&job).expect("only queued jobs are removed");
        let queue = self.queue_mut(place.shape_ix);
        let firsts = queue.firsts();
        let set = if place.is_escalated { &mut queue.escalated } else { &mut queue.fresh };
        assert!(set.remove(&(place.submitted_at, job)), "a queued job is in its shape's set");
        let n = queue.n_of(job);
        queue.note_n(job, 1);
        self.change_n(place.shape_ix, n, 0);
        self.to_escalate.remove(&(self.escalates_at(place, policy), job));
        self.stand_in_line(place.shape_ix, firsts, policy);
        if self.queue_mut(place.shape_ix).is_empty() {
            self.forget(place.shape_ix);
        }
    }

    fn escalates_at(&self, place: QueuePosition, policy: &Policy) -> Timestamp {
        let domain = self.shape(place.shape_ix).shape.domain.as_ref();
        place.waits_since.after(policy.of_pool(domain).escalate_after)
    }

    /// Sets how many jobs an entry counts for.
    pub fn set_n(&mut self, job: JobId, n: u64) {
        let shape_ix = self.places.get(&job).expect("only queued jobs are counted").shape_ix;
        let queue = self.queue_mut(shape_ix);
        let before = queue.n_of(job);
        queue.note_n(job, n);
        self.change_n(shape_ix, before, n);
    }

    /// Replaces a count of `before` jobs of a shape by `n`.
    fn change_n(&mut self, shape_ix: ShapeIx, before: u64, n: u64) {
        self.n_jobs = self.n_jobs - before + n;
        let queue = self.shapes[shape_ix.0].as_mut().expect("rows are asked for while it waits");
        queue.n_jobs = queue.n_jobs - before + n;
        self.lines.ask((queue.shape.domain.as_ref(), queue.line()), &queue.shape, before, n);
    }

    /// Puts the present heads of a shape into its queue, in place of the previous ones.
    fn stand_in_line(&mut self, shape_ix: ShapeIx, before: Firsts, policy: &Policy) {
        let queue = self.shapes[shape_ix.0].as_ref().expect("rows are asked for while it waits");
        let rows = (shape_ix, queue.fit_ix);
        let policy = policy.of_pool(queue.shape.domain.as_ref());
        let firsts = before.into_iter().zip(queue.firsts());
        for ((before, now), is_escalated) in firsts.zip([false, true]) {
            if before == now {
                continue;
            }
            let head = |job| lines::head(policy, &queue.shape, rows, is_escalated, job);
            if let Some(before) = before {
                self.lines.remove((queue.shape.domain.as_ref(), queue.line()), &head(before));
            }
            if let Some(now) = now {
                self.lines.insert((queue.shape.domain.as_ref(), queue.line()), head(now));
            }
        }
    }

    /// Recomputes the order of all jobs under another policy. Jobs escalate again only when time
    /// advances.
    pub fn line_up_anew(&mut self, policy: &Policy) {
        self.lines.clear_heads();
        self.reset_escalation(policy);
        let rows: Vec<ShapeIx> = self.shapes().map(|(ix, _)| ix).collect();
        for ix in rows {
            self.stand_in_line(ix, [None, None], policy);
        }
    }

    pub fn lines(
        &self,
    ) -> impl Iterator<Item = (Option<&PoolName>, PendingQueueKey, &PendingQueue)> {
        self.lines.all()
    }

    pub fn lines_of(
        &self,
        domain: Option<&PoolName>,
    ) -> impl Iterator<Item = (PendingQueueKey, &PendingQueue)> {
        self.lines.of(domain)
    }

    /// Escalates every job that is due by `now`.
    pub fn advance(&mut self, now: Timestamp, policy: &Policy) {
        while let Some(&(at, job)) = self.to_escalate.first() {
            if at > now {
                break;
            }
            self.escalate(job, policy);
        }
    }

    /// Escalates a job that is not escalated.
    pub fn escalate(&mut self, job: JobId, policy: &Policy) {
        let place = self.places.get_mut(&job).expect("only queued jobs escalate");
        place.is_escalated = true;
        let place = *place;
        self.to_escalate.remove(&(self.escalates_at(place, policy), job));
        let queue = self.queue_mut(place.shape_ix);
        let firsts = queue.firsts();
        queue.fresh.remove(&(place.submitted_at, job));
        queue.escalated.insert((place.submitted_at, job));
        self.stand_in_line(place.shape_ix, firsts, policy);
    }

    /// Every pending job, by id.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.places.keys().copied()
    }

    /// Undoes every escalation; `advance` decides again.
    fn reset_escalation(&mut self, policy: &Policy) {
        for (job, place) in &mut self.places {
            if place.is_escalated {
                place.is_escalated = false;
                let queue = self.shapes[place.shape_ix.0].as_mut().expect("shape of a queued job");
                queue.escalated.remove(&(place.submitted_at, *job));
                queue.fresh.insert((place.submitted_at, *job));
            }
        }
        let all = self.places.iter();
        let all = all.map(|(job, place)| (self.escalates_at(*place, policy), *job));
        self.to_escalate = all.collect();
    }

    pub fn next_escalation(&self) -> Option<Timestamp> {
        self.to_escalate.first().map(|(at, _)| *at)
    }

    pub fn shapes(&self) -> impl Iterator<Item = (ShapeIx, &ShapeQueue)> {
        let rows = self.shapes.iter().enumerate();
        rows.filter_map(|(ix, queue)| Some((ShapeIx(ix), queue.as_ref()?)))
    }

    pub fn shape(&self, ix: ShapeIx) -> &ShapeQueue {
        self.shapes[ix.0].as_ref().expect("rows are asked for while their shape waits")
    }

    pub fn place(&self, job: JobId) -> Option<QueuePosition> {
        self.places.get(&job).copied()
    }

    pub fn n_jobs(&self) -> u64 {
        self.n_jobs
    }

    pub fn n_fit_rows(&self) -> usize {
        self.n_shapes_by_fit.len()
    }

    fn queue_mut(&mut self, ix: ShapeIx) -> &mut ShapeQueue {
        self.shapes[ix.0].as_mut().expect("rows are asked for while their shape waits")
    }

    fn intern(&mut self, shape: Shape, project_ix: ProjectIx) -> ShapeIx {
        if let Some(ix) = self.shape_by_content.get(&shape) {
            return *ix;
        }
        let fit_ix = self.intern_fit(&shape.fit);
        let shape = Arc::new(shape);
        let row = ShapeQueue {
            shape: Arc::clone(&shape),
            parts: (0..shape.parts.len()).map(|at| shape.of_part(at)).collect(),
            project_ix,
            fit_ix,
            fresh: BTreeSet::new(),
            escalated: BTreeSet::new(),
            n_jobs: 0,
            n_by_job: BTreeMap::new(),
        };
        let ix = match self.free_shapes.pop_first() {
            Some(ix) => {
                self.shapes[ix] = Some(row);
                ShapeIx(ix)
            }
            None => {
                self.shapes.push(Some(row));
                ShapeIx(self.shapes.len() - 1)
            }
        };
        self.shape_by_content.insert(shape, ix);
        ix
    }

    fn intern_fit(&mut self, fit: &Fit) -> FitIx {
        if let Some(ix) = self.fit_by_content.get(fit) {
            self.n_shapes_by_fit[ix.0] += 1;
            return *ix;
        }
        let ix = match self.free_fits.pop_first() {
            Some(ix) => {
                self.n_shapes_by_fit[ix] = 1;
                FitIx(ix)
            }
            None => {
                self.n_shapes_by_fit.push(1);
                FitIx(self.n_shapes_by_fit.len() - 1)
            }
        };
        self.fit_by_content.insert(fit.clone(), ix);
        ix
    }

    fn forget(&mut self, ix: ShapeIx) {
        let row = self.shapes[ix.0].take().expect("rows are forgotten once");
        self.free_shapes.insert(ix.0);
        self.shape_by_content.remove(&row.shape);
        self.n_shapes_by_fit[row.fit_ix.0] -= 1;
        if self.n_shapes_by_fit[row.fit_ix.0] == 0 {
            self.free_fits.insert(row.fit_ix.0);
            self.fit_by_content.remove(&row.shape.fit);
        }
    }
}
