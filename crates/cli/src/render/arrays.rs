//! Arrays in lists and on pages: their progress and the results of their elements.

use std::collections::BTreeMap;

use gpool_model::job::JobState;
use gpool_wire::{ArrayStatus, Job};

use super::page::Page;
use super::view::View;
use super::words;

/// Width of the progress bar.
const COLUMNS: u64 = 10;
/// Most elements with their own line on a page.
const LINES_MAX: usize = 20;

const UNDER_WAY: &[JobState] =
    &[JobState::Starting, JobState::Running, JobState::Paused, JobState::Stopping];
const WAITING: &[JobState] = &[JobState::Held, JobState::Waiting, JobState::Pending];
const UNSUCCESSFUL: &[JobState] = &[JobState::Failed, JobState::TimedOut, JobState::Lost];

/// The progress of an array: `▇▇▇▇▇▁▁▁▁▁ 24/48 done · 0 run · 24 wait · 0 failed`.
#[must_use]
pub fn progress(array: &ArrayStatus) -> String {
    let all = array.n_elements;
    let n_done = array.n_in(&[JobState::Succeeded]);
    let (n_run, n_wait) = (array.n_in(UNDER_WAY), array.n_in(WAITING));
    let mut text = format!(
        "{} {n_done}/{all} done · {n_run} run · {n_wait} wait · {} failed",
        blocks(n_done, all),
        array.n_in(UNSUCCESSFUL)
    );
    let n_cancelled = array.n_in(&[JobState::Cancelled]);
    if n_cancelled > 0 {
        text.push_str(&format!(" · {n_cancelled} cancelled"));
    }
    text
}

/// A bar that is full only when all elements are done, and empty only when none is.
pub fn blocks(part: u64, whole: u64) -> String {
    let full = match u128::from(part) * u128::from(COLUMNS) / u128::from(whole.max(1)) {
        0 if part > 0 => 1,
        full => u64::try_from(full).unwrap_or(COLUMNS).min(COLUMNS),
    };
    let at = |column| if column < full { '▇' } else { '▁' };
    (0..COLUMNS).map(at).collect()
}

/// Adds an array and its elements to a page; `elements` is `None` if there are too many to list.
pub fn elements(page: &mut Page, job: &Job, elements: Option<&[Job]>, view: &View<'_>) {
    let Some(array) = &job.array else { return };
    let mut text = format!("{} · {}", array.indexes, words::count(array.n_elements, "element"));
    if let Some(most) = array.max_parallel {
        text.push_str(&format!(" · at most {most} at once"));
    }
    if let Some(most) = array.max_fails {
        text.push_str(&format!(" · the rest is cancelled after more than {most} failed"));
    }
    page.label("array", &text);
    page.label("progress", &progress(array));
    let Some(elements) = elements else {
        let counts = array.n_by_state.iter();
        let lines: Vec<String> =
            counts.map(|(state, n)| format!("{:<10} {n}", words::state(state))).collect();
        return page.labels("elements", &lines);
    };
    let mut by_state: BTreeMap<JobState, Vec<u32>> = BTreeMap::new();
    for element in elements {
        by_state.entry(element.state).or_default().extend(index(element));
    }
    let line = |(state, at): (&JobState, &Vec<u32>)| {
        format!("{:<10} {:>7}  {}", words::state(state.as_str()), at.len(), words::indexes(at))
    };
    page.labels("elements", &by_state.iter().map(line).collect::<Vec<_>>());
    let tells = |element: &&Job| {
        UNDER_WAY.contains(&element.state) || UNSUCCESSFUL.contains(&element.state)
    };
    let telling: Vec<&Job> = elements.iter().filter(tells).collect();
    let line = |element: &&Job| {
        let end = match element.state.is_end() {
            true => words::end(element),
            false => words::places(&element.placement),
        };
        let ran = super::life::ran(element, view).map(|ran| ran.to_string()).unwrap_or_default();
        let state = words::state(element.state.as_str());
        format!("{:<10} {state:<10} {ran:<8} {end}", element.id)
    };
    let mut lines: Vec<String> = telling.iter().take(LINES_MAX).map(line).collect();
    if telling.len() > LINES_MAX {
        let more = telling.len() - LINES_MAX;
        lines.push(format!("… and {more} more: gpool queue -a --state all --name {}", job.name));
    }
    page.labels("of them", &lines);
}

/// Adds the index and parameters of an element to a page.
pub fn add_element(page: &mut Page, job: &Job) {
    let Some(element) = &job.element else { return };
    page.label("element", &format!("{} of array {}", element.index, element.array));
    page.label_if("item", element.item.as_deref());
    let params = element.params.iter().map(|(name, value)| format!("{name} = {value}"));
    page.labels("given", &params.collect::<Vec<_>>());
}

fn index(element: &Job) -> Option<u32> {
    element.element.as_ref().map(|element| element.index)
}
