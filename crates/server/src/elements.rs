//! Elements of arrays as jobs: those without a row of their own are made from their array's, and
//! those that ended are found beside the archive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::job::JobState;
use gpool_model::record::EndedJob;
use gpool_model::{
    ArrayState, Generation, Job, JobEnd, JobId, JobNumber, JobSpec, Outcome, Phase, Refusal,
    RunTotals, Timestamp,
};
use gpool_store::Reader;
use gpool_wire::array::Elements;
use gpool_world::{JobRow, World};

use crate::fault::internal;
use gpool_journal::codec;

/// An element that has no row of its own, as if it had one.
pub fn alone(row: &JobRow, id: JobId) -> JobRow {
    let indexes = row.spec.array.as_ref().map(|array| &array.indexes);
    let position = indexes.zip(id.element).and_then(|(indexes, index)| indexes.position(index));
    let (array, position) = (row.job.array.as_deref(), position.unwrap_or(0));
    let phase = match &row.job.phase {
        Phase::Pending { since } if array.is_some_and(|it| it.waiting.contains(position)) => {
            Phase::Waiting { since: *since }
        }
        phase => phase.clone(),
    };
    let attempt = array.map_or(row.job.attempt, |array| array.attempt_of(position));
    let job = Job {
        id,
        version: row.job.version,
        priority: row.job.priority,
        note: None,
        notify: Vec::new(),
        attempt,
        generation: Generation(1),
        waited: row.job.waited,
        array: None,
        course: row.job.course.clone(),
        phase,
    };
    JobRow { spec: Arc::clone(&row.spec), job }
}

/// Returns the number of elements of an array in each state; `None` for other jobs.
pub fn counts(world: &World, row: &JobRow) -> Option<BTreeMap<JobState, u64>> {
    let array = row.job.array.as_ref()?;
    let mut counts = ended_counts(array);
    let mut add = |state, n: u32| *counts.entry(state).or_default() += u64::from(n);
    match &row.job.phase {
        Phase::Pending { .. } => {
            add(JobState::Pending, array.unstarted.len());
            add(JobState::Waiting, array.waiting.len());
        }
        phase => add(phase.state(), array.n_unstarted()),
    }
    for element in world.elements(row.job.id.number) {
        add(element.job.phase.state(), 1);
    }
    counts.retain(|_, n| *n > 0);
    Some(counts)
}

/// The elements of an array together; `None` for other jobs.
pub fn together(world: &World, row: &JobRow, now: Timestamp) -> Option<Elements> {
    let mut totals = row.job.array.as_ref()?.totals;
    for element in world.elements(row.job.id.number) {
        totals.add(RunTotals::of(&element.job.phase, now));
    }
    Some(Elements { n_by_state: counts(world, row)?, totals })
}

/// How many elements of an array ended how.
pub fn ended_counts(array: &ArrayState) -> BTreeMap<JobState, u64> {
    let ended = array.ended.iter();
    ended.map(|(outcome, positions)| (outcome.state(), u64::from(positions.len()))).collect()
}

/// Returns an element that ended without a start; the array's record has all of its facts.
pub fn never_started(row: &JobRow, id: JobId, position: u32) -> Option<Job> {
    let array = row.job.array.as_ref()?;
    let attempt = array.attempt_of(position);
    let is_cancelled = array.outcome_of(position)? == Outcome::Cancelled;
    is_cancelled.then(|| Job { attempt, ..cancelled(&row.job, array, id) })
}

fn cancelled(of: &Job, array: &ArrayState, id: JobId) -> Job {
    let end = JobEnd {
        outcome: Outcome::Cancelled,
        cause: array.stopped.clone(),
        exit: None,
        started_at: None,
        ended_at: array.ended_at.unwrap_or_default(),
        usage: gpool_model::job::Usage::default(),
        allocations: Vec::new(),
        resized: 0,
        steps: gpool_model::Rare::default(),
    };
    Job { id, note: None, array: None, phase: Phase::Ended(Box::new(end)), ..of.clone() }
}

/// The array, not yet ended, that an ended element belongs to.
type Living = Option<(Arc<JobSpec>, Option<Job>)>;

/// An ended job, or element of an array that lives or has ended.
pub fn archived(reader: &Reader, id: JobId, living: Living) -> Result<Option<EndedJob>, Refusal> {
    let whole = || -> Result<Option<EndedJob>, Refusal> {
        let row = reader.archived(id.number).map_err(internal)?;
        row.map(|row| codec::decode_ended(&row).map_err(internal)).transpose()
    };
    let Some(element) = id.element else { return whole() };
    let (spec, never_started) = match living {
        Some(living) => living,
        None => {
            let Some(ended) = whole()? else { return Ok(None) };
            let indexes = ended.spec.array.as_ref().map(|array| &array.indexes);
            let position = indexes.and_then(|indexes| indexes.position(element));
            let row = JobRow { spec: ended.spec, job: ended.job };
            let job = position.and_then(|position| never_started(&row, id, position));
            (row.spec, job)
        }
    };
    let entry = reader.element(id.number, element).map_err(internal)?;
    let in_archive = entry.map(|entry| codec::decode_element(&entry)).transpose();
    let job = latest(in_archive.map_err(internal)?, never_started);
    Ok(job.map(|job| EndedJob { spec, job }))
}

/// What an element came to last: it may have been cancelled before it started again.
pub fn latest(in_archive: Option<Job>, never_started: Option<Job>) -> Option<Job> {
    match (in_archive, never_started) {
        (Some(ran), Some(later)) if later.attempt > ran.attempt => Some(later),
        (ran, later) => ran.or(later),
    }
}

/// The last ended attempts of some elements of an array.
pub fn ended_of(
    reader: &Reader,
    number: JobNumber,
    indexes: &BTreeSet<u32>,
) -> Result<BTreeMap<JobId, Job>, Refusal> {
    let mut found = BTreeMap::new();
    let mut next = indexes.first().copied();
    while let Some(from) = next {
        let entries = reader.elements(number, from, 1000).map_err(internal)?;
        let last = entries.last().map(|entry| entry.element);
        for entry in entries.iter().filter(|entry| indexes.contains(&entry.element)) {
            let job = codec::decode_element(entry).map_err(internal)?;
            found.insert(job.id, job);
        }
        next = last.and_then(|last| indexes.range(last.checked_add(1)?..).next().copied());
    }
    Ok(found)
}
