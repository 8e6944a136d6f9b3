//! Which tasks of a job are placed next, and where a job stands among those of its project.

use crate::counters::SetNow;
use crate::index::{JobRow, Part};
use crate::input::Amounts;
use crate::settings::Settings;
use crate::state::State;

/// The sort key of the jobs of a project: the smaller comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobKey {
    priority: i64,
    elastic: u8,
    rank: usize,
    pub job: usize,
}

impl JobKey {
    /// Returns the key of a job with the given number of active tasks of each set.
    pub(crate) fn of(
        state: &State<'_>,
        settings: &Settings,
        job: usize,
        active: impl Fn(usize) -> i64,
    ) -> Self {
        let row = &state.index.jobs[job];
        Self {
            priority: if settings.job_priority { row.priority.saturating_neg() } else { 0 },
            elastic: if settings.elastic { elastic(state, row, active) } else { 0 },
            rank: row.rank,
            job,
        }
    }

    /// The key of a job as it is.
    pub(crate) fn now(state: &State<'_>, settings: &Settings, job: usize) -> Self {
        Self::of(state, settings, job, |set| state.sets[set].active())
    }
}

/// Below what must run at once, exactly there, or above it.
fn elastic(state: &State<'_>, job: &JobRow, active: impl Fn(usize) -> i64) -> u8 {
    let mut rank = 1;
    for set in job.sets.clone() {
        let (has, min) = (active(set), state.index.sets[set].min);
        if has < min {
            return 0;
        }
        if has > min {
            rank = 2;
        }
    }
    rank
}

/// Whether a job could be placed at all: something waits, its project may have jobs, and enough
/// tasks are there.
pub(crate) fn candidate(state: &State<'_>, job: usize) -> bool {
    let row = &state.index.jobs[job];
    let sets = row.sets.clone().map(|set| (state.sets[set], state.index.sets[set].min));
    row.project.is_some()
        && row.sets.clone().any(|set| state.sets[set].waiting > 0)
        && sets.into_iter().all(|(now, min)| now.active() + now.waiting >= min)
}

/// The tasks that are placed next, in that order: what each set lacks of what must run at once,
/// or one more where nothing is lacking. `None` where more is lacking than waits.
pub(crate) fn unit(state: &State<'_>, job: usize) -> Option<Vec<usize>> {
    let row = &state.index.jobs[job];
    let lacks = |set: usize| state.index.sets[set].min - state.sets[set].active();
    let mut order = Vec::new();
    match &row.parts {
        None => order.extend(row.sets.clone()),
        Some(part) => in_parts(state, part, &mut order),
    }
    let mut tasks = Vec::new();
    if row.sets.clone().any(|set| lacks(set) > 0) {
        for set in order {
            let lacking = usize::try_from(lacks(set)).unwrap_or(0);
            let before = tasks.len();
            tasks.extend(waiting(state, set).take(lacking));
            if tasks.len() - before < lacking {
                return None;
            }
        }
        return Some(tasks);
    }
    let mut sets: Vec<usize> =
        row.sets.clone().filter(|&set| state.sets[set].waiting > 0).collect();
    sets.sort_by(|&a, &b| by_ratio(state, a, b).then(a.cmp(&b)));
    let first = sets.first()?;
    tasks.extend(waiting(state, *first).take(1));
    Some(tasks)
}

/// What tasks are charged together.
pub(crate) fn charge(state: &State<'_>, tasks: &[usize]) -> Amounts {
    tasks.iter().fold(Amounts::default(), |sum, &task| {
        sum + state.index.asks[state.index.tasks[task].ask].charge
    })
}

fn waiting<'a>(state: &'a State<'_>, set: usize) -> impl Iterator<Item = usize> + 'a {
    let tasks = state.index.sets[set].tasks.iter().copied();
    tasks.filter(|&task| state.tasks[task].state.waits())
}

/// Parts before sets; sets below what must run first, then by how much of it runs.
fn in_parts(state: &State<'_>, part: &Part, into: &mut Vec<usize>) {
    for part in &part.parts {
        in_parts(state, part, into);
    }
    let mut sets = part.sets.clone();
    sets.sort_by(|&a, &b| {
        let below = |set: usize| state.sets[set].active() < state.index.sets[set].min;
        below(b).cmp(&below(a)).then_with(|| by_ratio(state, a, b)).then(a.cmp(&b))
    });
    into.extend(sets);
}

/// Which of two sets has less of what must run at once.
fn by_ratio(state: &State<'_>, a: usize, b: usize) -> std::cmp::Ordering {
    ratio(state, (a, state.sets[a]), (b, state.sets[b]), SetNow::active)
}

/// Which of two sets has less of what must run at once, by a count.
pub(crate) fn ratio(
    state: &State<'_>,
    (a, now_a): (usize, SetNow),
    (b, now_b): (usize, SetNow),
    count: impl Fn(SetNow) -> i64,
) -> std::cmp::Ordering {
    let min = |set: usize| i128::from(state.index.sets[set].min.max(1));
    let count = |now: SetNow| i128::from(count(now));
    (count(now_a) * min(b)).cmp(&(count(now_b) * min(a)))
}
