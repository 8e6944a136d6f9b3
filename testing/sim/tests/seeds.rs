//! Many seeds: each must keep every invariant and give the same run each time.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use gpool_sim::{Bug, Kind, Role, Scenario, Swarm, Totals, find, play, run, shrink};

/// Runs the numbers below `n` on all cores.
fn on_all_cores(n: u64, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= n {
                        return;
                    }
                    work(at);
                }
            });
        }
    });
}

#[test]
fn a_thousand_seeds_keep_every_promise() {
    let totals = Mutex::new(Totals::default());
    on_all_cores(1000, |seed| {
        let swarm = Swarm::of(seed, None);
        let outcome = run(&swarm, None, false);
        if let Some(broken) = &outcome.broken {
            panic!("{broken}\n{swarm}\ncargo xtask sim --seed {seed} makes it small");
        }
        totals.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome.totals);
    });
    // Runs without events would keep every invariant too.
    let totals = totals.into_inner().unwrap();
    assert!(totals.all() > 200_000 && totals.steps > 150_000, "{totals:?}");
    assert!(totals.jobs > 10_000 && totals.starts > 5_000 && totals.ends > 8_000, "{totals:?}");
    assert!(totals.servers_killed > 1_000 && totals.agents_killed > 1_000, "{totals:?}");
    assert!(totals.reboots > 300 && totals.commits_failed > 500, "{totals:?}");
    assert!(totals.evictions > 100, "{totals:?}");
    assert!(totals.refusals > 30 && totals.shepherds_killed > 100, "{totals:?}");
    let faults = Kind::ALL.iter().filter(|kind| kind.role() == Role::Fault);
    let of_later_seeds = [Kind::FailStep, Kind::Surge, Kind::FailRestore, Kind::Leave];
    for kind in faults.filter(|kind| !of_later_seeds.contains(kind)) {
        assert!(totals.of(*kind) > 20, "{} happened {} times", kind.word(), totals.of(*kind));
    }
}

#[test]
fn tasks_that_share_devices_keep_every_promise() {
    let totals = Mutex::new(Totals::default());
    on_all_cores(120, |at| {
        let swarm = Swarm::of(Swarm::SHARING + at, None);
        let outcome = run(&swarm, None, false);
        assert_eq!(outcome.broken, None, "{swarm}");
        totals.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome.totals);
    });
    let totals = totals.into_inner().unwrap();
    assert!(totals.guests > 100 && totals.moves > 10, "{totals:?}");
    assert!(totals.loans > 100 && totals.calls > 5, "{totals:?}");
}

#[test]
fn shares_that_change_their_size_and_tasks_that_are_paused_keep_every_promise() {
    let totals = Mutex::new(Totals::default());
    on_all_cores(60, |at| {
        let swarm = Swarm::of(Swarm::ELASTIC + at, None);
        let outcome = run(&swarm, None, false);
        assert_eq!(outcome.broken, None, "{swarm}");
        totals.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome.totals);
    });
    let totals = totals.into_inner().unwrap();
    assert!(totals.pauses > 50 && totals.resumes > 20, "{totals:?}");
    assert!(totals.resizes > 20 && totals.vacated > 0, "{totals:?}");
}

#[test]
fn idle_jobs_that_are_released_and_pauses_that_fail_keep_every_promise() {
    let totals = Mutex::new(Totals::default());
    on_all_cores(60, |at| {
        let swarm = Swarm::of(Swarm::IDLE + at, None);
        let outcome = run(&swarm, None, false);
        assert_eq!(outcome.broken, None, "{swarm}");
        totals.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome.totals);
    });
    let totals = totals.into_inner().unwrap();
    assert!(totals.pauses_refused > 5 && totals.pauses_away > 0, "{totals:?}");
}

#[test]
fn jobs_on_other_machines_keep_every_promise_when_the_network_is_divided() {
    let totals = Mutex::new(Totals::default());
    on_all_cores(300, |at| {
        let swarm = Swarm::of(Swarm::LEASED + at, None);
        let outcome = run(&swarm, None, false);
        assert_eq!(outcome.broken, None, "{swarm}");
        totals.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome.totals);
    });
    let totals = totals.into_inner().unwrap();
    assert!(totals.silences > 500 && totals.losses > 100, "{totals:?}");
    assert!(totals.removals > 50, "{totals:?}");
    assert!(totals.fenced > 20 && totals.starts > 1000, "{totals:?}");
}

