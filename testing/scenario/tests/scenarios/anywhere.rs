//! Tasks that run all at once on any nodes: which nodes do they get?

use gpool_scenario::answer;
use insta::assert_snapshot;

/// Several nodes have free GPUs for all six of my tasks: which one is it?
#[test]
fn the_fullest_node_that_fits_all_tasks_gets_them() {
    assert_snapshot!(answer("
        node lab1  16 x h100
        node lab2  8 x h100
        node lab3  4 x h100
        job  a  1 tasks 6  pending
    "), @"start a lab2[0] lab2[1] lab2[2] lab2[3] lab2[4] lab2[5]");
}

/// No node fits all of my tasks: over how many nodes are they spread?
#[test]
fn the_fewest_possible_nodes_are_used_and_the_rest_goes_to_the_tightest_node() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  2 x h100
        node lab3  4 x h100
        node lab4  3 x h100
        job  a  1 tasks 7  pending
    "), @"start a lab1[0] lab1[1] lab1[2] lab1[3] lab4[0] lab4[1] lab4[2]");
}

/// Enough GPUs are free, but each of my tasks needs two on one node: do they start?
#[test]
fn a_task_is_never_spread_over_nodes() {
    assert_snapshot!(answer("
        node lab1  3 x h100
        node lab2  3 x h100
        job  a  2 tasks 3  pending
        job  b  2 tasks 2  pending
    "), @"
    start b lab1[0,1] lab2[0,1]
    wait  a tasks_not_free need 3 free 0 of 2
    ");
}

/// A node has GPUs for all of my tasks but too few cores: where do they go?
#[test]
fn a_node_gets_as_many_tasks_as_its_cores_allow() {
    assert_snapshot!(answer("
        node lab1  8 x h100  cpus 8
        node lab2  8 x h100  cpus 16
        job  a  1 tasks 5  pending  cpus 4
    "), @"start a lab1[0] lab2[0] lab2[1] lab2[2] lab2[3]");
}

/// My tasks ask for half a GPU each: do they share one?
#[test]
fn tasks_of_one_job_never_share_a_gpu() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  1 x h100
        job  a  0.5 tasks 3  pending
    "), @"start a lab1[0] lab1[1] lab2[0]");
}

/// My tasks ask for one of two models, and each has too few GPUs: may they have both?
#[test]
fn all_tasks_get_gpus_of_one_model() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  3 x a100
        node lab3  1 x h100
        job  a  h100|a100:1 tasks 3  pending
        job  b  a100|h100:1 tasks 3  pending
        job  c  h100|a100:1 tasks 4  pending
    "), @"
    start a lab1[0] lab1[1] lab3[0]
    start b lab2[0] lab2[1] lab2[2]
    wait  c tasks_not_free need 4 free 0 of 3
    ");
}

/// Other jobs end one after the other: when do my tasks start?
#[test]
fn the_tasks_start_when_all_of_them_fit_at_once() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  2  running lab1[0,1] 1h  limit 3h
        job  s  1  running lab2[0] 1h    limit 2h
        job  a  1 tasks 3  pending 10m  priority 5  limit 1h
        job  b  1  pending  limit 5h
        job  c  1  pending  limit 30m
    "), @"
    start b lab2[1]
    plan  a lab1[0] lab1[1] lab2[0] in 7210s by limit
    wait  a tasks_not_free need 3 free 1 of 4
    wait  c gpus_not_free need 1 free 0
    ");
}

/// A node is drained, and the other nodes are too few for all tasks: what does `wait` show?
#[test]
fn the_reason_names_the_drained_node() {
    assert_snapshot!(answer("
        node  lab1  2 x h100
        node  lab2  2 x h100
        drain lab2
        job   a  1 tasks 3  pending
    "), @"wait  a node_drained lab2");
}

/// Another project borrows our GPUs on several nodes: which jobs are evicted for our tasks?
#[test]
fn no_more_is_reclaimed_than_is_missing() {
    assert_snapshot!(answer("
        project red   gpus 1
        project blue  gpus 4
        node lab1  3 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 3h  project red  preemptible
        job  s  1  running lab1[1] 2h  project red  preemptible
        job  t  1  running lab1[2] 1h  project red  preemptible
        job  u  1  running lab2[0] 4h  project red  preemptible
        job  a  1 tasks 3  pending  project blue
    "), @"
    evict t reclaim for a
    evict s reclaim for a
    claim a lab1[1] lab1[2] lab2[1]
    ");
}

/// Jobs of lower priority have GPUs on a node, and my tasks need some of them: are they evicted?
#[test]
fn tasks_preempt_lower_priorities_on_any_node() {
    assert_snapshot!(answer("
        policy preset priority
        node lab1  4 x h100
        node lab2  2 x h100
        job  r  2  running lab1[0,1] 1h  preemptible
        job  s  2  running lab1[2,3] 2h  preemptible
        job  a  1 tasks 4  pending  priority 5
    "), @"
    evict r preempt for a
    claim a lab1[0] lab1[1] lab2[0] lab2[1]
    ");
}

/// Each of my tasks needs two GPUs of one node, and single GPUs are free: do jobs move?
#[test]
fn small_jobs_move_to_make_a_node_free_for_each_task() {
    assert_snapshot!(answer("
        policy preset fair  consolidate
        node lab1  2 x h100
        node lab2  2 x h100
        node lab3  2 x h100
        node lab4  1 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab2[0] 30m  exits checkpoint
        job  a  2 tasks 2  pending 11m
    "), @"
    evict r consolidate for a by checkpoint
    claim a lab1[0,1] lab3[0,1]
    ");
}

/// My tasks are paused, two on one node and one on another: where do they resume?
#[test]
fn paused_tasks_resume_where_they_are() {
    assert_snapshot!(answer("
        node lab1  4 x h100  pauses
        node lab2  2 x h100  pauses
        job  a  1 tasks 3  paused lab1[0] lab1[1] lab2[1] 1h  project default
    "), @"resume a lab1[0] lab1[1] lab2[1]");
}

/// My paused tasks have their GPUs, but not enough cores are free: why do they wait?
#[test]
fn paused_tasks_need_the_cores_of_all_of_them_on_a_node() {
    assert_snapshot!(answer("
        node lab1  2 x h100  cpus 12  pauses
        job  r  0  running lab1  cpus 4
        job  a  1 tasks 2  paused lab1[0] lab1[1] 1h  cpus 5
    "), @"wait  a cpu_or_mem_short CPU cores need 10 free 8 on lab1");
}

/// My project is at its limit, and two jobs matter less than my two tasks: are both evicted?
#[test]
fn at_the_limit_as_many_jobs_are_evicted_as_all_tasks_need() {
    assert_snapshot!(answer("
        policy preset fair
        project red  gpus 2  limit 2
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 1h  project red  priority -5  preemptible
        job  s  1  running lab2[0] 2h  project red  priority -5  preemptible
        job  a  1 tasks 2  pending  project red
    "), @"
    evict r preempt for a
    evict s preempt for a
    claim a lab1[0] lab1[1]
    ");
}

/// Half of a node's GPUs are drained, and my tasks need all: what does `wait` show?
#[test]
fn the_reason_names_a_drained_gpu() {
    assert_snapshot!(answer("
        node  lab1  4 x h100
        drain lab1[2,3]
        job   a  1 tasks 3  pending
    "), @"wait  a node_drained lab1[2]");
}

/// My tasks need no GPU, one node is drained, the other lacks cores: which reason do I see?
#[test]
fn the_reason_names_a_drained_node_for_tasks_without_a_gpu() {
    assert_snapshot!(answer("
        node  lab1  0 x h100  cpus 4
        node  lab2  0 x h100  cpus 4
        drain lab2
        job   a  0 tasks 3  pending  cpus 2
    "), @"wait  a node_drained lab2");
}

/// Three GPUs are needed, and on one node a single job has three: are other jobs evicted too?
#[test]
fn one_victim_that_frees_enough_is_better_than_several() {
    assert_snapshot!(answer("
        project red   gpus 0
        project blue  gpus 3
        node lab1  2 x h100
        node lab2  3 x h100
        job  r  1  running lab1[0] 3h        project red  preemptible
        job  s  1  running lab1[1] 2h        project red  preemptible
        job  g  3  running lab2[0,1,2] 1h    project red  preemptible
        job  a  1 tasks 3  pending  project blue
    "), @"
    evict g reclaim for a
    claim a lab2[0] lab2[1] lab2[2]
    ");
}

/// Both GPUs of a node will be free soon, and my two tasks fit there: are other jobs evicted?
#[test]
fn tasks_wait_for_jobs_that_are_leaving_already() {
    assert_snapshot!(answer("
        policy preset priority
        node lab1  2 x h100
        node lab2  1 x h100
        job  r  1  stopping lab1[0]
        job  s  1  stopping lab1[1]
        job  t  1  running lab2[0] 1h  preemptible
        job  a  1 tasks 2  pending  priority 5
    "), @"
    plan  a lab1[0] lab1[1] in 10s by limit
    wait  a tasks_not_free need 2 free 0 of 3
    ");
}
