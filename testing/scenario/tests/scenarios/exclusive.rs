//! Exclusive jobs: they want their nodes without other jobs.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

#[test]
fn a_job_gets_an_empty_node_and_no_other_starts_there() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  4 x h100
        job  c    0  running lab1
        job  a    1  pending 3h  exclusive
        job  b    1 x 3  pending 2h
    "), @"
    start a lab2[0]
    start b1 lab1[0]
    start b2 lab1[1]
    wait  b3 node_occupied lab2
    ");
}

/// Running jobs without GPUs count, paused jobs do not.
#[test]
fn running_jobs_block_an_exclusive_job_and_paused_ones_do_not() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100  pauses
        job  c    0  running lab1
        job  p    1  paused lab2[0]  preemptible  exits pause
        job  a    1  pending 3h  exclusive
    "), @"
    start a lab2[0]
    wait  p paused_on lab2[0] free 0
    ");
}

#[test]
fn an_exclusive_job_blocks_all_others_on_its_node() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  r    1  running lab1[0]  exclusive  limit 1h
        job  a    1  pending 3h
        job  b    0  pending 2h
    "), @"
    plan  b lab1 in 3610s by limit
    wait  b node_occupied lab1
    wait  a node_occupied lab1
    ");
}

#[test]
fn a_paused_job_does_not_resume_beside_an_exclusive_one() {
    assert_snapshot!(answer("
        node lab1  2 x h100  pauses
        job  p    1  paused lab1[1]  preemptible  exits pause
        job  r    1  running lab1[0]  exclusive
    "), @"wait  p node_occupied lab1");
}

#[test]
fn its_start_is_planned_for_when_the_node_is_empty() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  r    1  running lab1[0]  limit 1h
        job  s    0  running lab1     limit 3h
        job  a    1  pending 9h  exclusive  limit 1h
        job  b    1  pending     limit 8h
        job  c    1  pending     limit 1h
    "), @"
    start c lab1[1]
    plan  a lab1[0] in 10810s by limit
    wait  a node_occupied lab1 wanted alone
    wait  b would_delay job 3
    ");
}

#[test]
fn a_gang_has_each_of_its_nodes_alone() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        node lab3  2 x h100
        job  r    1  running lab2[0]
        job  a    1 nodes 2 each 2  pending 3h  exclusive
        job  b    1  pending
    "), @"
    start b lab2[1]
    start a lab1[0] lab1[1] lab3[0] lab3[1]
    ");
}

#[test]
fn tasks_of_one_job_share_the_node_that_it_has_alone() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  2 x h100
        job  r    0  running lab2
        job  a    1 tasks 3  pending 3h  exclusive
        job  b    1  pending
    "), @"
    start b lab2[0]
    start a lab1[0] lab1[1] lab1[2]
    ");
}

#[test]
fn all_borrowers_on_a_node_are_evicted_for_an_exclusive_job() {
    assert_snapshot!(answer("
        project red   gpus 0
        project blue  gpus 2
        node lab1  2 x h100
        job  a    1  running lab1[0] 2h  project red  preemptible
        job  b    1  running lab1[1] 1h  project red  preemptible
        job  c    1  pending  project blue  exclusive
    "), @"
    evict b reclaim for c
    evict a reclaim for c
    claim c lab1[0]
    ");
}

#[test]
fn why_says_that_it_waits_for_an_empty_node() {
    assert_snapshot!(reasons("
        node lab1  2 x h100
        node lab2  2 x h100
        job  r    1  running lab1[0]
        job  s    1  running lab2[0]  exclusive
        job  a    1  pending 3h  exclusive
        job  b    1  pending     on lab2
    "), @"
    a   node_occupied lab1 wanted alone
    b   node_occupied lab2
        only_on_nodes --node lab2 nodes 1 of 2
        ahead_in_order 1 ahead, last job 3
    ");
}
