//! The cluster of a simulation: equal nodes, or a recorded cluster with its projects, pools and
//! policies.

use gpool_model::{Consent, Displace, DrainTarget, GpuRequest, Millis};

use gpool_model::{Command, NodeName, Policy, Record, Timestamp};
use gpool_trace::jobs::TraceJob;
use gpool_trace::queue::{Outcome, Terms, play_on};
use gpool_trace::testing::{Asking, node};
use gpool_trace::{Cluster, Coming, Nodes};

/// A realistic date.
const BEGAN: Timestamp = Timestamp::new(1_790_000_000_000);

/// A recorded node of two devices; with `keeps_back` one of them must not be used.
fn cluster(policy: Policy, keeps_back: bool) -> Cluster {
    let mut node = node(0, 2);
    node.name = NodeName::new("lab");
    let first = node.devices.iter().take(1).map(|device| device.uuid.clone());
    node.allowed = keeps_back.then(|| first.collect());
    let records = vec![Record::Policy(Box::new(policy)), Record::Node(Box::new(node))];
    Cluster::of_records(records, BEGAN).unwrap()
}

fn job(submit_s: u64, duration_s: u64, gpus: &str) -> Coming {
    let owner = "anna".into();
    let job = TraceJob { submit_s, duration_s, n_gpus: 1, owner };
    let mut coming = Asking::of(Nodes { n: 1, n_gpus: 2 }).for_job(job);
    coming.at = BEGAN.after(Millis::new(submit_s * 1000));
    coming.job.gpus = GpuRequest::parse(gpus).unwrap();
    coming
}

fn played(cluster: Cluster, jobs: Vec<Coming>) -> Outcome {
    let terms = Terms {
        are_ends_known: false,
        are_preemptible: false,
        restart: Millis::from_secs(60),
        forecast_every: None,
    };
    play_on(cluster, jobs.into_iter().map(Ok), terms, &mut |_, _| {}).unwrap()
}

/// Returns the waiting time of each job in seconds, in the order of submission.
fn waits(outcome: &Outcome) -> Vec<u64> {
    let mut jobs: Vec<_> = outcome.jobs.iter().collect();
    jobs.sort_by_key(|job| (job.submitted_at, job.ended_at));
    jobs.iter().map(|job| job.wait().get() / 1000).collect()
}

#[test]
fn shares_of_a_device_run_side_by_side_and_count_as_parts() {
    let jobs = || vec![job(0, 100, "0.5"), job(10, 100, "0.5"), job(20, 100, "1")];
    let outcome = played(cluster(Policy::fifo(), true), jobs());
    assert_eq!(waits(&outcome), [0, 0, 90]);
    let gpus: Vec<f64> = outcome.jobs.iter().map(gpool_trace::queue::Played::n_gpus).collect();
    assert_eq!((gpus, outcome.busy), (vec![0.5, 0.5, 1.0], 15_000));
    let layout = cluster(Policy::fifo(), true).layout();
    assert_eq!((layout.n_usable(), layout.alike()), (1, None));
    assert_eq!(layout.nodes[0].name, "lab");
    let outcome = played(cluster(Policy::fifo(), false), jobs());
    assert_eq!(waits(&outcome), [0, 0, 0]);
}

#[test]
fn a_job_that_saves_nothing_starts_again() {
    let mut long = job(0, 20_000, "1");
    long.job.life.preemptible = Some(true);
    let outcome = played(cluster(Policy::las(), true), vec![long, job(10_000, 100, "1")]);
    assert_eq!((waits(&outcome), outcome.n_taken_back), (vec![10_100, 0], 1));
}

#[test]
fn evicted_jobs_that_end_for_good_are_counted() {
    let mut long = job(0, 20_000, "1");
    long.job.life.preemptible = Some(true);
    long.job.life.exits = std::collections::BTreeSet::from([gpool_model::Exit::Kill]).into();
    let outcome = played(cluster(Policy::las(), true), vec![long, job(10_000, 50, "1")]);
    assert_eq!((outcome.n_cut, outcome.n_taken_back, outcome.n_stuck), (1, 0, 0));
    let ran: Vec<u64> = outcome.jobs.iter().map(|job| job.duration.get() / 1000).collect();
    assert_eq!((ran, waits(&outcome)), (vec![10_000, 50], vec![0, 0]));
}

#[test]
fn stuck_jobs_are_counted_and_admin_commands_are_carried_out_or_refused() {
    let mut cluster = cluster(Policy::fair(), false);
    let mut drain = |node: &str| {
        let targets = vec![DrainTarget { node: NodeName::new(node), device: None }];
        let consent = Consent { dry_run: false, choice: Some(Displace::LetFinish) };
        cluster.ask(Command::Drain { targets, by: None, reason: "supposed".into(), consent })
    };
    assert!(drain("none").is_err());
    assert_eq!(drain("lab"), Ok(()));
    let outcome = played(cluster, vec![job(0, 100, "1"), job(0, 100, "3")]);
    assert_eq!((outcome.n_stuck, outcome.n_refused, outcome.jobs.len()), (1, 1, 0));
}
