//! Figures of simulations with and without changes: of the present queue, and of past jobs that run
//! once more.

use std::time::{Duration, Instant};

use gpool_control::forecast::{Fate, ForecastInput, Outlook, WORTHWHILE};
use gpool_model::job::JobState;
use gpool_model::{Command, Device, DeviceHealth, JobId, Millis, Record, Refusal, Timestamp};
use gpool_store::Reader;
use gpool_trace::paired::{BLOCKS_MIN, Paired};
use gpool_trace::queue::{self, Outcome, Terms};
use gpool_trace::{Cluster, Coming};
use gpool_wire::time::seconds;
use gpool_wire::{Problem, SimulatedCourse, SimulatedFigures, SimulatedPairs, Time};
use gpool_world::World;

use super::usage::before as earlier;
use gpool_insight::history::{Extent, History};
use gpool_server::clock::now;
use gpool_server::fault::internal;

/// The newest past jobs that run once more.
const PAST_MAX: usize = 10_000;
/// The time of a simulation of past jobs.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Fewer jobs say little.
const FEW: u64 = 30;
/// Assumptions about past jobs: the server knows what it knew, and evictions cost no more work.
const TERMS: Terms = Terms {
    are_ends_known: false,
    are_preemptible: false,
    restart: Millis::ZERO,
    forecast_every: None,
};

/// The jobs that wait now, until the end of a simulation. No new job comes.
pub(super) fn of_queue(
    part: &ForecastInput,
    before: &Outlook,
    after: Option<&Outlook>,
    until: Millis,
) -> SimulatedCourse {
    let waits = |fate: &Fate| matches!(fate.was, Some(JobState::Pending | JobState::Waiting));
    // A job that a change cancels has no wait.
    let lives = |id: &JobId| {
        let is_left = |outlook: &Outlook| {
            outlook.fates.get(id).is_some_and(|fate| fate.starts.is_some() || fate.is.is_some())
        };
        is_left(before) && after.is_none_or(is_left)
    };
    let all = before.fates.iter().filter(|(id, fate)| waits(fate) && lives(id));
    let ids: Vec<JobId> = all.map(|(id, _)| *id).collect();
    let end = part.now.after(until);
    let of = |outlook: &Outlook| {
        let starts = ids.iter().map(|id| outlook.fates.get(id).and_then(|fate| fate.starts));
        let waits: Vec<Option<Millis>> = starts.map(|at| Some(at?.since(part.now))).collect();
        figures(&waits, n_gpus(&outlook.world), (outlook.held, until), outlook.n_preempted)
    };
    let mut warnings = Vec::new();
    let n_jobs = ids.len() as u64;
    match n_jobs {
        0 => warnings.push("No job waits now.".to_owned()),
        1 => warnings.push("Only one job waits: its figures can be chance.".to_owned()),
        2..FEW => {
            warnings.push(format!("Only {n_jobs} jobs wait: the figures of so few can be chance."));
        }
        _ => {}
    }
    if part.n_beyond > 0 {
        let n = part.n_beyond;
        warnings.push(format!("{n} jobs further down the queue are not part of the simulation."));
    }
    SimulatedCourse {
        since: Time(part.now),
        until: Time(end),
        n_jobs,
        before: of(before),
        after: after.map(of),
        paired: after.and_then(|after| paired(&ids, [before, after], (part.now, end))),
        warnings,
    }
}

/// The waits of the same jobs. A job that does not start counts with the end of the simulation.
fn paired(
    ids: &[JobId],
    outlooks: [&Outlook; 2],
    (now, end): (Timestamp, Timestamp),
) -> Option<SimulatedPairs> {
    let wait = |outlook: &Outlook, id: &JobId| {
        let start = outlook.fates.get(id).and_then(|fate| fate.starts);
        start.unwrap_or(end).since(now)
    };
    let (mut n_sooner, mut n_later, mut sum) = (0, 0, 0.0);
    for id in ids {
        let [was, is] = outlooks.map(|outlook| wait(outlook, id));
        n_sooner += u64::from(was.saturating_sub(is) > WORTHWHILE);
        n_later += u64::from(is.saturating_sub(was) > WORTHWHILE);
        sum += seconds(is) - seconds(was);
    }
    let n = u32::try_from(ids.len()).ok().filter(|n| *n > 0)?;
    let mean_s = sum / f64::from(n);
    Some(SimulatedPairs { n_jobs: u64::from(n), n_sooner, n_later, mean_s, interval_s: None })
}

/// Figures of waits and of GPU time. `None` is a wait beyond the end of the simulation.
fn figures(
    waits: &[Option<Millis>],
    n_gpus: u64,
    (held, span): (u128, Millis),
    n_preempted: u64,
) -> SimulatedFigures {
    let mut known: Vec<Millis> = waits.iter().flatten().copied().collect();
    known.sort_unstable();
    let percentile = |percent: usize| {
        let nth = (waits.len() * percent).div_ceil(100);
        nth.checked_sub(1).and_then(|ix| known.get(ix)).map(|wait| seconds(*wait))
    };
    let all = u128::from(n_gpus) * u128::from(span.get());
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let utilization = (all > 0).then(|| (held as f64 / all as f64).min(1.0));
    SimulatedFigures {
        n_gpus,
        wait_p50_s: percentile(50),
        wait_p90_s: percentile(90),
        n_waiting: (waits.len() - known.len()) as u64,
        utilization,
        n_preempted,
    }
}

