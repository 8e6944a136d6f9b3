//! Forecast intervals, by the information about earlier jobs.

use gpool_control::forecast::{self, Calibrator};
use insta::assert_snapshot;

use crate::rig::{cluster, etas, id_of, part, words};

#[test]
fn a_limit_is_seldom_used_up() {
    assert_snapshot!(etas(
        "node lab1 2 x h100-80g
         job a 2 running lab1[0,1] 1h limit 3h
         job b 1 pending",
    ), @"b 30m 1h00 2h00 by limit");
}

#[test]
fn without_a_limit_a_job_that_has_run_long_keeps_running() {
    assert_snapshot!(etas(
        "node lab1 1 x h100-80g
         job a 1 running lab1[0] 3h
         job b 1 pending",
    ), @"b 20m 3h00 1d03h by predicted");
}

#[test]
fn jobs_start_one_after_another() {
    assert_snapshot!(etas(
        "node lab1 1 x h100-80g
         job a 1 running lab1[0] 0m limit 1h
         job b 1 pending limit 1h
         job c 1 pending limit 30h
         job d 1 waiting after c
         job e 1 held",
    ), @r"
    b 15m 30m 1h00 by limit
    c 30m 1h00 2h00 by limit
    d 8h00 16h00 1d08h by limit
    ");
}

#[test]
fn a_start_beyond_the_horizon_is_marked() {
    assert_snapshot!(etas(
        "node lab1 1 x h100-80g
         job a 1 running lab1[0] 0m limit 150h
         job b 1 pending",
    ), @"b 1d13h beyond beyond by limit");
}

#[test]
fn a_start_that_depends_on_nothing_known_is_unknown() {
    assert_snapshot!(etas(
        "node lab1 2 x h100-80g
         gpu lab1[1] unhealthy
         job a 1 running lab1[0] 0m limit 1h
         job b 2 pending
         job c 1 pending",
    ), @r"
    b unknown
    c 15m 30m 1h00 by limit
    ");
}

#[test]
fn jobs_of_several_gpus_wait_for_all_of_them() {
    assert_snapshot!(etas(
        "node lab1 4 x h100-80g
         job a 1 running lab1[0] 0m limit 1h
         job b 1 running lab1[1] 0m limit 4h
         job c 4 pending",
    ), @"c 1h00 2h00 4h00 by limit");
}

#[test]
fn a_stopped_job_does_not_succeed() {
    assert_snapshot!(etas(
        "node lab1 1 x h100-80g
         job a 1 stopping lab1[0] 1h limit 3h
         job b 1 waiting after a
         job c 1 waiting after end:a",
    ), @r"
    b unknown
    c 0s 5s 10s by limit
    ");
}

/// A job that evicts others starts when they have left: neither at once nor at their expected ends.
/// The forecast of an evicted job is its first start.
#[test]
fn a_beneficiary_starts_when_the_victims_have_left() {
    assert_snapshot!(etas(
        "node lab1 1 x h100-80g
         project red   gpus 0
         project blue  gpus 1
         job a 1 running lab1[0] 0m project blue limit 1h
         job r 1 pending project red preemptible limit 20h
         job b 1 waiting begin 2h project blue limit 1h
         job c 1 waiting project blue limit 1h after b",
    ), @"
    r 15m 30m 1h00 by limit
    b 2h00 2h00 2h00 by limit
    c 2h15 2h30 3h00 by limit
    ");
}

/// Returns the jobs that a job waits for, in the median course.
fn freed_by(scenario: &str, name: &str) -> Vec<(String, u32)> {
    let cluster = cluster(scenario);
    let part = part(&cluster);
    let job = id_of(cluster.snapshot().world, name);
    let estimate = forecast::estimate(&part, job, forecast::JOBS_MAX, &Calibrator::default());
    let name = |job| part.excerpt.jobs[&job].spec.name.to_string();
    estimate.freed_by.iter().map(|freed| (name(freed.job), freed.n_devices)).collect()
}

/// My job has a begin time: does it wait for the job that has its GPU?
#[test]
fn a_begin_time_is_no_end_of_another_job() {
    let scenario = "node lab1 1 x h100-80g
         job a 1 running lab1[0] 0m limit 1h
         job b 1 waiting begin 2h limit 1h";
    assert_eq!(freed_by(scenario, "b"), []);
    let scenario = scenario.replace("begin 2h", "after end:a");
    assert_eq!(freed_by(&scenario, "b"), [("a".to_owned(), 1)]);
}

/// A job of my user ends: does that free the quota for mine, although it runs on other GPUs?
#[test]
fn a_quota_is_freed_by_the_job_that_had_it() {
    let scenario = "node lab1 2 x h100-80g
         cap all running 1
         job a 1 running lab1[1] 0m limit 1h uid 1001
         job b 1 running lab1[0] 0m limit 10m uid 1002
         job c 1 pending uid 1001";
    assert_eq!(freed_by(scenario, "c").first().map(|(job, _)| job.as_str()), Some("a"));
}

/// My job can't end by its deadline: when could it start without the deadline?
#[test]
fn a_missed_deadline_is_reported_with_the_start_without_it() {
    let cluster = cluster(
        "node lab1 1 x h100-80g
         job a 1 running lab1[0] 0m limit 4h
         job b 1 pending limit 1h deadline 90m",
    );
    let part = part(&cluster);
    let job = id_of(cluster.snapshot().world, "b");
    let estimate = forecast::estimate(&part, job, forecast::JOBS_MAX, &Calibrator::default());
    assert_eq!(estimate.eta, None);
    let without = estimate.without_deadline.map(|eta| words(&eta, part.now));
    assert_eq!(without.as_deref(), Some("1h00 2h00 4h00 by limit"));
}
