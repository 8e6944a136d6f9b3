//! Preset `las`: whoever has had least GPU-time goes first, also before others that run.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

/// My job is new and all GPUs are in use; must it wait for a long one to end?
#[test]
fn what_has_had_least_goes_before_what_runs_and_has_had_more() {
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

/// Does a job that may not be taken back give way?
#[test]
fn what_may_not_be_taken_back_stays_whatever_it_has_had() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 30h
        job  a  1  pending
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// Do jobs change places for a few minutes of difference?
#[test]
fn of_one_level_nobody_gives_way() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 50m  preemptible
        job  a  1  pending  preemptible
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// My job was just put back and started again; is it put back at once?
#[test]
fn what_was_started_a_short_while_ago_is_left_to_run() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 4m  preemptible  had 30
        job  a  1  pending
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// Several could give way; which one does?
#[test]
fn whoever_has_had_most_gives_way_first() {
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

/// My job used eight GPUs for an hour, and another one GPU for two; which goes first?
#[test]
fn what_counts_is_gpus_times_hours_over_all_attempts() {
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

/// My job was put back; does it put back another in turn?
#[test]
fn what_was_put_back_waits_for_what_has_had_less() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  1 x h100
        job  r  1  running lab1[0] 6m  preemptible
        job  a  1  pending  preemptible  had 3
    "), @"wait  a gpus_not_free need 1 free 0");
}

/// Is a job that has had much ever run again while new ones keep coming?
#[test]
fn one_that_has_waited_for_long_is_at_the_first_level() {
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

/// Does one that has run for longer wait for longer until then?
#[test]
fn it_waits_twice_as_long_as_it_ran_on_top() {
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

/// Do important jobs still go first?
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

/// Does a job of another project give way to mine because it has had more?
#[test]
fn what_others_have_had_does_not_reach_into_other_projects() {
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

/// Can more or fewer levels be told apart?
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

/// What does a large job displace: what is cheapest, or what has had most?
#[test]
fn a_gang_displaces_what_has_had_most() {
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

/// Two GPUs are free, but not on one node: does my job of two wait for long?
#[test]
fn small_jobs_move_out_of_the_way_of_a_larger_one() {
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

/// Is my job moved as soon as a larger one comes?
#[test]
fn nobody_is_moved_for_whom_waited_a_moment_only() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 30m  exits checkpoint
        job  s  1  running lab2[0] 30m  exits checkpoint
        job  a  2  pending 9m
    "), @"wait  a gpus_not_free_together need 2 free 1 on lab1");
}

/// My job would need two others to move; how long does it wait first?
#[test]
fn the_more_have_to_move_the_longer_it_has_to_have_waited() {
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

/// My job may be put back, but does not save what it has done: is it moved?
#[test]
fn what_does_not_save_its_work_stays_where_it_is() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 30m  preemptible
        job  s  1  running lab2[0] 30m
        job  a  2  pending 11m
    "), @"wait  a gpus_not_free_together need 2 free 1 on lab1");
}

/// I do not want my jobs to be moved at all; can that be said?
#[test]
fn a_policy_says_whether_jobs_are_moved() {
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

/// Who is moved of many?
#[test]
fn the_node_is_cleared_on_which_fewest_are_in_the_way() {
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

/// Is my job moved to where it has to wait?
#[test]
fn nobody_is_moved_who_finds_no_room_elsewhere() {
    assert_snapshot!(answer("
        policy preset las
        node lab1  4 x h100
        node lab2  2 x h100
        job  r  2  running lab1[0,1] 15m  exits checkpoint
        job  s  1  running lab2[0] 30m    exits checkpoint
        job  a  3  pending 11m
    "), @"wait  a gpus_not_free_together need 3 free 2 on lab1");
}

/// On one node there is a job that has had much and one that has not: which leaves for mine?
#[test]
fn who_has_had_more_goes_and_the_other_moves_to_where_it_will_find_room() {
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

/// Of jobs that have had as much, whose goes?
#[test]
fn of_one_level_whoever_came_last_gives_way_first() {
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

/// A small job comes, and only a large one has had much: are smaller ones put back for it?
#[test]
fn nobody_goes_before_one_that_has_had_more_though_that_is_larger() {
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
fn why_says_who_has_had_what() {
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

/// Whoever has the GPU has had it for a moment only, and behind me waits one of higher priority
/// that has had as much as he: does that one get it before me?
#[test]
fn nobody_passes_whoever_only_waits_for_his_turn() {
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

/// It would cost least if a gang gave way that is elsewhere too, where a start is planned before it
/// would have left: does anybody go?
#[test]
fn who_would_stay_in_the_way_of_a_planned_start_hides_no_other() {
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
