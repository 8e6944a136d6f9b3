//! The full-screen view of a simulation.

use rustix::process::Signal;

use crate::harness::{Cluster, Tty};

/// A trace of two days with one job per hour.
fn trace(cluster: &Cluster) {
    let mut text = "submit_s,duration_s,gpus,vc\n".to_owned();
    for hour in 0..48 {
        text.push_str(&format!("{},5400,{},team{}\n", hour * 3600, 1 + hour % 4, hour % 3));
    }
    std::fs::write(cluster.work().join("jobs.csv"), text).unwrap();
}

/// A speed at which the simulation does not end by itself.
const WATCH: &[&str] =
    &["simulate", "queue", "--trace", "jobs.csv", "--cluster", "2x4", "--watch=1m"];

#[test]
fn a_watched_simulation_ends_by_a_key_with_the_table_and_the_terminal_restored() {
    let cluster = Cluster::unstarted(&[]);
    trace(&cluster);
    let mut tty = Tty::start(&cluster, WATCH);
    tty.until_shows("\x1b[?1049h");
    tty.until_shows("day 1 of 2, 00:00");
    tty.until_shows("1m per second");
    assert!(tty.is_raw());
    tty.types("+");
    tty.until_shows("2m per second");
    tty.types(" ");
    tty.until_shows("paused");
    tty.resize(10, 40);
    // The first line of nodes moved up.
    tty.until_shows("\x1b[5;1H\x1b[2m0 ");
    tty.types("q");
    assert_eq!(tty.end(), 130);
    tty.until_shows("fifo (part)");
    let seen = tty.seen.lock().unwrap().clone();
    let (_, after) = seen.split_once("\x1b[?1049l").unwrap();
    assert!(after.contains("\x1b[?25h") && after.contains("interrupted"), "{after}");
    assert!(!after.contains("fair"), "{after}");
}

#[test]
fn a_simulation_that_is_watched_leaves_the_terminal_as_it_was_however_it_ends() {
    let cluster = Cluster::unstarted(&[]);
    trace(&cluster);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut tty = Tty::start(&cluster, WATCH);
        tty.until_shows("day 1 of 2");
        tty.signal(signal);
        assert_eq!(tty.end(), code);
        tty.until_shows("\x1b[?1049l");
    }
    let mut all = Tty::start(&cluster, &[&WATCH[..6], &["--watch=max"]].concat());
    assert_eq!(all.end(), 0);
    let ran = cluster.gpool(WATCH);
    ran.refused(2, &["--watch needs a terminal", "GP0250", "without --watch"]);
}
