//! Pending jobs, grouped by shape. Jobs of one shape differ only in age, so a cycle looks at the
//! first of each shape and skips the rest of a shape that does not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::{JobId, Millis, Shape, Timestamp};

use crate::projects::ProjectIx;

/// A row of the table of shapes; recycled when the last job of the shape leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapeIx(pub usize);

/// A row of the table of fits; recycled with its last shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FitIx(pub usize);

/// The pending jobs of one shape, oldest first.
#[derive(Debug, Clone)]
pub struct ShapeQueue {
    /// What they have in common.
    pub shape: Arc<Shape>,
    /// The row of `shape.project`.
    pub project_ix: ProjectIx,
    /// The row of `shape.fit`.
    pub fit_ix: FitIx,
    /// Jobs that have waited for less than escalation takes, by submission and id.
    pub fresh: BTreeSet<(Timestamp, JobId)>,
    /// Jobs that have waited longer, by submission and id.
    pub escalated: BTreeSet<(Timestamp, JobId)>,
    /// How many they are: an array stands in the sets once, for many elements.
    n_jobs: u64,
    /// For how many those stand that do not stand for one.
    n_by_job: BTreeMap<JobId, u64>,
}

impl ShapeQueue {
    /// How many jobs wait, elements of arrays one by one.
    #[must_use]
    pub fn n_jobs(&self) -> u64 {
        self.n_jobs
    }

    /// For how many jobs one of the sets stands.
    #[must_use]
    pub fn n_of(&self, job: JobId) -> u64 {
        self.n_by_job.get(&job).copied().unwrap_or(1)
    }

    fn note_n(&mut self, job: JobId, n: u64) {
        match n {
            1 => drop(self.n_by_job.remove(&job)),
            n => drop(self.n_by_job.insert(job, n)),
        }
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.escalated.is_empty()
    }
}

/// Where a pending job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub shape_ix: ShapeIx,
    pub submitted_at: Timestamp,
    /// When its wait began, as if it had been one spell.
    pub waits_since: Timestamp,
    pub is_escalated: bool,
}

/// All pending jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    // Invariant: `shapes[ix]` is `None` exactly for the rows in `free_shapes`; likewise fits.
    shapes: Vec<Option<ShapeQueue>>,
    free_shapes: BTreeSet<usize>,
    shape_by_content: BTreeMap<Arc<Shape>, ShapeIx>,
    n_shapes_by_fit: Vec<usize>,
    free_fits: BTreeSet<usize>,
    fit_by_content: BTreeMap<Fit, FitIx>,
    places: BTreeMap<JobId, Place>,
    n_jobs: u64,
    /// Jobs that are not escalated, by the beginning of their wait.
    to_escalate: BTreeSet<(Timestamp, JobId)>,
}

impl Queue {
    pub fn insert(
        &mut self,
        job: JobId,
        n: u64,
        (shape, project_ix): (Shape, ProjectIx),
        submitted_at: Timestamp,
        waits_since: Timestamp,
    ) {
        let shape_ix = self.intern(shape, project_ix);
        let place = Place { shape_ix, submitted_at, waits_since, is_escalated: false };
        let queue = self.queue_mut(shape_ix);
        queue.fresh.insert((submitted_at, job));
        queue.n_jobs += n;
        queue.note_n(job, n);
        self.n_jobs += n;
        self.to_escalate.insert((waits_since, job));
        let before = self.places.insert(job, place);
        assert!(before.is_none(), "job {job} is queued once");
    }

    pub fn remove(&mut self, job: JobId) {
        let place = self.places.remove(&job).expect("only queued jobs are removed");
        let queue = self.queue_mut(place.shape_ix);
        let set = if place.is_escalated { &mut queue.escalated } else { &mut queue.fresh };
        assert!(set.remove(&(place.submitted_at, job)), "a queued job is in its shape's set");
        let n = queue.n_of(job);
        queue.n_jobs -= n;
        queue.note_n(job, 1);
        self.n_jobs -= n;
        self.to_escalate.remove(&(place.waits_since, job));
        if self.queue_mut(place.shape_ix).is_empty() {
            self.forget(place.shape_ix);
        }
    }

    /// Says for how many jobs one stands.
    pub fn set_n(&mut self, job: JobId, n: u64) {
        let shape_ix = self.places.get(&job).expect("only queued jobs are counted").shape_ix;
        let queue = self.queue_mut(shape_ix);
        let before = queue.n_of(job);
        queue.n_jobs = queue.n_jobs - before + n;
        queue.note_n(job, n);
        self.n_jobs = self.n_jobs - before + n;
    }

    /// Escalates every job that has waited so long by `now`.
    pub fn advance(&mut self, now: Timestamp, escalate_after: Millis) {
        while let Some(&(waits_since, job)) = self.to_escalate.first() {
            if waits_since.after(escalate_after) > now {
                break;
            }
            self.escalate(job);
        }
    }

    /// Escalates a job that is not.
    pub fn escalate(&mut self, job: JobId) {
        let place = self.places.get_mut(&job).expect("only queued jobs escalate");
        place.is_escalated = true;
        let place = *place;
        self.to_escalate.remove(&(place.waits_since, job));
        let queue = self.queue_mut(place.shape_ix);
        queue.fresh.remove(&(place.submitted_at, job));
        queue.escalated.insert((place.submitted_at, job));
    }

    /// Every pending job, by id.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.places.keys().copied()
    }

    /// Takes every escalation back, for `advance` to decide anew under another policy.
    pub fn reset_escalation(&mut self) {
        for (job, place) in &mut self.places {
            if place.is_escalated {
                place.is_escalated = false;
                let queue = self.shapes[place.shape_ix.0].as_mut().expect("shape of a queued job");
                queue.escalated.remove(&(place.submitted_at, *job));
                queue.fresh.insert((place.submitted_at, *job));
                self.to_escalate.insert((place.waits_since, *job));
            }
        }
    }

    /// When the next job escalates.
    pub fn next_escalation(&self, escalate_after: Millis) -> Option<Timestamp> {
        self.to_escalate.first().map(|(waits_since, _)| waits_since.after(escalate_after))
    }

    pub fn shapes(&self) -> impl Iterator<Item = (ShapeIx, &ShapeQueue)> {
        let rows = self.shapes.iter().enumerate();
        rows.filter_map(|(ix, queue)| Some((ShapeIx(ix), queue.as_ref()?)))
    }

    pub fn shape(&self, ix: ShapeIx) -> &ShapeQueue {
        self.shapes[ix.0].as_ref().expect("rows are asked for while their shape waits")
    }

    pub fn place(&self, job: JobId) -> Option<Place> {
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
