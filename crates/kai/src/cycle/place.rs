//! The place of a task: the best of the places where it fits, and the best devices there.

use std::cmp::Ordering;

use crate::admit::{Passed, admit};
use crate::board::Board;
use crate::cluster::Mode;
use crate::counters::{At, Free};
use crate::cycle::Rules;
use crate::settings::Strategy;
use crate::situation::{GpuAsk, Request};

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
    board: &mut Board<'_>,
    task: usize,
    how: How<'_>,
) -> Result<(), Lacks> {
    let Some(place) = best(rules, board, task, how) else {
        return Err(lacks(rules, board, task, how));
    };
    let (shared, at_once) = devices(rules, board, task, place);
    let lot = board.lot(&shared);
    let later = how.later || !at_once || !fits(board, task, place, false);
    board.put(task, At { place, lot }, later);
    Ok(())
}

/// The best place that holds a task, now or later; of equals the first.
fn best(rules: Rules<'_>, board: &Board<'_>, task: usize, how: How<'_>) -> Option<usize> {
    let mut best: Option<(Score, usize)> = None;
    let span = span(board, task);
    let packed = packed(rules, board, task);
    for place in candidates(board, task) {
        if lack(rules, board, task, place, how).is_some() {
            continue;
        }
        if packed && fits(board, task, place, false) {
            return Some(place);
        }
        let score = score(rules, board, task, place, span);
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
fn packed(rules: Rules<'_>, board: &Board<'_>, task: usize) -> bool {
    let settings = rules.settings;
    settings.shortcuts
        && settings.prefer_idle
        && settings.gpu_nodes == Strategy::Pack
        && board.cluster.tasks[task].nominated.is_none()
        && matches!(board.gpu_ask(task), GpuAsk::Whole(_))
}

/// Places that may hold a task by the indexes, the places with the least free first.
fn candidates<'b>(board: &'b Board<'_>, task: usize) -> Box<dyn Iterator<Item = usize> + 'b> {
    let cluster = board.cluster;
    let with_free = |least: i64| {
        let least = usize::try_from(least).unwrap_or(0);
        board.by_free.iter().skip(least).flatten().copied()
    };
    match board.gpu_ask(task) {
        GpuAsk::None => Box::new(cluster.nodes.iter().map(|node| node.places.start)),
        GpuAsk::Whole(count) => Box::new(with_free(*count)),
        GpuAsk::Share { .. } | GpuAsk::Memory { .. } => {
            Box::new(with_free(1).chain(board.sharing.iter().copied()))
        }
        GpuAsk::Mig(_) => Box::new(cluster.mixed.iter().copied()),
        GpuAsk::Unbooked => Box::new(std::iter::empty()),
    }
}

/// The reason why a task can't have a place.
fn lack(
    rules: Rules<'_>,
    board: &Board<'_>,
    task: usize,
    place: usize,
    how: How<'_>,
) -> Option<fn(&mut Lacks) -> &mut usize> {
    let cluster = board.cluster;
    let row = &cluster.tasks[task];
    let ask = &cluster.asks[row.ask];
    let node = cluster.places[place].node;
    let without = matches!(ask.request.gpu, GpuAsk::None);
    if ask.site.is_some_and(|site| !cluster.sites[site][place]) {
        return Some(|it| &mut it.site);
    }
    if without && how.nodes.is_some_and(|nodes| !nodes[node]) {
        return Some(|it| &mut it.gpu);
    }
    if let Some(what) = short(board, &ask.request, place, true) {
        return Some(what);
    }
    if let GpuAsk::Memory { .. } = ask.request.gpu {
        let charge = cluster.charge_at(task, place);
        let admitted: Result<(), Passed> =
            admit(board, rules.entitled, rules.settings, row.job, charge);
        if admitted.is_err() {
            return Some(|it| &mut it.quota);
        }
    }
    None
}

/// Whether a place holds a task, now or later.
fn fits(board: &Board<'_>, task: usize, place: usize, later: bool) -> bool {
    let ask = &board.cluster.asks[board.cluster.tasks[task].ask];
    short(board, &ask.request, place, later).is_none()
}

/// The resource that a place has too little of, now or later.
fn short(
    board: &Board<'_>,
    request: &Request,
    place: usize,
    later: bool,
) -> Option<fn(&mut Lacks) -> &mut usize> {
    let free = |it: Free| if later { it.later() } else { it.idle };
    let node = &board.nodes[board.cluster.places[place].node];
    if free(node.slots) < 1 {
        return Some(|it| &mut it.slots);
    }
    if request.cpu > 0 && free(node.cpu) < request.cpu {
        return Some(|it| &mut it.cpu);
    }
    if request.memory > 0 && free(node.memory) < request.memory {
        return Some(|it| &mut it.memory);
    }
    (!gpus_fit(board, &request.gpu, place, later)).then_some(|it| &mut it.gpu)
}

fn gpus_fit(board: &Board<'_>, ask: &GpuAsk, place: usize, later: bool) -> bool {
    let row = &board.cluster.places[place];
    let free = |it: Free| if later { it.later() } else { it.idle };
    let at = &board.places[place];
    match ask {
        GpuAsk::None => row.first,
        GpuAsk::Unbooked => false,
        GpuAsk::Whole(count) => row.mode != Mode::Mixed && free(at.whole) >= *count,
        GpuAsk::Share { .. } | GpuAsk::Memory { .. } => {
            let Some((need, devices)) = board.cluster.share_of(ask, place) else { return false };
            let shared = at.shared.iter().filter(|&&it| board.shared_fits(it, need, later)).count();
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
fn span(board: &Board<'_>, task: usize) -> Span {
    let number = |it: Option<usize>| it.and_then(|it| i64::try_from(it).ok()).unwrap_or(0);
    if matches!(board.gpu_ask(task), GpuAsk::None) {
        let cpu = || board.nodes.iter().map(|node| node.cpu.later());
        return Span { least: cpu().min().unwrap_or(0), most: cpu().max().unwrap_or(0) };
    }
    let any = |it: &std::collections::BTreeSet<usize>| !it.is_empty();
    Span {
        least: number(board.by_free.iter().position(any)),
        most: number(board.by_free.iter().rposition(any)),
    }
}

fn score(rules: Rules<'_>, board: &Board<'_>, task: usize, place: usize, span: Span) -> Score {
    let (cluster, settings) = (board.cluster, rules.settings);
    let row = &cluster.places[place];
    let node = &cluster.nodes[row.node];
    let ask = board.gpu_ask(task);
    let without = matches!(ask, GpuAsk::None);
    let mut points = 0;
    if settings.prefer_cpu_only && without && !node.devices {
        points += 10;
    }
    if settings.prefer_idle && fits(board, task, place, false) {
        points += 100;
    }
    if settings.prefer_shared
        && let Some((need, _)) = cluster.share_of(ask, place)
        && board.places[place].shared.iter().any(|&it| board.shared_fits(it, need, true))
    {
        points += 1000;
    }
    if settings.prefer_nominated && cluster.tasks[task].nominated == Some(row.node) {
        points += 1_000_000;
    }
    let (strategy, free, total) = if without {
        (settings.cpu_nodes, board.nodes[row.node].cpu.later(), node.cpu)
    } else {
        (settings.gpu_nodes, board.places[place].whole.later(), row.count)
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
    board: &mut Board<'_>,
    task: usize,
    place: usize,
) -> (Vec<usize>, bool) {
    let ask = board.gpu_ask(task);
    let Some((need, count)) = board.cluster.share_of(ask, place) else {
        return (Vec::new(), true);
    };
    let wanted = usize::try_from(count).unwrap_or(0);
    let mut shared: Vec<usize> = board.places[place].shared.clone();
    shared.retain(|&it| board.shared_fits(it, need, true));
    let used = |it: usize| board.shared[it].used + board.shared[it].claimed;
    let mut whole_first = false;
    match rules.settings.devices {
        Strategy::Pack => shared.sort_by_key(|&it| (std::cmp::Reverse(used(it)), it)),
        Strategy::Spread => {
            shared.sort_by_key(|&it| (used(it), it));
            whole_first = true;
        }
        Strategy::Any => shared.sort_unstable(),
    }
    let whole = usize::try_from(board.places[place].whole.later()).unwrap_or(0);
    let whole = if whole_first {
        whole.min(wanted)
    } else {
        wanted.saturating_sub(shared.len()).min(whole)
    };
    shared.truncate(wanted - whole);
    let mut at_once = shared.iter().all(|&it| board.shared_fits(it, need, false));
    at_once &= usize::try_from(board.places[place].whole.idle).unwrap_or(0) >= whole;
    while shared.len() < wanted {
        let row = board.unused_shared(place, &shared);
        shared.push(row);
    }
    shared.sort_unstable();
    (shared, at_once)
}

/// The lacks of a task over all places.
fn lacks(rules: Rules<'_>, board: &Board<'_>, task: usize, how: How<'_>) -> Lacks {
    let mut counted = Lacks::default();
    if how.later {
        return counted;
    }
    for place in 0..board.cluster.places.len() {
        if let Some(what) = lack(rules, board, task, place, how) {
            *what(&mut counted) += 1;
        }
    }
    counted
}
