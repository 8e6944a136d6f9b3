//! kill -9 of the real program under load: of the server, which includes the agent, also while it
//! starts; of shepherds; of the nursery; at random moments and at every point where data is written
//! or sent. A seed determines the moments and is printed; `GPOOL_TEST_SEED` sets it, and
//! `GPOOL_KILL_ROUNDS` sets the number of kills. The seed repeats the choices, but not the
//! scheduling of threads.

mod checker;
mod checker_finds;
mod history;
mod load;
mod moves;
mod network;
mod numbers;
pub mod points;
mod siege;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::harness::Cluster;
use numbers::{KILLS, rounds, seed};
use siege::Siege;

/// Kills at random moments on one cluster with this number of nodes, and of devices on each.
fn kill_at_random(seed: u64, n_nodes: usize, n_gpus: usize, n_kills: u64) {
    let mut siege = Siege::new(seed, n_nodes, n_gpus);
    while siege.n_kills < n_kills {
        siege.go_on(120);
        match siege.numbers.below(10) {
            0..=4 => {
                siege.kill_server();
                // Sometimes it is killed again while it still starts.
                while siege.numbers.below(3) == 0 {
                    siege.cluster.launch();
                    siege.go_on(80);
                    siege.kill_server();
                }
                siege.up();
            }
            // A shepherd and its server at the same time.
            5 => {
                siege.kill_a_shepherd();
                siege.kill_server();
                siege.up();
            }
            6 | 7 => drop(siege.kill_a_shepherd()),
            _ => drop(siege.kill_nursery()),
        }
    }
    siege.end();
}

#[test]
fn killed_at_random_moments_nothing_is_lost_and_nothing_runs_twice() {
    kill_at_random(seed(), 1, 1, rounds(KILLS));
}

#[test]
fn killed_at_random_moments_several_devices_are_never_given_twice() {
    kill_at_random(seed().wrapping_add(1), 1, 2, rounds(KILLS));
}

#[test]
fn killed_at_random_moments_each_of_several_nodes_finds_its_own_again() {
    kill_at_random(seed().wrapping_add(3), 3, 1, rounds(KILLS));
}

#[test]
fn killed_in_a_bulk_submission_it_is_all_or_none() {
    let mut cluster = Cluster::new("none");
    let lines = "{\"command\":[\"true\"],\"hold\":true}\n".repeat(2000);
    for round in 0..6 {
        let before = cluster.all_ids().len();
        let client = cluster.client().with_retries(Duration::ZERO);
        let body = lines.clone();
        let answered = Arc::new(AtomicBool::new(false));
        let (heard, key) = (answered.clone(), format!("bulk-{round}"));
        let submits = std::thread::spawn(move || {
            let told = client.submit_many(&mut body.as_bytes(), Some(&key)).is_ok();
            heard.store(told, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(round * 25));
        cluster.kill();
        submits.join().unwrap();
        cluster.up();
        let n_new = cluster.all_ids().len() - before;
        assert!(n_new == 0 || n_new == 2000, "a part was taken: {n_new}");
        assert!(n_new == 2000 || !answered.load(Ordering::SeqCst), "acknowledged jobs are lost");
    }
}
