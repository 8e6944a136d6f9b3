//! When jobs that hold something are expected to end, indexed so that the next ends are found
//! without a look at the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, btree_map};
use std::ops::Bound;

use gpool_model::{AllocationState, JobId, Likeness, Millis, Phase, StartBasis, Timestamp};

use crate::past::Past;
use crate::row::{JobRow, NodeIx};

/// When one job is expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedEnd {
    pub at: Timestamp,
    pub job: JobId,
    pub basis: StartBasis,
}

/// The part of an expected end that does not depend on the present time.
enum EndEstimate {
    /// It ends by this time.
    At(Timestamp),
    /// It started at this time and runs as long as jobs like it.
    Like(Timestamp, Likeness),
}

impl EndEstimate {
    fn of(row: &JobRow) -> Option<Self> {
        let started_at = match &row.job.phase {
            Phase::Starting { since, .. } => *since,
            Phase::Running { started_at, .. } => started_at.after(row.job.course.paused),
            Phase::Stopping { allocations, since, .. } => {
                let deadlines = allocations.iter().map(|allocation| match allocation.state {
                    AllocationState::Releasing { deadline } => deadline,
                    _ => since.after(row.spec.grace),
                });
                return Some(Self::At(deadlines.max().unwrap_or(*since)));
            }
            // An order to pause takes as long at most as an order to stop.
            Phase::Paused { allocations, since, .. }
                if allocations.iter().any(|it| it.state == AllocationState::Pausing) =>
            {
                return Some(Self::At(since.after(row.spec.grace)));
            }
            Phase::Held { .. }
            | Phase::Waiting { .. }
            | Phase::Pending { .. }
            | Phase::Paused { .. }
            | Phase::Underway { .. }
            | Phase::Ended(_) => return None,
        };
        Some(Self::of_start(row, started_at))
    }

    fn of_start(row: &JobRow, started_at: Timestamp) -> Self {
        match row.spec.time_limit {
            Some(limit) => Self::At(started_at.after(limit).after(row.spec.grace)),
            None => Self::Like(started_at, Likeness::of(&row.spec)),
        }
    }

    fn expected(self, job: JobId, now: Timestamp, past: &Past) -> Option<ExpectedEnd> {
        Some(match self {
            Self::At(at) => ExpectedEnd { at: by_limit(at, now), job, basis: StartBasis::Limit },
            Self::Like(started_at, like) => {
                let at = by_prediction(started_at, past.of(&like)?.p50, now);
                ExpectedEnd { at, job, basis: StartBasis::Predicted }
            }
        })
    }
}

/// How long after now a job is expected to end that is past its limit.
const SOON: Millis = Millis::from_secs(10);

fn by_limit(at: Timestamp, now: Timestamp) -> Timestamp {
    if at > now { at } else { now.after(SOON) }
}

fn by_prediction(started_at: Timestamp, length: Millis, now: Timestamp) -> Timestamp {
    let at = started_at.after(length);
    if at > now { at } else { now.after(now.since(started_at).max(Millis::from_secs(1))) }
}

pub(crate) fn expected_end(row: &JobRow, now: Timestamp, past: &Past) -> Option<ExpectedEnd> {
    EndEstimate::of(row)?.expected(row.job.id, now, past)
}

/// Returns the expected end of a job that is evicted now.
pub(crate) fn of_taken_back(row: &JobRow, grace: Millis, now: Timestamp) -> ExpectedEnd {
    let at = by_limit(now.after(grace), now);
    ExpectedEnd { at, job: row.job.id, basis: StartBasis::Limit }
}

/// Returns the expected end of a job that does not run, if it started or resumed at this moment.
pub(crate) fn of_start(
    row: &JobRow,
    started_at: Timestamp,
    now: Timestamp,
    past: &Past,
) -> Option<ExpectedEnd> {
    let ran = match row.job.phase {
        Phase::Paused { .. } => row.job.ran(now),
        _ => Millis::ZERO,
    };
    let started_at = Timestamp::new(started_at.get().saturating_sub(ran.get()));
    EndEstimate::of_start(row, started_at).expected(row.job.id, now, past)
}

/// A node on which an end frees devices, and how many, in part or whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FreedOn {
    pub node: NodeIx,
    pub n_devices: usize,
}

/// Jobs by a moment, with the devices that their ends free.
type Jobs = BTreeMap<(Timestamp, JobId), Box<[FreedOn]>>;
type Range<'a> = btree_map::Range<'a, (Timestamp, JobId), Box<[FreedOn]>>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    at: Jobs,
    /// By start time, for each likeness: the prediction of a likeness may change at any time.
    like: BTreeMap<Likeness, Jobs>,
}

