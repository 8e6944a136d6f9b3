//! Jobs of several tasks: all of them start together, each on its node, or none starts.

use gpool_scenario::{Situation, answer, reasons};
use insta::assert_snapshot;

#[test]
fn a_gang_starts_on_different_nodes_the_fullest_that_hold_it_first() {
    assert_snapshot!(answer("
        node n1  4 x h100
        node n2  2 x h100
        node n3  2 x h100
        job  a  2 nodes 2  pending
    "), @"start a n2[0,1] n3[0,1]");
}

#[test]
fn tasks_of_one_node_stand_side_by_side() {
    assert_snapshot!(answer("
        node n1  4 x h100
        node n2  4 x h100
        job  a  2 nodes 2 each 2  pending
        job  b  0 each 3          pending
    "), @"
    start b n1 n1 n1
    start a n1[0,1] n1[2,3] n2[0,1] n2[2,3]
    ");
}

#[test]
fn a_gang_that_fits_in_half_does_not_start_and_smaller_work_does() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        job  r  1           running n2[0] 1h
        job  a  2 nodes 2   pending 10m
        job  b  1           pending
    "), @"
    start b n2[1]
    wait  a nodes_not_free need 2 free 1 of 2
    ");
}

#[test]
fn a_planned_start_is_kept_on_every_node_of_a_gang_and_short_work_goes_before_it() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        job  r      1          running n1[0] 1h     limit 2h
        job  s      1          running n2[1] 30m    limit 3h
        job  a      2 nodes 2  pending  priority 5  limit 4h
        job  short  1          pending  limit 1h
        job  long   1          pending  limit 9h
    "), @"
    start short n1[1]
    plan  a n1[0,1] n2[0,1] in 9010s by limit
    wait  a nodes_not_free need 2 free 0 of 2
    wait  long would_delay job 3
    ");
}

#[test]
fn a_gang_is_planned_when_enough_nodes_are_free_at_once() {
    assert_snapshot!(answer("
        node n1  1 x h100
        node n2  1 x h100
        node n3  1 x h100
        job  r  1          running n1[0] 1h  limit 2h
        job  s  1          running n2[0] 1h  limit 5h
        job  t  1          running n3[0] 1h  limit 3h
        job  a  1 nodes 2  pending  limit 1h
    "), @"
    plan  a n1[0] n3[0] in 7210s by limit
    wait  a nodes_not_free need 2 free 0 of 3
    ");
}

#[test]
fn a_maintenance_window_on_one_node_moves_the_whole_gang_behind_it() {
    assert_snapshot!(answer("
        node n1  1 x h100
        node n2  1 x h100
        reserve m  n2  for nobody  in 1h  long 2h
        job  a  1 nodes 2  pending  limit 4h
        job  b  1 nodes 2  pending  limit 30m
    "), @"
    start b n1[0] n2[0]
    plan  a n1[0] n2[0] in 3h by limit
    wait  a maintenance_soon m on n2
    ");
}

#[test]
fn the_search_behind_a_recurring_window_is_bounded() {
    assert_snapshot!(answer("
        node n1  1 x h100
        node n2  1 x h100
        reserve m  n2  for nobody  in 1h  long 2h  every 24h
        job  a  1 nodes 2  pending
    "), @"wait  a maintenance_soon m on n2");
}

#[test]
fn a_gang_gets_different_nodes_even_if_one_node_fits_it() {
    assert_snapshot!(answer("
        node n1  8 x h100
        job  a  1 nodes 2  pending
        job  b  1 each 2   pending
    "), @"
    start b n1[0] n1[1]
    wait  a nodes_not_free need 2 free 1 of 1
    ");
}

#[test]
fn a_drained_node_gets_no_task_of_a_gang() {
    assert_snapshot!(answer("
        node  n1  2 x h100
        node  n2  2 x h100
        drain n2
        job   a  1 nodes 2  pending
    "), @"wait  a node_drained n2");
}

#[test]
fn an_unconnected_node_gets_no_task_of_a_gang() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100  unreachable
        job  a  1 nodes 2  pending
    "), @"wait  a agent_unreachable n2");
}

#[test]
fn all_tasks_get_the_first_listed_model_that_fits_all_of_them() {
    assert_snapshot!(answer("
        node n1  1 x h100 + 1 x a100-80g
        node n2  1 x a100-80g
        job  a  h100|a100:1 nodes 2  pending
    "), @"start a n1[1] n2[0]");
}

#[test]
fn cores_and_memory_are_asked_of_each_node_for_all_its_tasks() {
    assert_snapshot!(answer("
        node n1  4 x h100  cpus 16
        node n2  4 x h100  cpus 8
        job  a  1 nodes 2 each 2  pending  cpus 5
        job  b  1 nodes 2 each 2  pending  cpus 4
        job  c  1 each 2          pending  cpus 12
    "), @"
    start b n1[0] n1[1] n2[0] n2[1]
    wait  c cpu_or_mem_short CPU cores need 24 free 16 on n1
    wait  a nodes_not_free need 2 free 1 of 1
    ");
}

#[test]
fn a_quota_counts_the_whole_gang() {
    assert_snapshot!(answer("
        node n1  4 x h100
        node n2  4 x h100
        project red  gpus 4  limit 4
        job  a  2 nodes 2  pending  project red
        job  b  3 nodes 2  pending  project red
    "), @"
    start a n1[0,1] n2[0,1]
    wait  b quota_project red limit 4 GPUs held 4 asked 6
    ");
}

#[test]
fn caps_count_a_gang_as_one_job() {
    assert_snapshot!(answer("
        cap  all  running 2  gpus 4
        node n1  4 x h100
        node n2  4 x h100
        job  a  2 nodes 2  pending  uid 1001
        job  b  1          pending  uid 1001
        job  c  1 nodes 2  pending  uid 1002
        job  d  1 nodes 2  pending  uid 1002
        job  e  0          pending  uid 1002
    "), @"
    start e n1
    start b n1[0]
    start c n1[1] n2[0]
    wait  d quota_user jobs used 2 most 2
    wait  a quota_user gpus used 1000 most 4000
    ");
}

#[test]
fn the_order_counts_the_size_of_the_whole_gang() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        job  a  1 nodes 2  pending 10m
        job  b  1          pending
        job  c  2          pending
        job  d  1          pending
    "), @"
    start b n1[0]
    start d n1[1]
    start c n2[0,1]
    wait  a nodes_not_free need 2 free 1 of 2
    ");
}

#[test]
fn a_gang_reclaims_several_nodes_and_waits_for_all_victims() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        project red   gpus 0
        project blue  gpus 4
        job  r  1          running n1[0] 2h  project red  preemptible
        job  s  1          running n2[0] 1h  project red  preemptible
        job  b  2 nodes 2  pending           project blue
    "), @"
    evict s reclaim for b
    evict r reclaim for b
    claim b n1[0,1] n2[0,1]
    ");
}

#[test]
fn a_gang_reclaims_only_where_too_little_is_free() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        node n3  2 x h100
        project red   gpus 0
        project blue  gpus 4
        job  r  2          running n1[0,1] 2h  project red  preemptible
        job  s  2          running n2[0,1] 1h  project red  preemptible
        job  b  2 nodes 2  pending             project blue
    "), @"
    evict s reclaim for b
    claim b n2[0,1] n3[0,1]
    ");
}

#[test]
fn a_borrowing_gang_is_evicted_as_a_whole() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        project red   gpus 0
        project blue  gpus 2
        job  r  2 nodes 2  running n1[0,1] n2[0,1] 2h  project red  preemptible
        job  b  2          pending                     project blue
    "), @"
    evict r reclaim for b
    claim b n1[0,1]
    ");
}

/// Other jobs leave as many nodes as my gang needs: are jobs elsewhere evicted for it?
#[test]
fn a_gang_waits_for_nodes_that_others_leave_already() {
    assert_snapshot!(answer("
        node n1  1 x h100
        node n2  1 x h100
        node n3  1 x h100
        node n4  1 x h100
        project red    gpus 0
        project blue   gpus 2
        project green  gpus 1
        job  old  1 nodes 2  stopping n1[0] n2[0]  project red
        job  r    1  running n3[0] 2h   project red    preemptible
        job  s    1  running n4[0] 1h   project red    preemptible
        job  b    1 nodes 2  pending    project blue
        job  g    1  pending            project green
    "), @"
    evict s reclaim for g
    claim g n4[0]
    plan  b n1[0] n2[0] in 10s by limit
    wait  b nodes_not_free need 2 free 0 of 4
    ");
}

#[test]
fn nothing_is_reclaimed_for_half_of_a_gang() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        project red    gpus 0
        project green  gpus 2
        project blue   gpus 2
        job  r  2          running n1[0,1] 2h  project red  preemptible
        job  g  2          running n2[0,1] 1h  project green
        job  b  1 nodes 2  pending             project blue
    "), @"wait  b nodes_not_free need 2 free 0 of 2");
}

#[test]
fn shares_of_a_gang_join_others_on_each_node() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        job  r  0.5          running n2[1] 1h
        job  a  0.5 nodes 2  pending
    "), @"start a n1[0] n2[1]");
}

#[test]
fn why_says_how_many_nodes_have_room() {
    assert_snapshot!(reasons("
        node n1  2 x h100
        node n2  2 x h100
        node n3  1 x h100
        job  r  2          running n1[0,1] 1h
        job  a  2 nodes 2  pending
        job  b  2 nodes 3  pending
    "), @"
    a   nodes_not_free need 2 free 1 of 2
    b   nodes_not_free need 3 free 1 of 2
        ahead_in_order 1 ahead, last job 2
    ");
}

#[test]
fn gangs_are_read_as_they_are_written() {
    let text = "
        node n1  2 x h100
        node n2  2 x h100
        job  r  1 nodes 2          running n1[0] n2[1] 1h
        job  s  0 nodes 2 each 2   stopping n1 n1 n2 n2
        job  a  0.5 nodes 2 x 2    pending
    ";
    let situation = Situation::parse(text).expect("it is a scenario");
    let written = situation.to_string();
    assert_eq!(Situation::parse(&written).expect("it is a scenario").to_string(), written);
    assert_snapshot!(written, @"
    policy  order priority,escalated,gpus,age  escalate 1d  strategy sequential
    node n1  2 x h100
    node n2  2 x h100
    job j1  1 nodes 2  running n1[0] n2[1] 1h  like r
    job j2  0 nodes 2 each 2  stopping n1 n1 n2 n2  like s
    job j3  0.5 nodes 2  pending  like a
    job j4  0.5 nodes 2  pending  like a
    ");
    let refused = Situation::parse("job a 1 nodes 0 pending").expect_err("no task");
    assert!(refused.to_string().contains("a gang has 1 to 16384 tasks"), "{refused}");
}

#[test]
fn a_joining_job_comes_last_and_has_no_planned_start() {
    assert_snapshot!(answer("
        node n1  3 x h100
        job  g  1  running n1[0] 1h
        job  x  1  pending 10m  joins g
        job  a  1  pending
        job  b  2  pending
    "), @"
    start a n1[1]
    start x n1[2]
    wait  b gpus_not_free need 2 free 1
    ");
}

#[test]
fn a_joining_job_gets_capacity_that_no_other_job_wants() {
    assert_snapshot!(answer("
        node n1  3 x h100
        job  g  1  running n1[0] 1h
        job  x  1  pending  joins g
    "), @"start x n1[1]");
}

#[test]
fn a_joining_job_is_preempted_by_jobs_of_its_project() {
    assert_snapshot!(answer("
        node n1  3 x h100
        job  g  1  running n1[0] 1h
        job  x  1  running n1[1] 30m  joins g
        job  y  1  running n1[2] 20m  joins g
        job  a  1  pending
    "), @"
    evict y shrink for a
    claim a n1[2]
    ");
}

#[test]
fn a_joining_job_does_not_preempt_another_joining_job() {
    assert_snapshot!(answer("
        node n1  3 x h100
        job  g  1  running n1[0] 1h
        job  h  1  running n1[1] 1h
        job  x  1  running n1[2] 30m  joins g
        job  y  1  pending            joins h
    "), @"wait  y gpus_not_free need 1 free 0");
}

#[test]
fn with_priority_first_the_joining_job_of_an_important_job_stays() {
    assert_snapshot!(answer("
        policy preset priority
        node n1  2 x h100
        job  g  1  running n1[0] 1h  priority 5
        job  x  1  running n1[1] 30m  priority 5  joins g
        job  a  1  pending  priority 1
    "), @"wait  a gpus_not_free need 1 free 0");
}

#[test]
fn with_priority_first_a_joining_job_is_preempted_by_its_equals() {
    assert_snapshot!(answer("
        policy preset priority
        node n1  2 x h100
        job  g  1  running n1[0] 1h  priority 5
        job  x  1  running n1[1] 30m  priority 5  joins g
        job  a  1  pending  priority 5
    "), @"
    evict x shrink for a
    claim a n1[1]
    ");
}

#[test]
fn a_joining_job_is_the_first_to_be_reclaimed() {
    assert_snapshot!(answer("
        project red   gpus 2
        project blue  gpus 2
        node n1  4 x h100
        job  g  2  running n1[0,1] 1h  project red
        job  x  1  running n1[2] 30m   project red  joins g
        job  y  1  running n1[3] 30m   project red  joins g
        job  a  1  pending  project blue
    "), @"
    evict y reclaim for a
    claim a n1[3]
    ");
}

/// My job names no model, and nodes have two models: does one of its tasks get a slower GPU?
#[test]
fn all_tasks_of_a_gang_that_names_no_model_get_one_model() {
    assert_snapshot!(answer("
        node n1  2 x a100
        node n2  2 x v100
        node n3  2 x v100
        job  a  2 nodes 2  pending
    "), @"start a n2[0,1] n3[0,1]");
    assert_snapshot!(answer("
        node n1  2 x a100
        node n2  2 x v100
        node n3  2 x v100
        job  r  1          running n3[0] 1h  limit 2h
        job  a  2 nodes 2  pending 10m
    "), @"
    plan  a n2[0,1] n3[0,1] in 3610s by limit
    wait  a nodes_not_free need 2 free 1 of 2
    ");
}

#[test]
fn tasks_that_may_be_anywhere_get_one_model_too() {
    assert_snapshot!(answer("
        node n1  3 x a100
        node n2  2 x v100
        node n3  2 x v100
        job  a  1 tasks 4  pending
    "), @"start a n2[0] n2[1] n3[0] n3[1]");
}