#[test]
fn a_seed_does_the_same_each_time_and_so_does_what_is_recorded_of_it() {
    for seed in [3, 17, 40] {
        let swarm = Swarm::of(seed, Some(400));
        let first = run(&swarm, None, true);
        assert!(first.trace.len() > 400);
        assert_eq!(first.trace, run(&swarm, None, true).trace);
        let played = play(&swarm.cluster, None, true, &first.happenings);
        assert_eq!(first.trace, played.trace, "without the random numbers");
    }
}

#[test]
fn every_scenario_that_is_kept_breaks_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut n_files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario: Scenario = text.parse().unwrap();
        let outcome = play(&scenario.cluster, None, false, &scenario.happenings);
        assert_eq!(outcome.broken, None, "{}", path.display());
        n_files += 1;
    }
    assert!(n_files > 0);
}

/// How many seeds are tried for each bug. The rarest bug needs a few hundred.
const MOST: u64 = 3000;

/// How many lines of the table may be stale before it must be written again: each of them costs a
/// search.
const STALE_MOST: usize = 5;

/// The table with the first seed that finds each bug, one per line.
const FOUND_BY: &str = "tests/found-by.txt";

/// Returns the bugs that seeds find, each with its seed from the table.
fn table() -> Vec<(Bug, Option<u64>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOUND_BY);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let seed = |bug: Bug| {
        let name = format!("{bug:?} ");
        text.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse().ok())
    };
    let others = [Bug::FOR_EXPLORING, Bug::SURVIVED].concat();
    let by_seeds = Bug::ALL.iter().filter(|bug| !others.contains(bug));
    by_seeds.map(|bug| (*bug, seed(*bug))).collect()
}

#[test]
fn every_bug_that_is_planted_is_found() {
    let is_blessed = std::env::var_os("GPOOL_BLESS").is_some();
    let table = table();
    let (missed, stale) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let found = Mutex::new(std::collections::BTreeMap::new());
    on_all_cores(table.len() as u64, |at| {
        let (bug, seed) = table[usize::try_from(at).unwrap()];
        let known = seed.filter(|seed| !is_blessed && find(bug, *seed, 1).is_some());
        if known.is_none() {
            stale.lock().unwrap().push(bug);
        }
        match known.or_else(|| {
            let from = Swarm::first_seed(bug);
            find(bug, from, MOST).map(|(n, _)| from + n - 1)
        }) {
            Some(seed) => drop(found.lock().unwrap().insert(bug, seed)),
            None => missed.lock().unwrap().push(bug),
        }
    });
    let (stale, found) = (stale.into_inner().unwrap(), found.into_inner().unwrap());
    if is_blessed {
        let lines: String = found.iter().map(|(bug, seed)| format!("{bug:?} {seed}\n")).collect();
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(FOUND_BY), lines).unwrap();
    }
    assert_eq!(missed.into_inner().unwrap(), []);
    assert!(table.len() >= 20);
    let how = "GPOOL_BLESS=1 cargo test -p gpool-sim --test seeds writes the seeds anew";
    assert!(
        is_blessed || stale.len() <= STALE_MOST,
        "found by other seeds: {stale:?}\n{how}\n{found:?}"
    );
}

#[test]
fn a_plan_that_is_wrong_for_some_jobs_stops_no_others() {
    let totals = Mutex::new(Totals::default());
    on_all_cores(200, |seed| {
        let swarm = Swarm::of(seed, None);
        let outcome = run(&swarm, Some(Bug::PlanWrongForSome), false);
        assert_eq!(outcome.broken, None, "{swarm}");
        totals.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome.totals);
    });
    let totals = totals.into_inner().unwrap();
    assert!(totals.set_aside > 200 && totals.starts > 500, "{totals:?}");
}

#[test]
fn a_failing_run_is_made_small_and_still_fails_the_same_way() {
    let bug = Some(Bug::StopLost);
    let (n, broken) = find(Bug::StopLost, 0, MOST).unwrap();
    let swarm = Swarm::of(n - 1, None);
    let happenings = run(&swarm, bug, false).happenings;
    let n_before = happenings.len();
    let whole = Scenario { cluster: swarm.cluster, happenings };
    let small = shrink(whole, bug, broken.invariant);
    assert!(small.happenings.len() <= 20 && small.happenings.len() < n_before, "{small}");
    let read: Scenario = small.to_string().parse().unwrap();
    let again = play(&read.cluster, bug, false, &read.happenings);
    assert_eq!(again.broken.unwrap().invariant, broken.invariant);
    assert_eq!(play(&read.cluster, None, false, &read.happenings).broken, None);
}
