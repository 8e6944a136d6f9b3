//! Rows of array elements as in Slurm: one for each element that has started, and one for all
//! waiting elements, `12_[4-9]`.

use std::collections::BTreeSet;

use gpool_cli::failure::Result;
use gpool_cli::resolve::elements;
use gpool_client::Client;
use gpool_model::{Indexes, JobId};

use gpool_model::job::JobState;
use gpool_wire::Job;

/// States of elements that share a row; held elements have a row of their own.
const TOGETHER: [&[JobState]; 2] = [&[JobState::Waiting, JobState::Pending], &[JobState::Held]];

/// The elements that get rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayExpansion {
    pub with_ended: bool,
    /// Whether each waiting element gets its own row.
    pub is_spread: bool,
}

/// Replaces each array by rows of its elements. Other jobs stay.
pub fn spread(client: &Client, jobs: Vec<Job>, shape: ArrayExpansion) -> Result<Vec<Job>> {
    let mut rows = Vec::with_capacity(jobs.len());
    for job in jobs {
        let Some(array) = &job.array else {
            rows.push(job);
            continue;
        };
        for states in TOGETHER.into_iter().filter(|states| array.n_in(states) > 0) {
            let waiting = ElementGroup::of(client, &job, states)?;
            match shape.is_spread {
                true => rows.extend(waiting.one_by_one(client, &job, states)?),
                false => rows.push(waiting.together(&job, states)),
            }
        }
        let is_own = |state: &JobState| {
            !TOGETHER.concat().contains(state) && (shape.with_ended || !state.is_end())
        };
        let states = words(JobState::ALL.into_iter().filter(is_own));
        rows.extend(elements(client, &job.id, &states, 0, usize::MAX)?);
    }
    Ok(rows)
}

fn words(states: impl Iterator<Item = JobState>) -> String {
    states.map(JobState::as_str).collect::<Vec<_>>().join(",")
}

/// The elements of an array in some states. They differ in their indexes only, so they are not read
/// one by one if they are the larger part of the array.
struct ElementGroup {
    indexes: Vec<u32>,
    /// One of them.
    first: Option<Job>,
}

impl ElementGroup {
    fn of(client: &Client, job: &Job, states: &[JobState]) -> Result<Self> {
        let read = |states: String, most| elements(client, &job.id, &states, 0, most);
        let index = |job: &Job| job.element.as_ref().map(|element| element.index);
        let own = || words(states.iter().copied());
        let array = job.array.as_ref();
        let all = array.and_then(|array| array.indexes.parse::<Indexes>().ok());
        let is_most = array.is_some_and(|array| array.n_in(states) > array.n_elements / 2);
        let Some(all) = all.filter(|_| is_most) else {
            let these = read(own(), usize::MAX)?;
            let indexes = these.iter().filter_map(index).collect();
            return Ok(Self { indexes, first: these.into_iter().next() });
        };
        let others = JobState::ALL.into_iter().filter(|state| !states.contains(state));
        let n_others = array.map_or(0, |array| array.n_elements - array.n_in(states));
        let others: BTreeSet<u32> = match n_others {
            0 => BTreeSet::new(),
            _ => read(words(others), usize::MAX)?.iter().filter_map(index).collect(),
        };
        let indexes = all.from(0).map(|(_, index)| index).filter(|it| !others.contains(it));
        Ok(Self { indexes: indexes.collect(), first: read(own(), 1)?.into_iter().next() })
    }

    fn one_by_one(self, client: &Client, job: &Job, states: &[JobState]) -> Result<Vec<Job>> {
        // The values of elements can change their names.
        let Some(first) = self.first.filter(|first| first.name == job.name) else {
            let states = words(states.iter().copied());
            return elements(client, &job.id, &states, 0, usize::MAX);
        };
        let row = |index: u32| {
            let mut row = first.clone();
            row.id = format!("{}.{index}", job.id);
            if let Some(element) = &mut row.element {
                element.index = index;
            }
            row
        };
        Ok(self.indexes.into_iter().map(row).collect())
    }

    /// Their common row: the array, with their indexes in its id.
    fn together(self, job: &Job, states: &[JobState]) -> Job {
        let array = job.array.as_ref();
        let is_whole = array.is_some_and(|array| array.n_in(states) == array.n_elements);
        let indexes = match array.filter(|_| is_whole) {
            Some(array) => array.indexes.clone(),
            None => ranges(self.indexes.into_iter()),
        };
        let most = array.and_then(|array| array.max_parallel);
        let most = most.map(|most| format!("%{most}")).unwrap_or_default();
        let state = states.last().copied().unwrap_or(JobState::Pending);
        let reasons =
            self.first.map_or_else(|| job.wait.reasons.clone(), |first| first.wait.reasons);
        let mut row = job.clone();
        row.id = format!("{}.[{indexes}{most}]", job.id);
        (row.state, row.placement) = (state, Vec::new());
        (row.run.started_at, row.wait.reasons) = (None, reasons);
        row
    }
}

/// Indexes as ranges: `4-9,12`
pub fn ranges(indexes: impl Iterator<Item = u32>) -> String {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => found.push((index, index)),
        }
    }
    let word = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    found.into_iter().map(word).collect::<Vec<_>>().join(",")
}

/// Whether a row belongs to one of the ids: the job, an element of it, or a row that contains it.
#[must_use]
pub fn is_of(row: &Job, ids: &[String]) -> bool {
    let (array, indexes) = row.id.split_once('.').unwrap_or((&row.id, ""));
    ids.iter()
        .any(|id| *id == row.id || *id == array || in_row(id, array, indexes).unwrap_or(false))
}

/// Whether a row of waiting elements contains an element.
pub fn in_row(id: &str, array: &str, indexes: &str) -> Option<bool> {
    let (number, element) = id.split_once('.')?;
    let indexes = indexes.strip_prefix('[')?.trim_end_matches(']').split('%').next()?;
    let indexes: Indexes = indexes.parse().ok()?;
    Some(number == array && indexes.position(element.parse().ok()?).is_some())
}

/// Sorts by id; the row of waiting elements comes before its array's other elements.
pub fn in_order(rows: &mut [Job]) {
    rows.sort_by_key(|row| match row.id.parse::<JobId>() {
        Ok(id) => (id.number.0, id.element.map(|element| u64::from(element) + 1)),
        Err(_) => {
            let number = row.id.split('.').next().and_then(|number| number.parse().ok());
            (number.unwrap_or(0), None)
        }
    });
}
