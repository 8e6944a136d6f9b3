//! The place of a task: the best of the places where it fits, and the best devices there.

use std::cmp::Ordering;

use crate::admit::{Passed, admit};
use crate::counters::{At, Free};
use crate::cycle::Rules;
use crate::index::Mode;
use crate::input::{GpuAsk, Request};
use crate::settings::Strategy;
use crate::state::State;

/// How a task is placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How<'a> {
    /// For a later time, in a trial.
    pub later: bool,
    /// The nodes where tasks without GPUs may go; `None` is all.
    pub nodes: Option<&'a [bool]>,
}

/// The reasons against places, counted by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacks {
    /// It may not go there.
    pub site: usize,
    /// Its devices are of the wrong kind or too few are free.
    pub gpu: usize,
    /// Too few cores are free.
    pub cpu: usize,
    /// Too little memory is free.
    pub memory: usize,
    /// It holds as many tasks as it may.
    pub slots: usize,
    /// It would be charged more there than its project may have.
    pub quota: usize,
}

/// The score of a place: points, then a part of ten.
#[derive(Debug, Clone, Copy)]
struct Score {
    points: u64,
    over: i64,
    under: i64,
}

impl Score {
    fn cmp(self, other: Self) -> Ordering {
        let part = |a: Self, b: Self| i128::from(a.over) * i128::from(b.under);
        self.points.cmp(&other.points).then_with(|| part(self, other).cmp(&part(other, self)))
    }
}

/// The least and the most that is free on any place.
#[derive(Debug, Clone, Copy)]
struct Span {
    least: i64,
    most: i64,
}

/// Gives a task the best place.
///
/// # Errors
/// The lacks of all places, if it fits on none.
pub(crate) fn place(
    rules: Rules<'_>,
    state: &mut State<'_>,
    task: usize,
    how: How<'_>,
) -> Result<(), Lacks> {
    let Some(place) = best(rules, state, task, how) else {
        return Err(lacks(rules, state, task, how));
    };
    let (shared, at_once) = devices(rules, state, task, place);
    let lot = state.lot(&shared);
    let later = how.later || !at_once || !fits(state, task, place, false);
    state.put(task, At { place, lot }, later);
    Ok(())
}

/// The best place that holds a task, now or later; of equals the first.
fn best(rules: Rules<'_>, state: &State<'_>, task: usize, how: How<'_>) -> Option<usize> {
    let mut best: Option<(Score, usize)> = None;
    let span = span(state, task);
    let packed = packed(rules, state, task);
    for place in candidates(state, task) {
        if lack(rules, state, task, place, how).is_some() {
            continue;
        }
        if packed && fits(state, task, place, false) {
            return Some(place);
        }
        let score = score(rules, state, task, place, span);
        let better = best.is_none_or(|(most, at)| {
            score.cmp(most).then_with(|| at.cmp(&place)) == Ordering::Greater
        });
        if better {
            best = Some((score, place));
        }
    }
    best.map(|(_, place)| place)
}

/// Whether candidates come in the order of their scores, among those where a task can start at
/// once: the first of these is then the best of all.
fn packed(rules: Rules<'_>, state: &State<'_>, task: usize) -> bool {
    let settings = rules.settings;
    settings.shortcuts
        && settings.prefer_idle
        && settings.gpu_nodes == Strategy::Pack
        && state.index.tasks[task].nominated.is_none()
        && matches!(state.gpu_ask(task), GpuAsk::Whole(_))
}

/// Places that may hold a task by the indexes, the places with the least free first.
fn candidates<'b>(state: &'b State<'_>, task: usize) -> Box<dyn Iterator<Item = usize> + 'b> {
    let index = state.index;
    let with_free = |least: i64| {
        let least = usize::try_from(least).unwrap_or(0);
        state.by_free.iter().skip(least).flatten().copied()
    };
    match state.gpu_ask(task) {
        GpuAsk::None => Box::new(index.nodes.iter().map(|node| node.places.start)),
        GpuAsk::Whole(count) => Box::new(with_free(*count)),
        GpuAsk::Share { .. } | GpuAsk::Memory { .. } => {
            Box::new(with_free(1).chain(state.sharing.iter().copied()))
        }
        GpuAsk::Mig(_) => Box::new(index.mixed.iter().copied()),
        GpuAsk::Unbooked => Box::new(std::iter::empty()),
    }
}

