//! The choice of the node.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// Why did my one-GPU job go to the fuller node?
#[test]
fn small_jobs_fill_the_fuller_node_and_leave_whole_nodes_for_large_ones() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  4 x h100
        job  a    1  running lab2[0]
        job  b    1  pending
        job  big  4  pending
    "), @r"
    start b lab2[1]
    start big lab1[0,1,2,3]
    ");
}

#[test]
fn equal_nodes_are_taken_by_name() {
    assert_snapshot!(answer("
        node lab2  1 x h100
        node lab1  1 x h100
        job  a  1 x 2  pending
    "), @r"
    start a1 lab1[0]
    start a2 lab2[0]
    ");
}

/// Two nodes have one free GPU each: does a job of two GPUs start?
#[test]
fn one_task_gets_no_gpus_of_two_nodes() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        job  a  1  running lab1[0]
        job  b  1  running lab2[0]
        job  c  2  pending
    "), @"wait  c gpus_not_free_together need 2 free 1 on lab1");
}

/// A node is not connected: does work still start there?
#[test]
fn a_node_that_is_not_connected_gets_no_jobs() {
    assert_snapshot!(answer("
        node lab1  4 x h100  unreachable
        node lab2  1 x h100
        job  a  1 x 2  pending
    "), @r"
    start a1 lab2[0]
    wait  a2 gpus_not_free need 1 free 0
    ");
}

#[test]
fn jobs_wait_for_the_agent_of_the_only_node_that_has_the_model() {
    assert_snapshot!(answer("
        node lab1  4 x h100  unreachable
        node lab2  4 x a100
        job  a  h100:2  pending
        job  b  v100:1  pending
    "), @r"
    wait  b gpu_model_missing asked v100:1 most 0
    wait  a agent_unreachable lab1
    ");
}

#[test]
fn jobs_wait_while_no_agent_answers() {
    assert_snapshot!(answer("
        node lab1  4 x h100  unreachable
        job  a  1  pending
        job  b  0  pending
    "), @r"
    wait  b agent_unreachable lab1
    wait  a agent_unreachable lab1
    ");
}

#[test]
fn without_nodes_jobs_wait() {
    assert_snapshot!(answer("
        job  a  1  pending
    "), @"wait  a agent_unreachable any");
}

#[test]
fn a_full_node_is_skipped() {
    assert_snapshot!(answer("
        node lab1  2 x h100  cpus 4
        node lab2  4 x h100  cpus 16
        job  a  1  running lab1[0]  cpus 4
        job  b  1  pending  cpus 2
    "), @"start b lab2[0]");
}

/// Is a model that I prefer worth an emptier node?
#[test]
fn the_preferred_model_is_worth_an_emptier_node() {
    assert_snapshot!(answer("
        node lab1  1 x a100
        node lab2  4 x h100
        job  a  h100|a100:1  pending
        job  b  a100|h100:1  pending
    "), @r"
    start a lab2[0]
    start b lab1[0]
    ");
}

#[test]
fn the_reason_names_a_node_that_lacks_the_resource() {
    assert_snapshot!(answer("
        node lab1  1 x h100  cpus 2  mem 64G
        node lab2  1 x h100  cpus 32  mem 8G
        job  a  1  pending  cpus 4  mem 32G
    "), @"wait  a cpu_or_mem_short CPU cores need 4 free 2 on lab1");
}
