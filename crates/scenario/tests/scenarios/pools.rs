//! Where may a job go that names a pool?

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

#[test]
fn a_job_goes_to_its_pool_alone_and_others_go_anywhere() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100  pool batch
        job  a    1      pending  pool batch
        job  b    1 x 3  pending
        job  c    1      pending  pool default
    "), @"
    start a lab2[0]
    start b1 lab2[1]
    start b2 lab1[0]
    start b3 lab1[1]
    wait  c gpus_not_free need 1 free 0
    ");
}

#[test]
fn what_finds_no_room_in_one_pool_keeps_nobody_from_another() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        node lab2  2 x h100  pool batch
        job  r    1  running lab2[0]
        job  a    2  pending  pool batch
        job  b    2  pending  pool default
        job  c    1  pending  pool default
        job  d    1  pending  pool none
    "), @"
    start c lab1[0]
    wait  d only_in_pool none nodes 0
    wait  a gpus_not_free need 2 free 1
    wait  b gpu_model_missing asked 2 most 1
    ");
}

#[test]
fn a_planned_start_is_in_the_pool_that_was_asked_for() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100  pool batch
        job  r    2  running lab1[0,1]  limit 1h
        job  s    2  running lab2[0,1]  limit 3h
        job  a    1  pending  pool batch
    "), @"
    plan  a lab2[0] in 10810s by limit
    wait  a gpus_not_free need 1 free 0
    ");
}

#[test]
fn shares_and_jobs_without_devices_keep_to_their_pool_too() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        node lab2  1 x h100  pool batch
        job  a    0.5  pending  pool batch
        job  b    0    pending  pool batch
        job  c    0    pending  pool none
    "), @"
    start b lab2
    start a lab2[0]
    wait  c only_in_pool none nodes 0
    ");
}

#[test]
fn why_names_the_pool() {
    assert_snapshot!(reasons("
        node lab1  2 x h100
        node lab2  2 x h100  pool batch  unreachable
        node lab3  1 x h100  pool batch
        job  r    1  running lab3[0]
        job  a    2  pending  pool batch
    "), @"
    a   agent_unreachable lab2
        only_in_pool batch nodes 2
    ");
}

#[test]
fn the_rounds_of_kai_know_pools_too() {
    assert_snapshot!(answer("
        policy  preset kai
        node lab1  2 x h100
        node lab2  1 x h100  pool batch
        job  a    1      pending  pool batch
        job  b    1      pending  pool batch
        job  c    2      pending  pool batch
        job  d    1      pending  pool default
    "), @"
    start a lab2[0]
    start d lab1[0]
    wait  b gpus_not_free need 1 free 0
    wait  c gpu_model_missing asked 2 most 1
    ");
}
