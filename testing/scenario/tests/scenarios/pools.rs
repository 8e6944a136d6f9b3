//! Jobs that name a pool.

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
fn a_job_that_does_not_fit_its_pool_does_not_block_another_pool() {
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

/// A pool takes jobs in the order of submission: do jobs elsewhere keep their order?
#[test]
fn a_pool_has_an_order_of_its_own() {
    assert_snapshot!(answer("
        pool batch   order age
        node lab1  2 x h100
        node lab2  2 x h100  pool batch
        job  a    2  pending 2h  pool batch
        job  b    1  pending 1h  pool batch
        job  c    2  pending 2h  pool default
        job  d    1  pending 1h  pool default
    "), @"
    start a lab2[0,1]
    start d lab1[0]
    wait  b gpus_not_free need 1 free 0
    wait  c gpus_not_free need 2 free 1
    ");
}

/// Does a job that names no pool take GPUs before jobs that name the pool?
#[test]
fn jobs_that_name_a_pool_with_its_own_policy_come_first_there() {
    assert_snapshot!(answer("
        pool batch   order age
        node lab2  2 x h100  pool batch
        job  a    1  pending 9h  priority 5
        job  b    1  pending 2h
        job  c    1  pending     pool batch
    "), @"
    start c lab2[0]
    start a lab2[1]
    wait  b gpus_not_free need 1 free 0
    ");
}

/// A pool has its own policy: are its GPUs lent before all projects have their guarantees?
#[test]
fn guarantees_come_before_borrowing_in_every_pool() {
    assert_snapshot!(answer("
        pool batch   order age
        node lab2  2 x h100  pool batch
        project red   gpus 2
        project blue
        job  a    1 x 2  pending 2h  project blue  preemptible  pool batch
        job  b    1 x 2  pending     project red
    "), @"
    start b1 lab2[0]
    start b2 lab2[1]
    wait  a1 ×2 gpus_not_free need 1 free 0
    ");
}

/// A pool has its own number of planned starts: how many starts are planned?
#[test]
fn a_pool_has_planned_starts_of_its_own() {
    assert_snapshot!(answer("
        pool batch   planned all
        node lab1  1 x h100
        node lab2  1 x h100  pool batch
        job  r    1  running lab1[0]  limit 1h
        job  s    1  running lab2[0]  limit 1h
        job  a    1  pending 3h  pool batch    limit 1h
        job  b    1  pending 2h  pool batch    limit 1h
        job  c    1  pending 3h  pool default  limit 1h
        job  d    1  pending 2h  pool default  limit 1h
    "), @"
    plan  a lab2[0] in 3610s by limit
    plan  b lab2[0] in 7510s by limit
    plan  c lab1[0] in 3610s by limit
    wait  a ×2 gpus_not_free need 1 free 0
    wait  c ×2 gpus_not_free need 1 free 0
    ");
}

/// A job of higher priority waits where priority does not count: is a job evicted for it?
#[test]
fn priorities_count_if_the_pool_s_policy_uses_them() {
    assert_snapshot!(answer("
        pool batch   order age
        node lab1  1 x h100
        node lab2  1 x h100  pool batch
        job  r    1  running lab1[0]  preemptible
        job  s    1  running lab2[0]  preemptible  pool batch
        job  a    1  pending  priority 5  pool batch
        job  b    1  pending  priority 5  pool default
    "), @"
    evict r preempt for b
    claim b lab1[0]
    wait  a gpus_not_free need 1 free 0
    ");
}

/// Which jobs does a higher priority preempt: also jobs under another policy?
#[test]
fn priority_does_not_preempt_jobs_under_another_policy() {
    assert_snapshot!(answer("
        pool batch   preset las
        node lab2  1 x h100  pool batch
        job  r    1  running lab2[0]  preemptible
        job  a    1  pending  priority 5  pool batch
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// How long does my job wait until a job under another policy moves?
#[test]
fn a_move_respects_the_policies_of_both_jobs() {
    assert_snapshot!(answer("
        policy       preset las  min-run 30m
        pool batch   preset las
        node lab1  2 x h100  pool batch
        node lab2  2 x h100  pool batch
        job  r    1  running lab1[0] 40m  exits checkpoint
        job  s    1  running lab2[0] 20m  exits checkpoint
        job  a    2  pending 10m  pool batch
    "), @"
    evict r consolidate for a by checkpoint
    claim a lab1[0,1]
    ");
}

/// My job waits in a pool with its own policy: which jobs are before it?
#[test]
fn only_jobs_under_the_same_policy_are_ahead() {
    assert_snapshot!(reasons("
        pool batch   order age
        node lab2  1 x h100  pool batch
        job  r    1  running lab2[0]
        job  a    1  pending 2h  pool batch
        job  b    1  pending 9h
        job  c    1  pending 1h  pool batch
    "), @"
    a   gpus_not_free need 1 free 0
    b   gpus_not_free need 1 free 0
    c   gpus_not_free need 1 free 0
        ahead_in_order 1 ahead, last job 2
    ");
}

/// When does a job escalate in a pool with its own escalation time?
#[test]
fn a_pool_escalates_after_its_own_time() {
    assert_snapshot!(answer("
        policy       escalate 24h
        pool batch   escalate 1h
        node lab1  2 x h100
        node lab2  2 x h100  pool batch
        job  a    2  pending 2h  pool batch
        job  b    1  pending 1m  pool batch
        job  c    2  pending 2h  pool default
        job  d    1  pending 1m  pool default
    "), @"
    start a lab2[0,1]
    start d lab1[0]
    wait  b gpus_not_free need 1 free 0
    wait  c gpus_not_free need 2 free 1
    ");
}