/// The devices that jobs can use.
fn n_gpus(world: &World) -> u64 {
    let nodes = world.nodes_by_name().map(|(_, row)| &row.node).filter(|node| node.takes_work());
    let usable = nodes.map(|node| {
        let is_usable = |it: &&Device| {
            let is_well = it.health == DeviceHealth::Healthy && it.unmanaged.is_empty();
            let is_open = node.allows(&it.uuid) && node.drain_of(&it.uuid).is_none();
            is_well && is_open && !it.is_divided()
        };
        node.devices.iter().filter(is_usable).count() as u64
    });
    usable.sum()
}

/// Runs the jobs of a past time span once more, with the changes and without.
pub(super) fn of_past(
    reader: &Reader,
    window: Millis,
    texts: &[String],
) -> Result<SimulatedCourse, Refusal> {
    let until = now();
    let since = earlier(until, window);
    let extent = Extent { since, n_jobs: PAST_MAX };
    let mut history = History::read(reader, extent).map_err(internal)?;
    history.jobs.retain(|job| job.came_at >= since);
    let jobs = history.take_jobs();
    let is_cut = history.is_cut;
    let since = jobs.first().map_or(since, |job| if is_cut { job.at } else { since });
    let records = history.records.clone();
    let commands = history.suppose(texts)?;
    let began = Instant::now();
    let play =
        |records: Vec<Record>, commands: &[Command]| play(records, commands, &jobs, since, began);
    let (before, was) = play(records, &[])?;
    let after = match texts.is_empty() {
        true => None,
        false => Some(play(history.records.clone(), &commands)?),
    };
    let pairs = after.as_ref().and_then(|(after, _)| Paired::of(&before, after));
    Ok(SimulatedCourse {
        since: Time(since),
        until: Time(until),
        n_jobs: before.jobs.len() as u64,
        before: was,
        after: after.as_ref().map(|(_, is)| *is),
        paired: pairs.as_ref().map(simulated_pairs),
        warnings: warnings(&history, &before, pairs.as_ref(), after.as_ref().map(|(it, _)| it)),
    })
}

fn play(
    records: Vec<Record>,
    commands: &[Command],
    jobs: &[Coming],
    since: Timestamp,
    began: Instant,
) -> Result<(Outcome, SimulatedFigures), Refusal> {
    let mut cluster = Cluster::of_records(records, since).map_err(|it| internal(it.to_string()))?;
    for command in commands {
        cluster.ask(command.clone())?;
    }
    let n_gpus = cluster.layout().n_usable();
    let mut is_late = false;
    let in_time = |_: &&Coming| {
        is_late = began.elapsed() >= TIME_MAX;
        !is_late
    };
    let coming = jobs.iter().take_while(in_time).cloned().map(Ok);
    let outcome = queue::play_on(cluster, coming, TERMS, &mut |_, _| {});
    let outcome = outcome.map_err(|error| internal(error.to_string()))?;
    if is_late {
        let why = format!("it takes more than {} s; choose a shorter time", TIME_MAX.as_secs());
        return Err(Refusal::Invalid { field: "past".to_owned(), why });
    }
    let mut waits: Vec<Option<Millis>> = outcome.jobs.iter().map(|job| Some(job.wait())).collect();
    waits.extend((0..outcome.n_stuck).map(|_| None));
    // Device time counts while jobs come: after that the cluster only empties.
    let span = outcome.came.map_or(Millis::ZERO, |(first, last)| last.since(first));
    let used = (outcome.busy, span);
    let figures = figures(&waits, n_gpus, used, outcome.n_taken_back);
    Ok((outcome, figures))
}

fn simulated_pairs(pairs: &Paired) -> SimulatedPairs {
    let second = 1000.0;
    SimulatedPairs {
        n_jobs: pairs.n_jobs as u64,
        n_sooner: pairs.n_sooner as u64,
        n_later: pairs.n_later as u64,
        mean_s: pairs.difference.mean / second,
        interval_s: pairs.difference.interval.map(|(low, high)| [low / second, high / second]),
    }
}

/// Why the figures of past jobs may not be reliable.
fn warnings(
    history: &History,
    before: &Outcome,
    pairs: Option<&Paired>,
    after: Option<&Outcome>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let n_jobs = before.jobs.len() as u64;
    if n_jobs < FEW {
        warnings.push(format!("Only {n_jobs} jobs: the time is too short to compare."));
    }
    if history.is_cut {
        warnings.push(format!("Only the newest {PAST_MAX} jobs ran once more."));
    }
    if let Some(pairs) = pairs {
        let n_days = pairs.difference.n_blocks;
        if n_jobs >= FEW && n_days < BLOCKS_MIN {
            warnings.push(format!(
                "Jobs of the same time wait for each other, so the confidence interval counts \
                 days, and needs {BLOCKS_MIN}; there are {n_days}: choose a longer time."
            ));
        }
        if !pairs.difference.is_told() {
            warnings.push(
                "The difference is not significant: the confidence interval contains 0, or there \
                 is none."
                    .to_owned(),
            );
        }
    }
    if history.n_never_ran + history.n_not_ended > 0 {
        warnings.push(format!(
            "Left out: {} jobs that never ran, {} that have not ended.",
            history.n_never_ran, history.n_not_ended
        ));
    }
    for (which, outcome) in [("Without", Some(before)), ("With", after)] {
        if let Some((outcome, refusal)) = outcome.and_then(|it| Some((it, it.refusal.as_ref()?))) {
            let why = Problem::from(refusal).detail;
            let n = outcome.n_refused;
            warnings.push(format!("{which} the changes, {n} jobs are refused; the first: {why}"));
        }
    }
    warnings
}
