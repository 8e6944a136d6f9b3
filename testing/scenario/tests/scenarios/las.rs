//! Preset `las`: the job with the least attained GPU-time goes first, also before running jobs.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

/// My job is new and all GPUs are in use: must it wait for a long job to end?
#[test]
fn less_gpu_time_preempts_more_gpu_time() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 3h  preemptible
        job  a  1  pending
    "), @"
    evict r rotate for a
    claim a lab1[0]
    ");
}

/// Is a non-preemptible job preempted?
#[test]
fn a_non_preemptible_job_stays_regardless_of_its_gpu_time() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 30h
        job  a  1  pending
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// Do jobs change places for a few minutes of difference?
#[test]
fn within_a_level_no_job_is_preempted() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 50m  preemptible
        job  a  1  pending  preemptible
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// My job was just evicted and started again: is it evicted at once?
#[test]
fn a_job_that_has_just_started_is_not_preempted() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 4m  preemptible  had 30
        job  a  1  pending
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// Several jobs could be preempted: which one is?
#[test]
fn the_job_with_the_most_gpu_time_is_preempted_first() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  3 x h100
        job  r  1  running lab1[0] 2h  preemptible
        job  s  1  running lab1[1] 2h  preemptible  had 20
        job  t  1  running lab1[2] 9h  preemptible
        job  a  1  pending
    "), @"
    evict s rotate for a
    claim a lab1[1]
    ");
}

/// My job used eight GPUs for an hour, and another one GPU for two hours: which is first?
#[test]
fn gpus_times_hours_count_over_all_attempts() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  a  1  pending 2h  had 12
        job  b  1  pending 1h  had 2
    "), @"
    start b lab1[0]
    wait  a gpus_not_free need 1 free 0
    ");
}

/// My job was preempted: does it preempt another in turn?
#[test]
fn a_preempted_job_waits_for_jobs_with_less_gpu_time() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 6m  preemptible
        job  a  1  pending  preemptible  had 3
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// New jobs keep coming: does a job with much GPU-time ever run again?
#[test]
fn an_escalated_job_is_at_the_first_level() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  a  1  pending 1h
        job  b  1  pending 14h  had 3
        job  c  1  pending 1m   had 3
    "), @"
    start b lab1[0]
    wait  a gpus_not_free need 1 free 0
    wait  c gpus_not_free need 1 free 0
    ");
}

/// Does a job that has run longer wait longer for its escalation?
#[test]
fn the_escalation_time_grows_by_twice_the_run_time() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  a  1  pending 1h
        job  b  1  pending 11h  had 3
    "), @"
    start a lab1[0]
    wait  b gpus_not_free need 1 free 0
    ");
}

/// Does priority still come first?
#[test]
fn a_higher_priority_goes_before_less_gpu_time() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        job  r  1  running lab1[0] 1m   preemptible  priority -5
        job  s  1  running lab1[1] 30h  preemptible
        job  a  1  pending  had 3
    "), @"
    evict r preempt for a
    claim a lab1[0]
    ");
}

/// Is a job of another project preempted for mine because it has more GPU-time?
#[test]
fn gpu_time_does_not_count_between_projects() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1  running lab1[0] 90h  project red   preemptible
        job  b  1  running lab1[1] 2h   project blue  preemptible
        job  c  1  pending  project blue  preemptible
    "), @"
    evict b rotate for c
    claim c lab1[1]
    ");
}

/// Can I set the levels of GPU-time?
#[test]
fn the_bounds_between_levels_can_be_set() {
    assert_snapshot!(answer("
        policy preset las  levels 0.5  min-run 10m
        node lab1  2 x h100
        job  r  1  running lab1[0] 40m  preemptible
        job  s  1  running lab1[1] 40m  preemptible  had 90
        job  a  1  pending
    "), @"
    evict s rotate for a
    claim a lab1[1]
    ");
}

/// Which jobs does a large job preempt: the cheapest, or the ones with the most GPU-time?
#[test]
fn a_gang_preempts_the_jobs_with_the_most_gpu_time() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 2h   preemptible
        job  s  2  running lab2[0,1] 9h  preemptible
        job  a  2  pending
    "), @"
    evict s rotate for a
    claim a lab2[0,1]
    ");
}

/// Two GPUs are free on different nodes: does my job of two wait for long?
#[test]
fn small_jobs_move_to_make_a_node_free_for_a_larger_one() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab2[0] 30m  exits checkpoint
        job  a  2  pending 10m
    "), @"
    evict r consolidate for a by checkpoint
    claim a lab1[0,1]
    ");
}

