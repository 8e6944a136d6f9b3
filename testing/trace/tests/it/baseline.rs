//! Published rules: each on a trace small enough to be computed by hand, and all on one day of a
//! published trace.

use std::collections::BTreeMap;
use std::path::Path;

use gpool_model::Millis;
use gpool_trace::baseline::{Rule, play};
use gpool_trace::jobs::{Jobs, TraceJob};
use gpool_trace::queue::{Outcome, PlayError, Played};
use gpool_trace::{Nodes, TraceError};

const MINUTE: Millis = Millis::from_mins(1);

type Trace = Vec<Result<TraceJob, TraceError>>;

fn job((submit_s, duration_s, n_gpus): (u64, u64, u32)) -> Result<TraceJob, TraceError> {
    Ok(TraceJob { submit_s, duration_s, n_gpus, owner: "anna".into() })
}

fn trace(jobs: &[(u64, u64, u32)]) -> Trace {
    jobs.iter().copied().map(job).collect()
}

fn cluster(n: u32, n_gpus: u32) -> Nodes {
    Nodes { n, n_gpus }
}

fn played(jobs: Trace, nodes: Nodes, rule: Rule, restart: Millis) -> Outcome {
    play(jobs, nodes, rule, restart, &mut |_, _| {}).expect("it is played to its end")
}

/// Returns the results of the jobs, in the order of submission.
fn in_order(outcome: &Outcome) -> Vec<Played> {
    let mut jobs = outcome.jobs.clone();
    jobs.sort_by_key(|job| (job.submitted_at, job.ended_at));
    jobs
}

/// Returns the waiting time of each job in seconds, in the order of submission.
fn waits_in(outcome: &Outcome) -> Vec<u64> {
    in_order(outcome).iter().map(|job| job.wait().get() / 1000).collect()
}

fn waits(rule: Rule, nodes: Nodes, jobs: &[(u64, u64, u32)]) -> Vec<u64> {
    waits_in(&played(trace(jobs), nodes, rule, MINUTE))
}

#[test]
fn only_strict_fifo_lets_no_job_overtake_the_oldest() {
    let jobs = [(0, 100, 1), (1, 100, 2), (2, 48, 1), (3, 500, 1), (4, 50, 1)];
    assert_eq!(waits(Rule::FifoStrict, cluster(1, 2), &jobs), [0, 99, 198, 197, 244]);
    // After 50 s the last job ends just when the second can start; the fourth would end later.
    assert_eq!(waits(Rule::Easy, cluster(1, 2), &jobs), [0, 99, 0, 197, 46]);
    assert_eq!(waits(Rule::Greedy, cluster(1, 2), &jobs), [0, 549, 0, 47, 96]);
}

#[test]
fn a_planned_start_keeps_its_nodes_and_no_others() {
    // The third job has its planned start on the first node, after 50 s.
    let jobs = [(0, 50, 2), (0, 100, 2), (1, 10, 3), (2, 500, 1), (3, 500, 1), (4, 46, 1)];
    let outcome = played(trace(&jobs), cluster(2, 3), Rule::Easy, MINUTE);
    let all = in_order(&outcome);
    assert_eq!(waits_in(&outcome), [0, 0, 49, 0, 57, 0]);
    assert_eq!(all[2].runs[0].devices, [(0, 0), (0, 1), (0, 2)]);
    // Of the jobs that would still run then, one fits beside it and one does not.
    assert_eq!(all[3].runs[0].devices, [(1, 2)]);
    assert_eq!(all[5].runs[0].devices, [(0, 2)]);
}

#[test]
fn a_planned_start_uses_the_tightest_node_at_its_time() {
    // After 50 s the second node is empty, so the first one fits the fifth job exactly.
    let jobs = [(0, 1, 3), (0, 50, 2), (1, 49, 2), (1, 500, 1), (2, 10, 2), (3, 500, 1)];
    let outcome = played(trace(&jobs), cluster(2, 3), Rule::Easy, MINUTE);
    assert_eq!(waits_in(&outcome), [0, 0, 0, 0, 48, 0]);
    assert_eq!(in_order(&outcome)[4].runs[0].devices, [(0, 0), (0, 1)]);
}

#[test]
fn small_jobs_come_first_where_size_counts() {
    let jobs = [(0, 100, 4), (1, 10, 3), (2, 10, 2), (3, 10, 1)];
    assert_eq!(waits(Rule::SmallFirst, cluster(1, 4), &jobs), [0, 109, 98, 97]);
    assert_eq!(waits(Rule::ValohaiBlocking, cluster(1, 4), &jobs), [0, 109, 98, 97]);
    assert_eq!(waits(Rule::Greedy, cluster(1, 4), &jobs), [0, 99, 108, 97]);
}

