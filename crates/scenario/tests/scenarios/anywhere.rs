//! Tasks that run all at once, wherever there is room: which nodes do they get?

use gpool_scenario::answer;
use insta::assert_snapshot;

/// Six tasks with a GPU each, and several nodes have room for all of them: which one is it?
#[test]
fn one_node_is_enough_if_it_has_room_for_all_and_the_fullest_is_taken() {
    assert_snapshot!(answer("
        node lab1  16 x h100
        node lab2  8 x h100
        node lab3  4 x h100
        job  a  1 tasks 6  pending
    "), @"start a lab2[0] lab2[1] lab2[2] lab2[3] lab2[4] lab2[5]");
}

/// No node has room for all of my tasks: over how many nodes are they spread?
#[test]
fn as_few_nodes_as_there_is_room_for_and_what_is_left_goes_where_it_is_tightest() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  2 x h100
        node lab3  4 x h100
        node lab4  3 x h100
        job  a  1 tasks 7  pending
    "), @"start a lab1[0] lab1[1] lab1[2] lab1[3] lab4[0] lab4[1] lab4[2]");
}

/// There are GPUs enough, but each of my tasks needs two of one node: do they start?
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

/// A node has GPUs for all of my tasks, and too few cores: where do they go?
#[test]
fn a_node_gets_as_many_as_its_cores_are_enough_for() {
    assert_snapshot!(answer("
        node lab1  8 x h100  cpus 8
        node lab2  8 x h100  cpus 16
        job  a  1 tasks 5  pending  cpus 4
    "), @"start a lab1[0] lab2[0] lab2[1] lab2[2] lab2[3]");
}

/// Tasks with half a GPU each on one node: do they share one?
#[test]
fn tasks_of_one_job_never_share_a_gpu() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  1 x h100
        job  a  0.5 tasks 3  pending
    "), @"start a lab1[0] lab1[1] lab2[0]");
}

/// My tasks ask for one of two models, and neither has enough of them: may they have both?
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

/// Others end one after the other: when do my tasks start?
#[test]
fn they_start_when_there_is_room_for_all_at_once() {
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

/// A node of mine is drained, and the others are too few for all tasks: what do I read?
#[test]
fn a_drained_node_is_named_where_the_others_are_too_few() {
    assert_snapshot!(answer("
        node  lab1  2 x h100
        node  lab2  2 x h100
        drain lab2
        job   a  1 tasks 3  pending
    "), @"wait  a node_drained lab2");
}

/// Another project has what is ours on loan, on several nodes: whose jobs go for our tasks?
#[test]
fn only_as_much_is_taken_back_as_is_missing() {
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

/// A job of low priority has four GPUs, and my four tasks have a higher one: does it go?
#[test]
fn they_go_before_lower_priorities_wherever_these_are() {
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

/// Each of my tasks needs two GPUs of one node, and single GPUs are free: does anybody move?
#[test]
fn small_jobs_move_out_of_the_way_of_each_task() {
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

/// My tasks are paused where they ran, two on one node and one on another: where do they go on?
#[test]
fn paused_tasks_go_on_where_they_are() {
    assert_snapshot!(answer("
        node lab1  4 x h100  pauses
        node lab2  2 x h100  pauses
        job  a  1 tasks 3  paused lab1[0] lab1[1] lab2[1] 1h  project default
    "), @"resume a lab1[0] lab1[1] lab2[1]");
}

/// My paused tasks have their GPUs, and the cores of both are not free: what keeps them?
#[test]
fn paused_tasks_need_what_all_of_them_have_on_a_node() {
    assert_snapshot!(answer("
        node lab1  2 x h100  cpus 12  pauses
        job  r  0  running lab1  cpus 4
        job  a  1 tasks 2  paused lab1[0] lab1[1] 1h  cpus 5
    "), @"wait  a cpu_or_mem_short CPU cores need 10 free 8 on lab1");
}

/// My project is at its limit, and two of its jobs matter less than my two tasks: do both go?
#[test]
fn at_the_limit_as_many_go_as_all_tasks_need() {
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

/// Half of a node's GPUs are drained, and my tasks need all: what do I read?
#[test]
fn drained_gpus_are_named_where_the_others_are_too_few() {
    assert_snapshot!(answer("
        node  lab1  4 x h100
        drain lab1[2,3]
        job   a  1 tasks 3  pending
    "), @"wait  a node_drained lab1[2]");
}

/// My tasks need no GPU, one node is drained, and the other has too few cores: what do I read?
#[test]
fn a_drained_node_is_named_for_tasks_without_a_gpu() {
    assert_snapshot!(answer("
        node  lab1  0 x h100  cpus 4
        node  lab2  0 x h100  cpus 4
        drain lab2
        job   a  0 tasks 3  pending  cpus 2
    "), @"wait  a node_drained lab2");
}

/// Three GPUs are needed, and on one node a single job has three: do others go as well?
#[test]
fn one_who_leaves_room_for_all_goes_rather_than_several_for_each() {
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