/// Does my job move as soon as a larger one comes?
#[test]
fn no_job_moves_for_one_that_waited_only_a_moment() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab2[0] 30m  exits checkpoint
        job  a  2  pending 9m
    "), @"wait  a gpus_not_free_together need 2 free 1 on lab1");
}

/// Two jobs would have to move for mine: how long does it wait first?
#[test]
fn the_more_jobs_have_to_move_the_longer_the_wait_before() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  4 x h100
        node lab2  4 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab1[1] 30m  exits checkpoint
        job  t  1  running lab2[0] 30m  exits checkpoint
        job  u  1  running lab2[1] 30m  exits checkpoint
        job  a  4  pending 19m
    "), @"wait  a gpus_not_free_together need 4 free 2 on lab1");
    assert_snapshot!(answer("
        policy preset las
        node lab1  4 x h100
        node lab2  4 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab1[1] 30m  exits checkpoint
        job  t  1  running lab2[0] 30m  exits checkpoint
        job  u  1  running lab2[1] 30m  exits checkpoint
        job  a  4  pending 20m
    "), @"
    evict s consolidate for a by checkpoint
    evict r consolidate for a by checkpoint
    claim a lab1[0,1,2,3]
    ");
}

/// My job may be requeued, but does not save its work: is it moved?
#[test]
fn a_job_that_does_not_save_its_work_is_not_moved() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 30m  preemptible
        job  s  1  running lab2[0] 30m
        job  a  2  pending 11m
    "), @"wait  a gpus_not_free_together need 2 free 1 on lab1");
}

/// Can a policy turn moves off?
#[test]
fn a_policy_decides_whether_jobs_move() {
    assert_snapshot!(answer("
        policy preset las  stay-put
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab2[0] 30m  exits checkpoint
        job  a  2  pending 11m
    "), @"wait  a gpus_not_free_together need 2 free 1 on lab1");
    assert_snapshot!(answer("
        policy preset fair  consolidate
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab2[0] 30m  exits checkpoint
        job  a  2  pending 11m
    "), @"
    evict r consolidate for a by checkpoint
    claim a lab1[0,1]
    ");
}

/// Which of many jobs move?
#[test]
fn the_node_with_the_fewest_jobs_in_the_way_is_cleared() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  4 x h100
        node lab2  4 x h100
        node lab3  4 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab1[1] 30m  exits checkpoint
        job  t  1  running lab2[0] 30m  exits checkpoint
        job  u  2  running lab3[0,1] 15m  exits checkpoint
        job  a  4  pending 11m
    "), @"
    evict t consolidate for a by checkpoint
    claim a lab2[0,1,2,3]
    ");
}

/// Does my job move to a node where it has to wait?
#[test]
fn no_job_moves_that_does_not_fit_elsewhere() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  4 x h100
        node lab2  2 x h100
        job  r  2  running lab1[0,1] 15m  exits checkpoint
        job  s  1  running lab2[0] 30m    exits checkpoint
        job  a  3  pending 11m
    "), @"wait  a gpus_not_free_together need 3 free 2 on lab1");
}

/// A node has a job with much GPU-time and one with little: which of them leaves for mine?
#[test]
fn one_job_is_preempted_and_the_other_moves_to_a_node_that_it_fits() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 2h   preemptible
        job  s  1  running lab1[1] 30m  exits checkpoint
        job  t  1  running lab2[0] 3h   preemptible
        job  u  1  running lab2[1] 30m
        job  a  2  pending 20m
    "), @"
    evict r rotate for a
    evict s consolidate for a by checkpoint
    claim a lab1[0,1]
    ");
}

/// Do jobs move for one that needs several nodes?
#[test]
fn several_nodes_are_cleared_for_a_gang() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        node lab2  2 x h100
        node lab3  2 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab2[0] 30m  exits checkpoint
        job  a  2  nodes 2  pending 11m
    "), @"
    evict r consolidate for a by checkpoint
    claim a lab1[0,1] lab3[0,1]
    ");
}

