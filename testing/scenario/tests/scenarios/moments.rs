//! Jobs with a begin time or a deadline, and users at their caps.

use gpool_scenario::{Situation, answer, reasons};
use insta::assert_snapshot;

/// My job begins tonight: does it block others until then?
#[test]
fn a_job_that_begins_later_does_not_block_others() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  2  waiting  begin 2h  priority 9
        job  b  1 x 2  pending
    "), @r"
    start b1 lab1[0]
    start b2 lab1[1]
    ");
    assert_snapshot!(reasons("
        node lab1  1 x h100
        job  a  1  waiting  begin 2h
    "), @"a   begin_time at 1700007200000");
}

#[test]
fn a_deadline_that_can_be_kept_changes_nothing() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  1  pending  limit 1h  deadline 3h
        job  b  1  pending  limit 1h
    "), @r"
    start a lab1[0]
    plan  b lab1[0] in 3610s by limit
    wait  b gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_job_waits_for_both_its_begin_and_its_dependency() {
    assert_snapshot!(reasons("
        node lab1  2 x h100
        job  a  1  running lab1[0] 10m
        job  b  1  waiting  after a  begin 30m  deadline 5h
    "), @r"
    b   waits_for_job job 1
        begin_time at 1700001800000
    ");
}

/// I am at my cap of GPUs: do the jobs of others behind mine start?
#[test]
fn a_cap_limits_one_user_and_others_start() {
    assert_snapshot!(answer("
        cap u1001  gpus 2
        node lab1  4 x h100
        job  a  1 x 3  pending  uid 1001
        job  b  1  pending
    "), @r"
    start a1 lab1[0]
    start a2 lab1[1]
    start b lab1[2]
    wait  a3 quota_user gpus used 2000 most 2000
    ");
}

/// Do GPUs that I already hold count for my cap?
#[test]
fn gpus_that_a_user_holds_count() {
    assert_snapshot!(answer("
        cap all  gpus 2
        node lab1  4 x h100
        job  a  2  running lab1[0-1] 1h  uid 1001
        job  b  1  pending  uid 1001
        job  c  2  pending  uid 1002
    "), @r"
    start c lab1[2,3]
    wait  b quota_user gpus used 2000 most 2000
    ");
}

#[test]
fn a_cap_of_running_jobs_counts_jobs_without_gpus_too() {
    assert_snapshot!(answer("
        cap all  running 1
        cap u1002  running 3
        node lab1  4 x h100
        job  a  0 x 2  pending  uid 1001
        job  b  1 x 2  pending  uid 1002
    "), @r"
    start a1 lab1
    start b1 lab1[0]
    start b2 lab1[1]
    wait  a2 quota_user jobs used 1 most 1
    ");
}

#[test]
fn situations_are_written_as_they_were_read() {
    let text = "
        cap all  gpus 8  running 20  pending 100
        cap u1001  gpus 2
        node lab1  1 x h100
        job  a  1  waiting  begin 2h  deadline 5h  limit 1h  uid 1001
    ";
    let situation = Situation::parse(text).expect("it is understood");
    let written = situation.to_string();
    for words in
        ["cap all  running 20  pending 100  gpus 8", "cap u1001  gpus 2", "begin 2h  deadline 5h"]
    {
        assert!(written.contains(words), "{words} is not in {written}");
    }
    assert_eq!(Situation::parse(&written).expect("it is understood").to_string(), written);
    for (text, why) in [
        ("cap", "a user, or all"),
        ("cap all  gpu 2", "running, pending or gpus"),
        ("cap all  gpus many", "a number of GPUs"),
        ("job a 1 waiting begin soon", "a length of time"),
    ] {
        let error = Situation::parse(text).expect_err(text).to_string();
        assert!(error.contains(why), "{error}");
    }
}
