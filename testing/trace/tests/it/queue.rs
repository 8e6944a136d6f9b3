//! Plays traces with the real scheduler, in virtual time.

use std::path::Path;

use gpool_model::{Millis, Policy};
use gpool_trace::jobs::{Jobs, TraceJob};
use gpool_trace::queue::{Outcome, PlayError, Terms, play};
use gpool_trace::{Nodes, TraceError};

const TERMS: Terms = Terms {
    are_ends_known: true,
    are_preemptible: false,
    restart: Millis::from_secs(60),
    forecast_every: None,
};

fn job(submit_s: u64, duration_s: u64, n_gpus: u32) -> Result<TraceJob, TraceError> {
    Ok(TraceJob { submit_s, duration_s, n_gpus, owner: "anna".into() })
}

fn played(
    jobs: Vec<Result<TraceJob, TraceError>>,
    nodes: Nodes,
    policy: &str,
    terms: Terms,
) -> Outcome {
    let (preset, settings) = policy.split_once(':').unwrap_or((policy, ""));
    let mut policy = Policy::from_preset(preset).expect("a preset");
    for (key, value) in settings.split(',').filter_map(|it| it.split_once('=')) {
        policy.set(key, value).expect("a setting");
    }
    play(jobs, nodes, policy, terms, &mut |_, _| {}).expect("it is played to its end")
}

/// Returns the waiting time of each job in seconds, in the order of submission.
fn waits(outcome: &Outcome) -> Vec<u64> {
    let mut jobs = outcome.jobs.clone();
    jobs.sort_by_key(|job| (job.submitted_at, job.ended_at));
    jobs.iter().map(|job| job.wait().get() / 1000).collect()
}

#[test]
fn jobs_wait_for_each_other_as_long_as_they_run() {
    let nodes = Nodes { n: 1, n_gpus: 2 };
    let jobs = vec![job(0, 100, 2), job(10, 50, 1), job(20, 50, 1), job(300, 7, 2)];
    let outcome = played(jobs, nodes, "fifo", TERMS);
    assert_eq!(waits(&outcome), [0, 90, 80, 0]);
    // 200 and 100 GPU-seconds of the 600 until the last job was submitted.
    assert_eq!(outcome.busy, 300_000);
    assert_eq!((outcome.n_refused, outcome.n_taken_back), (0, 0));
}

#[test]
fn with_known_ends_jobs_that_do_not_delay_the_first_backfill() {
    let nodes = Nodes { n: 1, n_gpus: 2 };
    let jobs = || vec![job(0, 10_000, 1), job(1, 100, 2), job(2, 5_000, 1), job(3, 90_000, 1)];
    assert_eq!(waits(&played(jobs(), nodes, "fifo", TERMS)), [0, 9_999, 0, 10_097]);
}

#[test]
fn a_preempted_job_continues_and_repeats_a_little_work() {
    let nodes = Nodes { n: 1, n_gpus: 1 };
    let terms = Terms { are_ends_known: false, are_preemptible: true, ..TERMS };
    // The first job has more than an hour of GPU-time when the second comes, so the second goes
    // first.
    let jobs = vec![job(0, 20_000, 1), job(10_000, 100, 1)];
    let outcome = played(jobs, nodes, "las", terms);
    assert_eq!((waits(&outcome), outcome.n_taken_back), (vec![160, 0], 1));
}

#[test]
fn a_large_job_takes_several_nodes_and_a_too_large_one_is_refused() {
    let nodes = Nodes { n: 2, n_gpus: 8 };
    let jobs = vec![job(0, 100, 16), job(1, 100, 12), job(2, 100, 17), job(3, 10, 4)];
    let outcome = played(jobs, nodes, "fifo", TERMS);
    assert_eq!((waits(&outcome), outcome.n_refused), (vec![0, 99, 197], 1));
}

#[test]
fn the_same_trace_gives_the_same_result() {
    let jobs = || (0..200).map(|n| job(n * 7, 1 + n * 37 % 400, 1 + (n % 4) as u32)).collect();
    let nodes = Nodes { n: 3, n_gpus: 4 };
    for policy in ["fair", "valohai", "las"] {
        let terms = Terms { are_preemptible: policy == "las", ..TERMS };
        let [one, other] = [(); 2].map(|()| played(jobs(), nodes, policy, terms));
        assert_eq!(one.jobs, other.jobs, "{policy}");
        assert_eq!(one.jobs.len(), 200, "{policy}");
    }
}

