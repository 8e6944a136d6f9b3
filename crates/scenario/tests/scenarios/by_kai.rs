//! The rules of preset `kai` in production: what comes of a cycle of theirs as a plan.

use gpool_scenario::answer;
use insta::assert_snapshot;

#[test]
fn what_is_free_goes_to_whoever_is_next() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  4 x h100
        project red   gpus 2
        project blue  gpus 2
        job  r  1      running lab1[0] 1h  project red
        job  a  1 x 2  pending 3h  project red  preemptible
        job  b  1 x 2  pending 2h  project blue
    "), @"
    start a1 lab1[1]
    start b1 lab1[2]
    start b2 lab1[3]
    wait  a2 gpus_not_free need 1 free 0
    ");
}

#[test]
fn what_can_not_be_taken_back_never_goes_over_the_guarantee() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  4 x h100
        project red  gpus 1
        job  a  1 x 2  pending  project red
    "), @"
    start a1 lab1[0]
    wait  a2 quota_project red guaranteed 1 GPUs held 1 asked 1
    ");
}

#[test]
fn a_limit_is_never_passed() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  4 x h100
        project red  gpus 1  limit 2
        job  a  1 x 3  pending  project red  preemptible
    "), @"
    start a1 lab1[0]
    start a2 lab1[1]
    wait  a3 quota_project red limit 2 GPUs held 2 asked 1
    ");
}

#[test]
fn what_is_borrowed_is_reclaimed() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1   running lab1[0] 2h  project red  preemptible
        job  s  1   running lab1[1] 1h  project red  preemptible
        job  b  1   pending             project blue
    "), @"
    evict s reclaim for b
    claim b lab1[1]
    ");
}

#[test]
fn inside_a_project_the_higher_priority_preempts() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  1 x h100
        project red  gpus 1
        job  r  1   running lab1[0] 2h  project red  preemptible  priority -5
        job  a  1   pending             project red
    "), @"
    evict r preempt for a
    claim a lab1[0]
    ");
}

#[test]
fn what_runs_moves_together_so_that_something_larger_fits() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1   running lab1[0] 2h  preemptible
        job  s  1   running lab2[0] 2h  preemptible
        job  a  2   pending             preemptible
    "), @"
    evict s consolidate for a
    claim a lab2[0,1]
    ");
}

#[test]
fn a_project_keeps_what_began_a_short_while_ago() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  2 x h100
        project red   gpus 1  reclaim-after 3h
        project blue  gpus 1
        job  r  1   running lab1[0] 2h  project red  preemptible
        job  s  1   running lab1[1] 1h  project red  preemptible
        job  b  1   pending             project blue
    "), @"wait  b gpus_not_free need 1 free 0");
}

#[test]
fn shares_go_where_shares_are() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  2 x h100
        job  r  0.5      running lab1[1] 2h
        job  a  0.5      pending  uid 1001
        job  b  0.5 x 2  pending  uid 1002
    "), @"
    start a lab1[1]
    start b1 lab1[0]
    start b2 lab1[0]
    ");
}

#[test]
fn drained_nodes_and_reserved_devices_are_left_alone() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  1 x h100
        node lab2  2 x h100
        drain lab1
        reserve r1  lab2[0]  for uid 1001  begun 1h
        job  a  1 x 2  pending
    "), @"
    start a1 lab2[1]
    wait  a2 reserved_for_other r1 keeps 1 on lab2
    ");
}

#[test]
fn elements_of_an_array_start_as_many_as_may() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  4 x h100
        job  a  1  pending  array 0-9%2
    "), @"
    start 1.0 lab1[0]
    start 1.1 lab1[1]
    wait  a ×8 group_parallel_limit 2 of 2 run
    ");
}

#[test]
fn the_asked_model_is_what_it_gets() {
    assert_snapshot!(answer("
        policy preset kai
        node lab1  2 x a100-40g + 1 x h100-80g
        job  a  h100:1  pending
        job  b  a100:2  pending
        job  c  h100:1  pending
    "), @"
    start a lab1[2]
    start b lab1[0,1]
    wait  c gpus_not_free need 1 free 0
    ");
}
