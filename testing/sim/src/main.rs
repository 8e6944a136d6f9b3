//! `gpool-sim`: runs seeds until one breaks something, makes that run small and writes it down.

#![forbid(unsafe_code)]

mod arguments;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser as _;
use gpool_sim::{Outcome, Scenario, Swarm, Totals, play, run, shrink};

use arguments::{Arguments, Verb};

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    // A panic is a finding like any other, and told as one.
    std::panic::set_hook(Box::new(|_| {}));
    let is_well = match &arguments.verb {
        Some(Verb::Replay { file, verbose, bug }) => replay(file, *verbose, *bug)?,
        None if arguments.bugs => report::bugs(&arguments),
        None => match arguments.seed {
            Some(seed) => one(&arguments, seed)?,
            None => many(&arguments)?,
        },
    };
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn replay(file: &PathBuf, verbose: bool, bug: Option<gpool_sim::Bug>) -> anyhow::Result<bool> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    let scenario: Scenario = text
        .parse()
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("{} is no scenario", file.display()))?;
    let outcome = play(&scenario.cluster, bug, verbose, &scenario.happenings);
    outcome.trace.iter().for_each(|line| println!("{line}"));
    match &outcome.broken {
        Some(broken) => println!("broken: {broken}"),
        None => println!("nothing is broken after {} happenings", outcome.happenings.len()),
    }
    Ok(outcome.broken.is_none())
}

fn one(arguments: &Arguments, seed: u64) -> anyhow::Result<bool> {
    let swarm = Swarm::of(seed, arguments.steps);
    println!("{swarm}");
    let outcome = run(&swarm, arguments.bug, arguments.verbose);
    outcome.trace.iter().for_each(|line| println!("{line}"));
    report::totals(&outcome.totals);
    failed(arguments, &swarm, &outcome)
}

/// Runs all seeds; each thread takes the next free one.
fn many(arguments: &Arguments) -> anyhow::Result<bool> {
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let first_failing = AtomicU64::new(u64::MAX);
    let (done, outcomes) = mpsc::channel::<(Swarm, Outcome)>();
    let work = |done: mpsc::Sender<(Swarm, Outcome)>| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let seed = arguments.from.saturating_add(at);
            // Seeds before the first that fails are run all the same: it shall be the first.
            if at >= arguments.seeds || seed > first_failing.load(Ordering::Relaxed) {
                return;
            }
            let swarm = Swarm::of(seed, arguments.steps);
            let outcome = run(&swarm, arguments.bug, false);
            if outcome.broken.is_some() {
                first_failing.fetch_min(seed, Ordering::Relaxed);
            }
            if done.send((swarm, outcome)).is_err() {
                return;
            }
        }
    };
    let (totals, failing) = std::thread::scope(|scope| {
        for _ in 0..report::threads(arguments) {
            let done = done.clone();
            scope.spawn(move || work(done));
        }
        drop(done);
        collect(arguments, &outcomes, begun)
    });
    println!("{} in {}", report::rate(&totals.0, totals.1, begun), report::seconds(begun));
    report::totals(&totals.0);
    match failing {
        Some((swarm, outcome)) => failed(arguments, &swarm, &outcome),
        None => Ok(true),
    }
}

/// Adds up what comes, and keeps the first seed that failed.
fn collect(
    arguments: &Arguments,
    outcomes: &mpsc::Receiver<(Swarm, Outcome)>,
    begun: Instant,
) -> ((Totals, u64), Option<(Swarm, Outcome)>) {
    const EACH: Duration = Duration::from_secs(5);
    let (mut totals, mut n_seeds) = (Totals::default(), 0);
    let mut failing: Option<(Swarm, Outcome)> = None;
    let mut told = begun;
    for (swarm, outcome) in outcomes {
        if arguments.verbose {
            println!("{swarm}");
        }
        totals.add(&outcome.totals);
        n_seeds += 1;
        let is_first = failing.as_ref().is_none_or(|(first, _)| swarm.seed < first.seed);
        if outcome.broken.is_some() && is_first {
            failing = Some((swarm, outcome));
        }
        if told.elapsed() >= EACH {
            told = Instant::now();
            eprintln!("{}", report::rate(&totals, n_seeds, begun));
        }
    }
    ((totals, n_seeds), failing)
}

/// Says what broke, makes the run small and writes it down; true if nothing broke.
fn failed(arguments: &Arguments, swarm: &Swarm, outcome: &Outcome) -> anyhow::Result<bool> {
    let Some(broken) = &outcome.broken else { return Ok(true) };
    println!("\nbroken: {broken}\n{swarm}");
    let steps = arguments.steps.map(|steps| format!(" --steps {steps}")).unwrap_or_default();
    println!("again: cargo xtask sim --seed {}{steps} --verbose", swarm.seed);
    let whole = Scenario { cluster: swarm.cluster.clone(), happenings: outcome.happenings.clone() };
    let small = shrink(whole, arguments.bug, broken.invariant);
    let again = play(&small.cluster, arguments.bug, false, &small.happenings);
    let what = again.broken.map(|broken| broken.what).unwrap_or_default();
    let planted = arguments.bug.map(|bug| format!(", with {bug:?} planted")).unwrap_or_default();
    let found = format!("{}, seed {}{planted}", broken.invariant.code(), swarm.seed);
    let text = written(&small, &found, &what);
    let name = format!("testing/sim/scenarios/{}-seed-{}.txt", broken.invariant.code(), swarm.seed);
    let file = arguments.save.clone().unwrap_or_else(|| name.to_lowercase().into());
    std::fs::write(&file, &text).with_context(|| format!("can't write {}", file.display()))?;
    let n = small.happenings.len();
    println!("\nsmall ({n} of {} happenings), in {}:", outcome.happenings.len(), file.display());
    println!("\n{text}");
    println!("again: cargo xtask sim replay {} --verbose", file.display());
    Ok(false)
}

fn written(small: &Scenario, found: &str, what: &str) -> String {
    let what: String = what.lines().next().unwrap_or_default().chars().take(300).collect();
    format!("# {found}:\n# {what}\n{small}")
}