/// Of jobs with equal GPU-time, which is preempted?
#[test]
fn within_a_level_the_newest_job_is_preempted_first() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  3 x h100
        job  r  1  running lab1[0] 2h  preemptible  submitted 9h
        job  s  1  running lab1[1] 2h  preemptible  submitted 3h
        job  t  1  running lab1[2] 2h  preemptible  submitted 8h
        job  a  1  pending
    "), @"
    evict s rotate for a
    claim a lab1[1]
    ");
}

/// Only a large job has much GPU-time: are smaller jobs preempted for a small job?
#[test]
fn the_job_with_the_most_gpu_time_is_preempted_even_if_it_is_larger() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  8 x h100
        node lab2  1 x h100
        job  r  8  running lab1[0-7] 30h  preemptible
        job  s  1  running lab2[0] 3h     preemptible
        job  a  1  pending
    "), @"
    evict r rotate for a
    claim a lab1[0]
    ");
}

#[test]
fn the_reason_shows_the_gpu_time_of_both_jobs() {
    assert_snapshot!(reasons("
        policy preset las
        node lab1  2 x h100
        job  r  1  running lab1[0] 3m   preemptible  had 3
        job  s  1  running lab1[1] 30m
        job  a  1  pending  had 0.2
    "), @"
    a   gpus_not_free need 1 free 0
        gpu_time_had job 1 3.05 h own 0.2 h until 1700000120000
    ");
    assert_snapshot!(reasons("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 30m  preemptible
        job  a  1  pending  preemptible  had 3
    "), @"
    a   gpus_not_free need 1 free 0
        gpu_time_had job 1 0.5 h own 3 h
    ");
    assert_snapshot!(reasons("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 3h  preemptible
        job  a  1  pending
    "), @"
    a   preemption_grace job 1 of 1
        gpu_time_had job 1 3 h own 0 h
    ");
}

/// The running job has just started, and a job of higher priority is behind mine: does it pass me?
#[test]
fn a_job_that_waits_for_a_preemption_is_not_passed() {
    assert_snapshot!(answer("
        policy order attained,priority,gpus,age  min-run 30m
        node lab1  1 x h100
        job  r  1  running lab1[0] 5m  preemptible  had 2
        job  b  1  pending  priority 5  preemptible  had 2
        job  a  1  pending
    "), @"
    wait  a gpus_not_free need 1 free 0
    wait  b gpus_not_free need 1 free 0
    ");
}

/// The cheapest victim would still be in the way of a planned start: is another job preempted?
#[test]
fn a_victim_in_the_way_of_a_planned_start_does_not_hide_another() {
    assert_snapshot!(answer("
        policy order priority,attained,age  min-run 1m
        node lab0  2 x h100
        node lab1  1 x h100
        node lab2  3 x h100
        job  g  0.25 nodes 3  running lab0[0] lab1[0] lab2[0] 80m  preemptible
        job  p  0.5  running lab0[0] 80m  priority 5
        job  r  1  running lab0[1] 80m  priority -5  preemptible
        job  q  2  running lab2[1,2] 65s  priority 5  limit 1m
        job  big  2  pending  priority 5
        job  a  1  pending
        job  b  1  pending  priority -5
    "), @"
    evict r preempt for a
    claim a lab0[1]
    plan  big lab2[1,2] in 5s by limit
    wait  big gpus_not_free need 2 free 0
    wait  b gpus_not_free need 1 free 0
    ");
}