#[test]
fn a_job_that_waited_an_hour_is_not_overtaken() {
    // When the third job ends, the second has waited an hour and the fourth has not.
    let jobs = [(0, 10_000, 1), (1, 10, 2), (100, 5_000, 1), (3_000, 10, 1)];
    assert_eq!(waits(Rule::ValohaiBlocking, cluster(1, 2), &jobs), [0, 9_999, 0, 7_010]);
    assert_eq!(waits(Rule::SmallFirst, cluster(1, 2), &jobs), [0, 9_999, 0, 2_100]);
    // Of two escalated jobs, the older is first.
    let jobs = [(0, 5_000, 4), (1, 10, 3), (2, 10, 2)];
    assert_eq!(waits(Rule::ValohaiBlocking, cluster(1, 4), &jobs), [0, 4_999, 5_008]);
    // One second less than an hour is not enough.
    for (until, expected) in [(3_601, [0, 3_600, 3_609]), (3_600, [0, 3_609, 3_598])] {
        let jobs = [(0, until, 4), (1, 10, 3), (2, 10, 2)];
        assert_eq!(waits(Rule::ValohaiBlocking, cluster(1, 4), &jobs), expected);
    }
}

#[test]
fn short_jobs_come_first_but_preempt_no_job() {
    let jobs = [(0, 100, 1), (1, 50, 1), (2, 10, 1), (3, 50, 1)];
    assert_eq!(waits(Rule::Sjf, cluster(1, 1), &jobs), [0, 109, 98, 157]);
}

#[test]
fn the_job_with_the_least_left_runs_from_the_next_minute_on() {
    let jobs = [(0, 10_000, 1), (30, 100, 1)];
    // The first job repeats a minute: it runs again at the tick after 160 s.
    assert_eq!(waits(Rule::Srsf, cluster(1, 1), &jobs), [180, 30]);
    // Twice the devices is twice the service: the second job has 400 left, the first 240.
    assert_eq!(waits(Rule::Srsf, cluster(1, 2), &[(0, 300, 1), (1, 200, 2)]), [0, 299]);
}

#[test]
fn the_last_job_is_preempted_first_and_others_start_where_they_fit() {
    let jobs = [(0, 1_000, 1), (0, 2_000, 1), (30, 10, 1), (30, 20, 1)];
    let outcome = played(trace(&jobs), cluster(2, 1), Rule::Srsf, MINUTE);
    let all = in_order(&outcome);
    let of_short = [10_000, 20_000].map(|ran| all.iter().find(|job| job.duration.get() == ran));
    let nodes = of_short.map(|job| job.map(|job| job.runs[0].devices[0].0));
    assert_eq!(nodes, [Some(1), Some(0)]);
    // After 100 s each node has a free device. The fifth job is chosen and does not fit.
    let jobs = [(0, 5_000, 1), (0, 100, 1), (0, 5_000, 1), (0, 100, 1), (70, 10, 2), (110, 20, 1)];
    let waits = waits(Rule::Tiresias, cluster(2, 2), &jobs);
    assert_eq!(waits, [0, 0, 0, 0, 4_970, 10]);
}

#[test]
fn a_job_preempted_while_it_repeats_work_still_has_to_repeat_it() {
    let jobs = [(0, 1_000, 1), (1, 100, 1), (200, 100, 1)];
    let outcome = played(trace(&jobs), cluster(1, 1), Rule::Srsf, Millis::from_mins(5));
    assert_eq!((waits_in(&outcome), outcome.n_taken_back), (vec![840, 59, 40], 2));
}

#[test]
fn repeated_work_is_not_remaining_service() {
    // Two jobs have been preempted when the third has ended; repeated work alone does not let them
    // alternate.
    let jobs = [(0, 1_000, 1), (1, 900, 1), (61, 700, 1)];
    let outcome = played(trace(&jobs), cluster(1, 1), Rule::Srsf, Millis::from_mins(5));
    assert_eq!((waits_in(&outcome), outcome.n_taken_back), (vec![2_220, 1_079, 59], 2));
}

#[test]
fn a_job_with_an_hour_is_preempted_by_one_with_less_but_not_by_an_equal_one() {
    // The first job reaches the second level after an hour, and so does the other one later.
    let jobs = [(0, 20_000, 1), (3_000, 5_000, 1)];
    let outcome = played(trace(&jobs), cluster(1, 1), Rule::Tiresias, MINUTE);
    assert_eq!((waits_in(&outcome), outcome.n_taken_back), (vec![5_100, 600], 1));
    // Two devices reach an hour of service in half an hour.
    let jobs = [(0, 20_000, 2), (1, 100, 1)];
    assert_eq!(waits(Rule::Tiresias, cluster(1, 2), &jobs), [180, 1_799]);
}

#[test]
fn levels_have_bounds_at_ten_and_a_hundred_hours_too() {
    const HOUR: u64 = 3_600;
    // The second job runs before the first until it has attained ten hours itself. Then the first
    // one runs until it reaches that level too, and stays.
    for n_gpus in [1, 10] {
        let jobs = [(0, 40 * HOUR, n_gpus), (2 * HOUR, 20 * HOUR, n_gpus)];
        let waits = waits(Rule::Tiresias, cluster(1, n_gpus), &jobs);
        assert_eq!(waits, [10 * HOUR + 60, 38 * HOUR + 120], "{n_gpus}");
    }
}

