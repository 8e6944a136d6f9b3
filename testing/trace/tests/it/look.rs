//! The calls to the observer while a trace is played.

use gpool_model::{Millis, Policy, Timestamp};
use gpool_trace::baseline::{self, Rule};
use gpool_trace::jobs::TraceJob;
use gpool_trace::queue::{self, Terms};
use gpool_trace::{Nodes, TraceError};

const NODES: Nodes = Nodes { n: 2, n_gpus: 4 };

fn job(submit_s: u64, duration_s: u64, n_gpus: u32) -> Result<TraceJob, TraceError> {
    Ok(TraceJob { submit_s, duration_s, n_gpus, owner: "red".into() })
}

#[test]
fn the_observer_sees_the_number_of_live_jobs_before_each_event() {
    let jobs = || [job(0, 100, 8), job(10, 50, 1), job(20, 50, 3), job(500, 7, 2)];
    let terms = Terms {
        are_ends_known: true,
        are_preemptible: false,
        restart: Millis::ZERO,
        forecast_every: None,
    };
    let expected = [(0, 0), (10, 1), (20, 2), (100, 3), (150, 2), (500, 0), (507, 1)];
    let seconds = |until: Timestamp| until.get() / 1000 - 1000;
    let mut seen = Vec::new();
    let mut look = |n_live: usize, until: Timestamp| seen.push((seconds(until), n_live));
    baseline::play(jobs(), NODES, Rule::Greedy, Millis::ZERO, &mut look).unwrap();
    assert_eq!(seen, expected);
    // The scheduler has additional events of its own.
    let mut seen = Vec::new();
    let mut look = |n_live: usize, until: Timestamp| seen.push((seconds(until), n_live));
    queue::play(jobs(), NODES, Policy::fifo(), terms, &mut look).unwrap();
    for event in expected {
        assert!(seen.contains(&event), "{event:?}: {seen:?}");
    }
}
