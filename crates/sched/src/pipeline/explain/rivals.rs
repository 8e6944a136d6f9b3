//! The jobs that wait for the same capacity as a job, and their place in the queue.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{JobId, Node, PartFit, Reason, Shape};
use gpool_world::order::Rank;
use gpool_world::{FitIx, JobRow, ShapeIx, ShapeQueue};

use super::{Explainer, is_quota};

/// The jobs that wait for the same capacity as a job. Jobs that can only use other devices, and no
/// host resources of the same nodes, do not count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rivals {
    /// Number of jobs before it; elements of arrays count one by one.
    pub n_ahead: u64,
    /// The last jobs before it, the nearest last.
    pub last: Vec<JobId>,
    /// Number of jobs that wait for the same capacity, with the job itself.
    pub n_waiting: u64,
}

impl Explainer<'_> {
    /// Returns the jobs that wait for the same capacity as a job, with the last `n_named` before
    /// it. `None` for a job that does not wait for capacity.
    #[must_use]
    pub fn rivals(&self, row: &JobRow, n_named: usize) -> Option<Rivals> {
        let world = self.snapshot.world;
        let policy = world.policy_of(row);
        let (shape_ix, is_escalated) = self.queued(row)?;
        let own_queue = world.shape(shape_ix);
        let (stands_for, n_before) = self.in_array(row);
        let submitted_at = row.spec.submitted_at;
        let own = Rank::of(policy, &own_queue.shape, is_escalated, submitted_at, stands_for);
        let mut contest = Contest {
            nodes: world.nodes().iter().map(|row| &row.node).collect(),
            own: &own_queue.shape,
            by_shape: BTreeMap::new(),
            // Jobs that never use the same node may share a quota.
            is_open: self.no_place(row).as_ref().is_some_and(is_quota),
        };
        let domain = own_queue.shape.domain.as_ref();
        let mut rivals = Rivals::default();
        let mut last = BTreeSet::new();
        for (_, queue) in world.shapes().filter(|(_, it)| it.shape.domain.as_ref() == domain) {
            if !contest.meets(queue) {
                continue;
            }
            rivals.n_waiting += queue.n_jobs();
            for (jobs, is_escalated) in [(&queue.escalated, true), (&queue.fresh, false)] {
                for (submitted_at, job) in jobs {
                    let rank = Rank::of(policy, &queue.shape, is_escalated, *submitted_at, *job);
                    // Within one shape ages only grow, so the rest comes later too.
                    if rank >= own {
                        break;
                    }
                    rivals.n_ahead += queue.n_of(*job);
                    last.insert(rank);
                    if last.len() > n_named {
                        last.pop_first();
                    }
                }
            }
        }
        rivals.last = last.into_iter().map(|rank| rank.job()).collect();
        rivals.n_ahead += n_before.len() as u64;
        rivals.last.extend(n_before);
        let n_too_many = rivals.last.len().saturating_sub(n_named);
        rivals.last.drain(..n_too_many);
        Some(rivals)
    }

    /// The number of jobs before a job, and the last of them.
    pub(super) fn ahead(&self, row: &JobRow) -> Option<Reason> {
        let Rivals { n_ahead, last, .. } = self.rivals(row, 1)?;
        last.last().map(|job| Reason::AheadInOrder { job: *job, n_ahead })
    }

    /// The place of a waiting job in the queue: an element that was never started has the place of
    /// its array.
    pub(super) fn queued(&self, row: &JobRow) -> Option<(ShapeIx, bool)> {
        let place = |job| self.snapshot.world.place_of(job);
        place(row.job.id).or_else(|| place(JobId { element: None, ..row.job.id }))
    }

    /// The row of the queue that stands for a job, and the elements of the same array before it.
    fn in_array(&self, row: &JobRow) -> (JobId, Vec<JobId>) {
        let id = row.job.id;
        let world = self.snapshot.world;
        let Some((array, position)) = world.position_of(id).filter(|_| world.job(id).is_none())
        else {
            return (id, Vec::new());
        };
        let unstarted = array.job.array.as_ref().map(|it| &it.unstarted);
        let before = unstarted.into_iter().flat_map(|it| it.iter()).take_while(|at| *at < position);
        let indexes = array.spec.array.as_ref().map(|it| &it.indexes);
        let elements = before.filter_map(|at| indexes?.at(at));
        let elements = elements.map(|index| JobId { element: Some(index), ..id });
        (array.job.id, elements.collect())
    }
}

/// The test whether other jobs could use the capacity that a job waits for.
struct Contest<'a> {
    nodes: Vec<&'a Node>,
    own: &'a Shape,
    by_shape: BTreeMap<(FitIx, &'a [PartFit]), bool>,
    is_open: bool,
}

impl<'a> Contest<'a> {
    fn meets(&mut self, queue: &'a ShapeQueue) -> bool {
        let (nodes, own) = (&self.nodes, self.own);
        let meet = |node| own.fits().any(|fit| queue.shape.fits().any(|it| meet(node, fit, it)));
        let meets = || nodes.iter().any(|node| meet(*node));
        let key = (queue.fit_ix, &queue.shape.parts[..]);
        self.is_open || *self.by_shape.entry(key).or_insert_with(meets)
    }
}

/// Whether two fits could use the same part of a node: a device, CPU cores or memory.
fn meet(node: &Node, one: &Fit, other: &Fit) -> bool {
    if !one.may_be_on(node) || !other.may_be_on(node) {
        return false;
    }
    let wants = |fit: &Fit, device_ix: usize| {
        let device = &node.devices[device_ix];
        !fit.gpus.is_none()
            && fit.gpus.rank_of(device).is_some()
            && fit.may_have(node, &device.uuid)
    };
    let devices = || 0..node.devices.len();
    let can_run = |fit: &Fit| fit.gpus.is_none() || devices().any(|ix| wants(fit, ix));
    let book_cpus = !one.cpus.is_zero() && !other.cpus.is_zero();
    let book_memory = !one.memory.is_zero() && !other.memory.is_zero();
    devices().any(|ix| wants(one, ix) && wants(other, ix))
        || ((book_cpus || book_memory) && can_run(one) && can_run(other))
}