#[test]
fn a_job_goes_to_the_tightest_node_and_a_large_one_to_empty_nodes() {
    let nodes = cluster(4, 8);
    let jobs = [(0, 100, 6), (1, 100, 12), (2, 100, 2), (3, 100, 10), (4, 100, 33), (5, 9, 2)];
    for rule in Rule::ALL {
        let outcome = played(trace(&jobs), nodes, rule, MINUTE);
        assert_eq!(outcome.n_refused, 1, "{rule}");
        assert!(outcome.refusal.is_some(), "{rule}");
        assert_eq!(outcome.came.map(|(first, last)| last.since(first).get()), Some(5_000));
    }
    let all = in_order(&played(trace(&jobs), nodes, Rule::Greedy, MINUTE));
    let parts = |job: &Played| {
        let mut parts = BTreeMap::new();
        for (node, _) in &job.runs[0].devices {
            *parts.entry(*node).or_insert(0) += 1;
        }
        parts.into_iter().collect::<Vec<(u32, u32)>>()
    };
    let parts: Vec<_> = all.iter().map(parts).collect();
    assert_eq!(parts[0], [(0, 6)]);
    assert_eq!(parts[1], [(1, 8), (2, 4)]);
    assert_eq!(parts[2], [(0, 2)]);
    assert_eq!(parts[3], [(2, 2), (3, 8)]);
    assert_eq!(parts[4], [(2, 2)]);
    assert_eq!(all[4].runs[0].devices, [(2, 6), (2, 7)]);
}

#[test]
fn a_job_without_devices_does_not_wait() {
    for rule in Rule::ALL {
        let jobs = [(1, 10_000, 1), (2, 10, 1), (61, 5, 0)];
        assert_eq!(waits(rule, cluster(1, 1), &jobs)[2], 0, "{rule}");
    }
}

#[test]
fn the_same_trace_gives_the_same_result_and_no_device_is_used_twice() {
    let jobs: Vec<_> = (0..300).map(|n| (n * 7, 1 + n * 37 % 900, 1 + (n % 7) as u32)).collect();
    for rule in Rule::ALL {
        let [one, other] = [(); 2].map(|()| played(trace(&jobs), cluster(3, 4), rule, MINUTE));
        assert_eq!(one.jobs, other.jobs, "{rule}");
        assert_eq!((one.jobs.len(), one.busy), (300, other.busy), "{rule}");
        let mut of_device = BTreeMap::<_, Vec<_>>::new();
        let mut n_runs = 0;
        for job in &one.jobs {
            n_runs += job.runs.len() as u64;
            let again = (job.runs.len() as u64 - 1) * MINUTE.get();
            let ran: u64 = job.runs.iter().map(|ran| ran.until.since(ran.from).get()).sum();
            assert_eq!(ran, job.duration.get() + again, "{rule}");
            for ran in &job.runs {
                assert_eq!(ran.devices.len(), (job.gpus.get() / 1000) as usize, "{rule}");
                for device in &ran.devices {
                    of_device.entry(*device).or_default().push((ran.from, ran.until));
                }
            }
        }
        assert_eq!(n_runs, 300 + one.n_taken_back, "{rule}");
        assert_eq!(of_device.len(), 12, "{rule}");
        for (device, mut runs) in of_device {
            runs.sort_unstable();
            let is_alone = runs.windows(2).all(|two| two[0].1 <= two[1].0);
            assert!(is_alone, "{rule}: {device:?}");
        }
    }
}

#[test]
fn a_trace_that_can_not_be_read_is_not_played() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.csv");
    std::fs::write(&path, "submit_s,duration_s,gpus\n9,1,1\n7,1,1\n").unwrap();
    for rule in Rule::ALL {
        let jobs = Jobs::open(&path).unwrap();
        let error = play(jobs, cluster(1, 8), rule, MINUTE, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, PlayError::Trace(_)), "{rule}: {error}");
    }
}

/// One day of a published trace, with known results of the rules.
#[test]
fn a_published_day_gives_the_known_results() {
    let Some(shared) = std::env::var_os("GPOOL_SHARED") else {
        return eprintln!("skipped: no data");
    };
    let path = Path::new(&shared).join("traces/philly_day_2017-10-10.csv");
    // In thousandths of an hour. The last two depend on the order of equal jobs; they are this
    // code's results, and a whole month of the same trace gives the published ones.
    for (rule, known) in [
        (Rule::FifoStrict, 623),
        (Rule::Easy, 371),
        (Rule::Greedy, 236),
        (Rule::SmallFirst, 237),
        (Rule::ValohaiBlocking, 383),
        (Rule::Sjf, 166),
        (Rule::Srsf, 132),
        (Rule::Tiresias, 129),
    ] {
        let jobs = Jobs::open(&path).unwrap().collect();
        let outcome = played(jobs, cluster(24, 8), rule, MINUTE);
        let sum: u64 = outcome.jobs.iter().map(|job| job.wait().get()).sum();
        let n = outcome.jobs.len() as u64;
        assert_eq!((n, (sum / n + 1_800) / 3_600), (2_442, known), "{rule}");
    }
}