#[test]
fn forecasts_of_waiting_jobs_are_compared_with_their_starts() {
    let nodes = Nodes { n: 1, n_gpus: 1 };
    let jobs = || vec![job(0, 3_600, 1), job(10, 3_600, 1), job(20, 60, 1)];
    let terms = Terms { forecast_every: Some(Millis::from_mins(10)), ..TERMS };
    let outcome = played(jobs(), nodes, "fifo", terms);
    // Each job has one forecast, ten minutes after the begin; forecasts change nothing.
    assert_eq!(outcome.jobs, played(jobs(), nodes, "fifo", TERMS).jobs);
    let ms = |at: gpool_model::Timestamp| at.get() - outcome.came.unwrap().0.get();
    let told: Vec<_> = outcome.forecasts.iter().map(|it| (ms(it.at), ms(it.started_at))).collect();
    assert_eq!(told, [(600_000, 3_600_000), (600_000, 7_200_000)]);
    for it in &outcome.forecasts {
        assert!(it.at <= it.p10 && it.p10 <= it.p50 && it.p50 <= it.p90, "{it:?}");
    }
}

#[test]
fn a_trace_out_of_order_is_refused_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.csv");
    let play = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let jobs = Jobs::open(&path)?;
        play(jobs, Nodes { n: 1, n_gpus: 8 }, Policy::fair(), TERMS, &mut |_, _| {})
    };
    let good = play("id,submit_s,duration_s,gpus,vc\n0,5,30,1,a\n1,5,60,1,b\n").unwrap();
    assert_eq!(good.jobs.len(), 2);
    for (text, said) in [
        (
            "submit_s,duration_s,gpus\n9,1,1\n7,1,1\n",
            ":3, column submit_s: \"7\" is not 9 or later",
        ),
        ("submit_s,duration_s,gpus\n9,-1,1\n", ":2, column duration_s: \"-1\" is not seconds"),
        ("submit_s,gpus\n9,1\n", "there is no column \"duration_s\""),
    ] {
        let error = play(text).unwrap_err();
        assert!(matches!(error, PlayError::Trace(_)), "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}

/// One day of a published trace, with known results of the rules.
#[test]
fn a_published_day_gives_the_known_results() {
    let Some(shared) = std::env::var_os("GPOOL_SHARED") else {
        return eprintln!("skipped: no data");
    };
    let path = Path::new(&shared).join("traces/philly_day_2017-10-10.csv");
    let mean = |policy| {
        let jobs = Jobs::open(&path).unwrap().collect();
        let outcome = played(jobs, Nodes { n: 24, n_gpus: 8 }, policy, TERMS);
        let waits = waits(&outcome);
        waits.iter().sum::<u64>() as f64 / waits.len() as f64 / 3600.0
    };
    for (policy, known) in
        [("fifo:planned_starts=0", 0.236), ("fifo", 0.371), ("fair:planned_starts=0", 0.237)]
    {
        let mean = mean(policy);
        assert!((mean - known).abs() < 0.01, "{policy}: {mean}");
    }
}

/// One user keeps all GPUs busy with small jobs, and another one asks for all of them. Under the
/// default policy the large job starts as soon as the running small jobs have ended.
#[test]
fn a_stream_of_small_jobs_does_not_delay_the_large_job_of_another_user() {
    let job = |submit_s, duration_s, n_gpus, owner: &str| TraceJob {
        submit_s,
        duration_s,
        n_gpus,
        owner: owner.into(),
    };
    let mut jobs: Vec<TraceJob> = (0..600).map(|n| job(n * 60, 600, 1, "a")).collect();
    jobs.push(job(3_600, 1_800, 8, "b"));
    jobs.sort_by_key(|job| job.submit_s);
    for are_ends_known in [false, true] {
        let terms = Terms { are_ends_known, ..TERMS };
        let (jobs, cluster) = (jobs.clone().into_iter().map(Ok), Nodes { n: 1, n_gpus: 8 });
        let outcome = play(jobs, cluster, Policy::of_new_server(), terms, &mut |_, _| {}).unwrap();
        let large = outcome.jobs.iter().find(|job| &*job.owner == "b").unwrap();
        assert!(large.wait() <= Millis::from_mins(11), "{} {are_ends_known}", large.wait());
    }
}