/// The reason why a task can't have a place.
fn lack(
    rules: Rules<'_>,
    state: &State<'_>,
    task: usize,
    place: usize,
    how: How<'_>,
) -> Option<fn(&mut Lacks) -> &mut usize> {
    let index = state.index;
    let row = &index.tasks[task];
    let ask = &index.asks[row.ask];
    let node = index.places[place].node;
    let without = matches!(ask.request.gpu, GpuAsk::None);
    if ask.site.is_some_and(|site| !index.sites[site][place]) {
        return Some(|it| &mut it.site);
    }
    if without && how.nodes.is_some_and(|nodes| !nodes[node]) {
        return Some(|it| &mut it.gpu);
    }
    if let Some(what) = short(state, &ask.request, place, true) {
        return Some(what);
    }
    if let GpuAsk::Memory { .. } = ask.request.gpu {
        let charge = index.charge_at(task, place);
        let admitted: Result<(), Passed> =
            admit(state, rules.entitled, rules.settings, row.job, charge);
        if admitted.is_err() {
            return Some(|it| &mut it.quota);
        }
    }
    None
}

/// Whether a place holds a task, now or later.
fn fits(state: &State<'_>, task: usize, place: usize, later: bool) -> bool {
    let ask = &state.index.asks[state.index.tasks[task].ask];
    short(state, &ask.request, place, later).is_none()
}

/// The resource that a place has too little of, now or later.
fn short(
    state: &State<'_>,
    request: &Request,
    place: usize,
    later: bool,
) -> Option<fn(&mut Lacks) -> &mut usize> {
    let free = |it: Free| if later { it.later() } else { it.idle };
    let node = &state.nodes[state.index.places[place].node];
    if free(node.slots) < 1 {
        return Some(|it| &mut it.slots);
    }
    if request.cpu > 0 && free(node.cpu) < request.cpu {
        return Some(|it| &mut it.cpu);
    }
    if request.memory > 0 && free(node.memory) < request.memory {
        return Some(|it| &mut it.memory);
    }
    (!gpus_fit(state, &request.gpu, place, later)).then_some(|it| &mut it.gpu)
}

fn gpus_fit(state: &State<'_>, ask: &GpuAsk, place: usize, later: bool) -> bool {
    let row = &state.index.places[place];
    let free = |it: Free| if later { it.later() } else { it.idle };
    let at = &state.places[place];
    match ask {
        GpuAsk::None => row.first,
        GpuAsk::Unbooked => false,
        GpuAsk::Whole(count) => row.mode != Mode::Mixed && free(at.whole) >= *count,
        GpuAsk::Share { .. } | GpuAsk::Memory { .. } => {
            let Some((need, devices)) = state.index.share_of(ask, place) else { return false };
            let shared = at.shared.iter().filter(|&&it| state.shared_fits(it, need, later)).count();
            let shared = i64::try_from(shared).unwrap_or(i64::MAX);
            row.mode == Mode::Whole && shared.saturating_add(free(at.whole).max(0)) >= devices
        }
        GpuAsk::Mig(asked) => {
            row.mode == Mode::Mixed
                && at.unbooked == 0
                && asked.iter().all(|it| {
                    let known = row.instances.iter().position(|one| one.profile == it.profile);
                    known.is_some_and(|known| free(at.instances[known]) >= it.count)
                })
        }
    }
}

