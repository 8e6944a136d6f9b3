//! kill -9 of the server at random moments, under load. Which moments they are follows from a
//! seed, which a failure prints; `GPOOL_TEST_SEED` sets it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpool_client::Client;
use gpool_wire::JobCreate;

use crate::harness::{Cluster, until, until_so};

const N_JOBS: usize = 300;
const N_KILLS: usize = 15;
const N_SUBMITTERS: usize = 3;

/// Numbers that look random and follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Submits a job under a key until somebody takes it, as a client that must not give up would.
fn submit_for_sure(client: &Client, number: usize, trace: &str) -> String {
    let on_gpu = number.is_multiple_of(3);
    let file = if on_gpu { "gpu" } else { "cpu" };
    let line = format!(
        "echo $GPOOL_JOB_ID $GPOOL_ATTEMPT >> {trace}.{file}; echo out of {number}; exit {}",
        number % 7
    );
    let job = JobCreate {
        command: ["sh", "-c", &line].map(str::to_owned).to_vec(),
        name: Some(format!("n{number}")),
        gpus: on_gpu.then(|| "1".to_owned()),
        directory: Some("/".to_owned()),
        ..JobCreate::default()
    };
    let key = format!("key-{number}");
    until("a job is taken", || client.submit(&job, Some(&key)).ok()).id
}

/// What each thread was told: number and id.
fn submit_all(cluster: &Cluster) -> Vec<std::thread::JoinHandle<Vec<(usize, String)>>> {
    let trace = cluster.path("trace").display().to_string();
    let submitter = |first: usize| {
        let (client, trace) = (cluster.client(), trace.clone());
        std::thread::spawn(move || {
            let mine = (first..N_JOBS).step_by(N_SUBMITTERS);
            mine.map(|number| (number, submit_for_sure(&client, number, &trace))).collect()
        })
    };
    (0..N_SUBMITTERS).map(submitter).collect()
}

fn starts(cluster: &Cluster, kind: &str) -> Vec<(u64, u32)> {
    let text = std::fs::read_to_string(cluster.path(&format!("trace.{kind}"))).unwrap();
    let read = |line: &str| {
        let (id, attempt) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        (id.parse().unwrap(), attempt.parse().unwrap())
    };
    text.lines().map(read).collect()
}

#[test]
fn killed_at_random_moments_nothing_is_lost_and_nothing_runs_twice() {
    let seed = std::env::var("GPOOL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_secs() | 1
    });
    eprintln!("GPOOL_TEST_SEED={seed}");
    let mut numbers = Numbers(seed);
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let submitters = submit_all(&cluster);
    for _ in 0..N_KILLS {
        // The moment is what is tried here; nothing waits for anything by it.
        std::thread::sleep(Duration::from_millis(numbers.below(120)));
        cluster.kill();
        // Half of the time it is killed again while it still starts.
        cluster.launch();
        if numbers.below(2) == 0 {
            std::thread::sleep(Duration::from_millis(numbers.below(60)));
            cluster.kill();
            cluster.launch();
        }
        cluster.until_ready();
    }
    let acknowledged: BTreeMap<usize, String> =
        submitters.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(acknowledged.len(), N_JOBS);
    let ids: BTreeSet<u64> = acknowledged.values().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), N_JOBS, "an id was given twice");
    until_so("all have ended", || {
        let status = cluster.client().status().unwrap();
        status.jobs.is_empty()
    });
    let all: BTreeSet<u64> = cluster.all_ids().iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(all, ids, "there are jobs that nobody was told of, or some are gone");
    for (number, id) in &acknowledged {
        let job = cluster.job(id);
        assert_eq!(job.name, format!("n{number}"));
        assert_eq!(job.exit_code, Some(i32::try_from(number % 7).unwrap()), "{job:?}");
        assert_eq!(job.attempt, 1);
        assert_eq!(cluster.stdout_of(id), format!("out of {number}\n"), "job {id}");
    }
    let (on_gpu, on_cpu) = (starts(&cluster, "gpu"), starts(&cluster, "cpu"));
    let started: Vec<u64> = on_gpu.iter().chain(&on_cpu).map(|(id, _)| *id).collect();
    assert!(on_gpu.iter().chain(&on_cpu).all(|(_, attempt)| *attempt == 1));
    assert_eq!(started.len(), N_JOBS, "something ran twice, or did not run");
    assert_eq!(started.into_iter().collect::<BTreeSet<_>>(), ids);
    assert!(on_gpu.is_sorted(), "the order of those that waited for the device: {on_gpu:?}");
    // What is left on disk is sound as well.
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}

#[test]
fn killed_in_a_bulk_submission_it_is_all_or_none() {
    let mut cluster = Cluster::new("none");
    let lines = "{\"command\":[\"true\"],\"hold\":true}\n".repeat(2000);
    for round in 0..6 {
        let before = cluster.all_ids().len();
        let client = cluster.client().with_retries(Duration::ZERO);
        let body = lines.clone();
        let answered = std::sync::Arc::new(AtomicBool::new(false));
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
        assert!(n_new == 2000 || !answered.load(Ordering::SeqCst), "what was told is lost");
    }
}
