//! Rows of array elements as in Slurm: one for each element that has started, and one for all
//! waiting elements, `12_[4-9]`.

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
pub struct Shape {
    /// Whether ended elements get rows.
    pub with_ended: bool,
    /// Whether each waiting element gets its own row.
    pub is_spread: bool,
}

/// Replaces each array by rows of its elements. Other jobs stay.
///
/// # Errors
/// The server can't be asked.
pub fn spread(client: &Client, jobs: Vec<Job>, shape: Shape) -> Result<Vec<Job>> {
    let mut rows = Vec::with_capacity(jobs.len());
    for job in jobs {
        match &job.array {
            None => rows.push(job),
            Some(array) => {
                for states in TOGETHER.into_iter().filter(|_| !shape.is_spread) {
                    if array.n_in(states) > 0 {
                        rows.push(together(client, &job, states)?);
                    }
                }
                let is_own = |state: &JobState| match TOGETHER.concat().contains(state) {
                    true => shape.is_spread,
                    false => shape.with_ended || !state.is_end(),
                };
                let states = words(JobState::ALL.into_iter().filter(is_own));
                rows.extend(elements(client, &job.id, &states, 0, usize::MAX)?);
            }
        }
    }
    Ok(rows)
}

fn words(states: impl Iterator<Item = JobState>) -> String {
    states.map(JobState::as_str).collect::<Vec<_>>().join(",")
}

/// The common row of all elements in these states: the array, with their indexes in its id.
fn together(client: &Client, job: &Job, states: &[JobState]) -> Result<Job> {
    let array = job.array.as_ref();
    let is_whole = array.is_some_and(|array| array.n_in(states) == array.n_elements);
    let (indexes, first) = if is_whole {
        (array.map(|array| array.indexes.clone()).unwrap_or_default(), None)
    } else {
        let these = elements(client, &job.id, &words(states.iter().copied()), 0, usize::MAX)?;
        let indexes = these.iter().filter_map(|job| job.element.as_ref());
        (ranges(indexes.map(|element| element.index)), these.into_iter().next())
    };
    let most = array.and_then(|array| array.max_parallel);
    let most = most.map(|most| format!("%{most}")).unwrap_or_default();
    let state = states.last().copied().unwrap_or(JobState::Pending);
    let reasons = first.map_or_else(|| job.reasons.clone(), |first| first.reasons);
    Ok(Job {
        id: format!("{}.[{indexes}{most}]", job.id),
        state,
        placement: Vec::new(),
        started_at: None,
        reasons,
        ..job.clone()
    })
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