impl Ends {
    /// Follows the removal of a node on which no end frees anything.
    pub fn close_gap(&mut self, removed: NodeIx) {
        let all = self.like.values_mut().chain([&mut self.at]).flat_map(Jobs::values_mut);
        for freed in all.flat_map(|freed| freed.iter_mut()).filter(|it| it.node > removed) {
            freed.node.0 -= 1;
        }
    }

    pub fn insert(&mut self, row: &JobRow, freed: Box<[FreedOn]>) {
        let job = row.job.id;
        match EndEstimate::of(row) {
            Some(EndEstimate::At(at)) => drop(self.at.insert((at, job), freed)),
            Some(EndEstimate::Like(at, like)) => {
                self.like.entry(like).or_default().insert((at, job), freed);
            }
            None => {}
        }
    }

    pub fn remove(&mut self, row: &JobRow) {
        let job = row.job.id;
        match EndEstimate::of(row) {
            Some(EndEstimate::At(at)) => drop(self.at.remove(&(at, job))),
            Some(EndEstimate::Like(at, like)) => {
                if let Some(jobs) = self.like.get_mut(&like) {
                    jobs.remove(&(at, job));
                    if jobs.is_empty() {
                        self.like.remove(&like);
                    }
                }
            }
            None => {}
        }
    }

    pub fn from<'a>(&'a self, now: Timestamp, past: &Past) -> ExpectedEnds<'a> {
        let bound = (Bound::Unbounded, Bound::Included((now, JobId::MAX)));
        let mut ends = ExpectedEnds { now, next: BinaryHeap::new(), sources: Vec::new() };
        ends.add(EndSource::Overdue(self.at.range(bound)));
        let later = (Bound::Excluded((now, JobId::MAX)), Bound::Unbounded);
        ends.add(EndSource::At(self.at.range(later)));
        for (like, jobs) in &self.like {
            let Some(length) = past.of(like).map(|prediction| prediction.p50) else { continue };
            // A job that started then or earlier is past its prediction.
            let due = now.get().checked_sub(length.get()).map(Timestamp::new);
            let Some(due) = due else {
                ends.add(EndSource::Predicted(jobs.range(..), length));
                continue;
            };
            let passed = (Bound::Unbounded, Bound::Included((due, JobId::MAX)));
            ends.add(EndSource::Passed(jobs.range(passed)));
            let coming = (Bound::Excluded((due, JobId::MAX)), Bound::Unbounded);
            ends.add(EndSource::Predicted(jobs.range(coming), length));
        }
        ends
    }
}

/// Some of the ends, the earliest first.
#[derive(Debug, Clone)]
enum EndSource<'a> {
    /// Past their limit.
    Overdue(Range<'a>),
    /// End by their limit.
    At(Range<'a>),
    /// By start time: have run longer than jobs like them. The one that started last ends first.
    Passed(Range<'a>),
    /// By start time: end when they have run as long as jobs like them.
    Predicted(Range<'a>, Millis),
}

impl<'a> EndSource<'a> {
    fn next(&mut self, now: Timestamp) -> Option<(ExpectedEnd, &'a [FreedOn])> {
        let limit = |at, job| ExpectedEnd { at, job, basis: StartBasis::Limit };
        let predicted = |at, job| ExpectedEnd { at, job, basis: StartBasis::Predicted };
        Some(match self {
            Self::Overdue(jobs) | Self::At(jobs) => {
                let ((at, job), freed) = jobs.next()?;
                (limit(by_limit(*at, now), *job), freed)
            }
            Self::Passed(jobs) => {
                let ((started_at, job), freed) = jobs.next_back()?;
                (predicted(by_prediction(*started_at, Millis::ZERO, now), *job), freed)
            }
            Self::Predicted(jobs, length) => {
                let ((started_at, job), freed) = jobs.next()?;
                (predicted(by_prediction(*started_at, *length, now), *job), freed)
            }
        })
    }
}

/// When jobs are expected to end, the earliest first.
#[derive(Debug, Clone)]
pub struct ExpectedEnds<'a> {
    now: Timestamp,
    next: BinaryHeap<Reverse<(ExpectedEnd, usize, &'a [FreedOn])>>,
    sources: Vec<EndSource<'a>>,
}

impl<'a> ExpectedEnds<'a> {
    fn add(&mut self, mut source: EndSource<'a>) {
        if let Some((end, freed)) = source.next(self.now) {
            self.next.push(Reverse((end, self.sources.len(), freed)));
            self.sources.push(source);
        }
    }
}

impl<'a> Iterator for ExpectedEnds<'a> {
    type Item = (ExpectedEnd, &'a [FreedOn]);

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((end, source_ix, freed)) = self.next.pop()?;
        if let Some((following, freed)) = self.sources[source_ix].next(self.now) {
            self.next.push(Reverse((following, source_ix, freed)));
        }
        Some((end, freed))
    }
}
