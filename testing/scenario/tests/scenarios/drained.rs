//! Drained nodes and devices get no new work.

use gpool_scenario::{Situation, answer};
use insta::assert_snapshot;

/// One GPU is drained: may I use the others of that node?
#[test]
fn a_drained_gpu_gets_no_jobs_and_the_others_do() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        drain lab1[0]  by 2h
        job  a  1 x 2  pending
    "), @r"
    start a1 lab1[1]
    wait  a2 gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_job_that_waits_for_a_drained_gpu_has_that_reason() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        drain lab1[1]
        job  a  2  pending
    "), @"wait  a node_drained lab1[1]");
}

/// Do jobs without GPUs still start on a drained node?
#[test]
fn a_drained_node_gets_no_job_without_gpus_either() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        drain lab1  by 2h  requeue
        job  a  0  pending
        job  b  1  pending
    "), @r"
    wait  a node_drained lab1
    wait  b node_drained lab1
    ");
}

#[test]
fn work_goes_where_nothing_is_drained() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        drain lab1
        job  a  2  pending
        job  b  1  pending
    "), @r"
    start b lab2[0]
    wait  a gpus_not_free need 2 free 1
    ");
}

/// My node is drained: does my running job stay?
#[test]
fn running_jobs_stay_on_a_drained_node() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        drain lab1[0,1]
        job  a  1  running lab1[0]  2h
        job  b  1  pending
    "), @"wait  b node_drained lab1[0]");
}

#[test]
fn drains_are_read_as_they_are_written() {
    let text = "
        node lab1  2 x h100
        node lab2  1 x h100
        drain lab1[1]  by 3h  cancel
        drain lab2  by 30m  requeue
    ";
    let situation = Situation::parse(text).expect("valid");
    assert_eq!(Situation::parse(&situation.to_string()).expect("valid"), situation);
    assert_snapshot!(situation.to_string(), @r"
    policy  order priority,escalated,gpus,age  escalate 1d  strategy sequential
    node lab1  2 x h100
    drain lab1[1]  by 3h  cancel
    node lab2  1 x h100
    drain lab2  by 30m  requeue
    ");
}
