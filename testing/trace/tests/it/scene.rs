//! The views of a cluster while a trace is played on it.

use std::collections::BTreeSet;

use gpool_model::{Millis, Policy, Timestamp};
use gpool_trace::baseline::{self, Rule};
use gpool_trace::jobs::TraceJob;
use gpool_trace::queue::{self, Terms};
use gpool_trace::scene::Scene;
use gpool_trace::{Nodes, TraceError};

const NODES: Nodes = Nodes { n: 2, n_gpus: 4 };

fn job(submit_s: u64, duration_s: u64, n_gpus: u32) -> Result<TraceJob, TraceError> {
    let owner = if n_gpus > 2 { "large" } else { "small" };
    Ok(TraceJob { submit_s, duration_s, n_gpus, owner: owner.into() })
}

/// Describes the cluster before each event: the time in seconds, the running jobs with their
/// devices, the waiting jobs, and the number of ended jobs.
fn line(scene: &dyn Scene, until: Timestamp) -> String {
    let mut taken = BTreeSet::new();
    let (mut run, mut wait) = (Vec::new(), Vec::new());
    for job in scene.live() {
        let words = format!("{}:{}", job.owner, job.gpus.get() / 1000);
        let Some(devices) = job.devices else {
            wait.push(words);
            continue;
        };
        assert_eq!(devices.len(), (job.gpus.get() / 1000) as usize);
        for (node, ix) in devices {
            assert!(*node < NODES.n && *ix < NODES.n_gpus && taken.insert((*node, *ix)));
        }
        run.push(words);
    }
    assert_eq!(scene.n_live(), run.len() + wait.len());
    assert!(scene.now() <= until);
    let (until, n_ended) = (until.get() / 1000 - 1000, scene.ended().len());
    format!("{until}: run {run:?} wait {wait:?} ended {n_ended}")
}

#[test]
fn the_view_shows_the_cluster_before_each_event() {
    let jobs = || [job(0, 100, 8), job(10, 50, 1), job(20, 50, 3), job(500, 7, 2)];
    let terms = Terms {
        are_ends_known: true,
        are_preemptible: false,
        restart: Millis::ZERO,
        forecast_every: None,
    };
    let expected = [
        r#"0: run [] wait [] ended 0"#,
        r#"10: run ["large:8"] wait [] ended 0"#,
        r#"20: run ["large:8"] wait ["small:1"] ended 0"#,
        r#"100: run ["large:8"] wait ["small:1", "large:3"] ended 0"#,
        r#"150: run ["small:1", "large:3"] wait [] ended 1"#,
        r#"500: run [] wait [] ended 3"#,
        r#"507: run ["small:2"] wait [] ended 3"#,
    ];
    let mut seen = Vec::new();
    let mut look = |scene: &dyn Scene, until: Timestamp| seen.push(line(scene, until));
    baseline::play(jobs(), NODES, Rule::Greedy, Millis::ZERO, &mut look).unwrap();
    assert_eq!(seen, expected);
    // The scheduler has additional events of its own.
    let mut seen = Vec::new();
    let mut look = |scene: &dyn Scene, until: Timestamp| seen.push(line(scene, until));
    queue::play(jobs(), NODES, Policy::fifo(), terms, &mut look).unwrap();
    for line in expected {
        assert!(seen.iter().any(|it| it == line), "{line}: {seen:#?}");
    }
}
