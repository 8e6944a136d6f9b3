//! What `gpool-sim` prints of many runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gpool_sim::{Broken, Bug, Kind, Role, Swarm, Totals, find};

use crate::arguments::Arguments;

/// A planted bug, with the number of seeds and the broken invariant if it was found.
type Finding = (Bug, Option<(u64, Broken)>);

/// How many seeds are run at once.
pub fn threads(arguments: &Arguments) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    arguments.threads.unwrap_or_else(cores).max(1)
}

/// Time since then, in seconds with one digit.
pub fn seconds(begun: Instant) -> String {
    let tenths = begun.elapsed().as_millis() / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

/// How much was done so far, and how fast.
pub fn rate(totals: &Totals, n_seeds: u64, begun: Instant) -> String {
    let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    let each = |n: u64| n.saturating_mul(1000) / ms;
    let all = totals.all();
    format!("{n_seeds} seeds, {all} happenings: {} and {} a second", each(n_seeds), each(all))
}

/// What happened, in a few lines.
pub fn totals(totals: &Totals) {
    let Totals { steps, replies, jobs, starts, ends, refusals, .. } = totals;
    let Totals { silences, losses, fenced, removals, .. } = totals;
    println!("steps of the state machine {steps}, answers {replies}");
    println!(
        "jobs taken {jobs}, ended {ends}; programs started {starts}, refused {refusals}; \
         taken back {}",
        totals.evictions
    );
    println!(
        "guests {}, moves {}, pauses {}, of these failed {}; loans {}, called back {}",
        totals.guests, totals.moves, totals.pauses, totals.moves_failed, totals.loans, totals.calls
    );
    println!(
        "sizes changed {}; paused for loans {}; idle {}; orders to pause that failed {}, that met \
         a task away {}; resumed {}, of these elsewhere {}",
        totals.resizes,
        totals.vacated,
        totals.of(Kind::Idle),
        totals.pauses_refused,
        totals.pauses_away,
        totals.resumes,
        totals.remaps
    );
    println!(
        "agents silent {silences}, lost {losses}; programs ended by their lease {fenced}; nodes \
         removed {removals}"
    );
    println!(
        "killed: servers {}, agents {}, shepherds {}; machines restarted {}; commits failed {}",
        totals.servers_killed,
        totals.agents_killed,
        totals.shepherds_killed,
        totals.reboots,
        totals.commits_failed
    );
    let faults = Kind::ALL.iter().filter(|kind| kind.role() == Role::Fault);
    let faults = faults.map(|kind| format!("{} {}", kind.word(), totals.of(*kind)));
    println!("faults: {}", faults.collect::<Vec<_>>().join(", "));
}

/// Plants every bug, and prints after how many seeds each is found; true if all are.
pub fn bugs(arguments: &Arguments) -> bool {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::<Finding>::new());
    std::thread::scope(|scope| {
        for _ in 0..threads(arguments) {
            scope.spawn(|| {
                while let Some(bug) = Bug::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let from = arguments.from.max(Swarm::first_seed(*bug));
                    let one = find(*bug, from, arguments.seeds);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((*bug, one));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(bug, _)| *bug);
    println!("{:<22} {:>6}  {:<12} fault", "bug", "seeds", "found by");
    for (bug, one) in &found {
        let (seeds, by) = match one {
            Some((seeds, broken)) => (seeds.to_string(), broken.invariant.code()),
            None if Bug::FOR_EXPLORING.contains(bug) => ("–".to_owned(), "exploring"),
            None => (format!(">{}", arguments.seeds), "nothing"),
        };
        println!("{:<22} {seeds:>6}  {by:<12} {}", format!("{bug:?}"), bug.what().trim());
    }
    let is_found = |(bug, one): &&Finding| one.is_some() || Bug::FOR_EXPLORING.contains(bug);
    let n_found = found.iter().filter(is_found).count();
    println!("{n_found} of {} found", found.len());
    n_found == found.len()
}