/// The least and the most free amount of the resource that the score of a task's places uses.
fn span(state: &State<'_>, task: usize) -> Span {
    let number = |it: Option<usize>| it.and_then(|it| i64::try_from(it).ok()).unwrap_or(0);
    if matches!(state.gpu_ask(task), GpuAsk::None) {
        let cpu = || state.nodes.iter().map(|node| node.cpu.later());
        return Span { least: cpu().min().unwrap_or(0), most: cpu().max().unwrap_or(0) };
    }
    let any = |it: &std::collections::BTreeSet<usize>| !it.is_empty();
    Span {
        least: number(state.by_free.iter().position(any)),
        most: number(state.by_free.iter().rposition(any)),
    }
}

fn score(rules: Rules<'_>, state: &State<'_>, task: usize, place: usize, span: Span) -> Score {
    let (index, settings) = (state.index, rules.settings);
    let row = &index.places[place];
    let node = &index.nodes[row.node];
    let ask = state.gpu_ask(task);
    let without = matches!(ask, GpuAsk::None);
    let mut points = 0;
    if settings.prefer_cpu_only && without && !node.devices {
        points += 10;
    }
    if settings.prefer_idle && fits(state, task, place, false) {
        points += 100;
    }
    if settings.prefer_shared
        && let Some((need, _)) = index.share_of(ask, place)
        && state.places[place].shared.iter().any(|&it| state.shared_fits(it, need, true))
    {
        points += 1000;
    }
    if settings.prefer_nominated && index.tasks[task].nominated == Some(row.node) {
        points += 1_000_000;
    }
    let (strategy, free, total) = if without {
        (settings.cpu_nodes, state.nodes[row.node].cpu.later(), node.cpu)
    } else {
        (settings.gpu_nodes, state.places[place].whole.later(), row.count)
    };
    let (over, under) = match strategy {
        Strategy::Any => (0, 1),
        Strategy::Spread if total <= 0 => (0, 1),
        Strategy::Spread => (free, total),
        Strategy::Pack if span.most == 0 => (0, 1),
        Strategy::Pack if span.most == span.least => (9, 1),
        Strategy::Pack => (9 * (span.most - free), span.most - span.least),
    };
    Score { points, over, under }
}

/// The shared devices that a task gets on a place, in order of their rows, and whether all of
/// them are there now.
fn devices(
    rules: Rules<'_>,
    state: &mut State<'_>,
    task: usize,
    place: usize,
) -> (Vec<usize>, bool) {
    let ask = state.gpu_ask(task);
    let Some((need, count)) = state.index.share_of(ask, place) else {
        return (Vec::new(), true);
    };
    let wanted = usize::try_from(count).unwrap_or(0);
    let mut shared: Vec<usize> = state.places[place].shared.clone();
    shared.retain(|&it| state.shared_fits(it, need, true));
    let used = |it: usize| state.shared[it].used + state.shared[it].claimed;
    let mut whole_first = false;
    match rules.settings.devices {
        Strategy::Pack => shared.sort_by_key(|&it| (std::cmp::Reverse(used(it)), it)),
        Strategy::Spread => {
            shared.sort_by_key(|&it| (used(it), it));
            whole_first = true;
        }
        Strategy::Any => shared.sort_unstable(),
    }
    let whole = usize::try_from(state.places[place].whole.later()).unwrap_or(0);
    let whole = if whole_first {
        whole.min(wanted)
    } else {
        wanted.saturating_sub(shared.len()).min(whole)
    };
    shared.truncate(wanted - whole);
    let mut at_once = shared.iter().all(|&it| state.shared_fits(it, need, false));
    at_once &= usize::try_from(state.places[place].whole.idle).unwrap_or(0) >= whole;
    while shared.len() < wanted {
        let row = state.unused_shared(place, &shared);
        shared.push(row);
    }
    shared.sort_unstable();
    (shared, at_once)
}

/// The lacks of a task over all places.
fn lacks(rules: Rules<'_>, state: &State<'_>, task: usize, how: How<'_>) -> Lacks {
    let mut counted = Lacks::default();
    if how.later {
        return counted;
    }
    for place in 0..state.index.places.len() {
        if let Some(what) = lack(rules, state, task, place, how) {
            *what(&mut counted) += 1;
        }
    }
    counted
}
