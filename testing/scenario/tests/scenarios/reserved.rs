//! Reserved capacity: only for its jobs, and for others only while they end in time.

use gpool_scenario::{Situation, answer};
use insta::assert_snapshot;

/// A GPU is reserved for another user: may I use it while it is idle?
#[test]
fn capacity_reserved_for_a_user_goes_to_no_other() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1 x 2  pending
        reserve r1  lab1[0]  for uid 1001  begun 1h
    "), @r"
    start a1 lab1[1]
    wait  a2 reserved_for_other r1 keeps 1 on lab1
    ");
}

/// I have a reservation: may I use other GPUs too?
#[test]
fn a_user_with_a_reservation_may_use_other_gpus_too() {
    assert_snapshot!(answer("
        node lab1  3 x h100
        job  a  2  pending  uid 1001
        job  b  1  pending
        reserve r1  lab1[2]  for uid 1001  begun 1h
    "), @r"
    start b lab1[0]
    start a lab1[1,2]
    ");
}

/// A reservation is for my project: may all its users use it?
#[test]
fn capacity_reserved_for_a_project_is_for_all_its_users() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1  pending  project nlp
        job  b  1  pending  uid 1001  project nlp
        job  c  1  pending
        reserve r1  lab1[0,1]  for project nlp  begun 1h
    "), @r"
    start a lab1[0]
    start b lab1[1]
    wait  c reserved_for_other r1 keeps 2 on lab1
    ");
}

#[test]
fn capacity_reserved_for_one_job_is_not_for_others_of_its_user() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  1  pending
        job  b  1  pending
        reserve r1  lab1[0]  for job b  begun 1h
    "), @r"
    start b lab1[0]
    wait  a reserved_for_other r1 keeps 1 on lab1
    ");
}

/// A node is reserved: do jobs without GPUs start there?
#[test]
fn a_reserved_node_gets_no_jobs_without_gpus_either() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  0  pending
        job  b  0  pending  uid 1001
        reserve r1  lab1  for uid 1001  begun 1h
    "), @r"
    start b lab1
    wait  a reserved_for_other r1 keeps 0 on lab1
    ");
}

#[test]
fn reserved_gpus_do_not_block_jobs_without_gpus() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  0  pending
        reserve r1  lab1[0]  for uid 1001  begun 1h
    "), @"start a lab1");
}

/// Which jobs start on a GPU before its reservation begins?
#[test]
fn before_it_begins_only_jobs_that_end_in_time_start() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  short  1  pending  limit 1h
        job  long   1  pending  limit 3h
        job  open   1  pending
        reserve r1  lab1[0,1]  for uid 1001  in 2h  long 4h
    "), @r"
    start short lab1[0]
    wait  long reserved_for_other r1 keeps 2 on lab1
    wait  open reserved_for_other r1 keeps 2 on lab1
    ");
}

#[test]
fn the_grace_counts_as_part_of_the_limit() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  just  1  pending  limit 2h
        reserve r1  lab1[0]  for uid 1001  in 2h  long 4h
    "), @r"
    wait  just reserved_for_other r1 keeps 1 on lab1
    ");
}

#[test]
fn a_maintenance_window_excludes_all_jobs() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  1  pending  limit 1h  uid 1001
        job  b  1  pending  limit 3h
        reserve m1  lab1  for nobody  in 2h  long 4h
    "), @r"
    start a lab1[0]
    plan  b lab1[0] in 6h by limit
    wait  b gpus_not_free need 1 free 0
    ");
}

#[test]
fn during_a_maintenance_window_not_even_short_jobs_start() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  0  pending  limit 5m
        reserve m1  lab1  for nobody  begun 1h  long 4h
    "), @r"
    plan  a lab1 in 3h by limit
    wait  a maintenance_soon m1 on lab1
    ");
}

#[test]
fn a_window_that_is_over_excludes_no_jobs() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  1  pending
        reserve m1  lab1  for nobody  begun 5h  long 4h
    "), @"start a lab1[0]");
}

/// Is a weekly reservation free before its next occurrence?
#[test]
fn a_recurring_reservation_is_respected_before_its_next_occurrence() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  short  1  pending  limit 10h
        job  long   1  pending  limit 20h
        reserve r1  lab1  for uid 1001  begun 10h  long 1h  every 1d
    "), @r"
    start short lab1[0]
    wait  long reserved_for_other r1 keeps 2 on lab1
    ");
}

#[test]
fn jobs_prefer_nodes_without_reservations() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        job  a  2  pending
        job  b  1  pending
        reserve r1  lab1  for uid 1001  in 1h
    "), @r"
    start b lab2[0]
    wait  a reserved_for_other r1 keeps 2 on lab1
    ");
}

/// A reservation begins while my job runs there: does the job stay?
#[test]
fn running_jobs_stay_when_a_reservation_begins() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  1  running lab1[0]  2h
        job  b  1  pending  uid 1001
        reserve r1  lab1[0]  for uid 1001  begun 1h
    "), @"wait  b gpus_not_free need 1 free 0");
}

#[test]
fn other_jobs_get_no_planned_start_behind_a_reservation() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  2  pending  uid 1001
        job  b  1  pending
        reserve r1  lab1[0]  for uid 1001  begun 1h
        reserve r2  lab1[0,1]  for uid 1001  in 1h  long 2h
    "), @r"
    start a lab1[0,1]
    wait  b reserved_for_other r1 keeps 1 on lab1
    ");
}

#[test]
fn a_drain_comes_before_a_reservation() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  1  pending  uid 1001
        drain lab1[0]
        reserve r1  lab1[0]  for uid 1001  begun 1h
    "), @"wait  a node_drained lab1[0]");
}

#[test]
fn reservations_are_read_as_they_are_written() {
    let text = "
        node lab1  2 x h100
        node lab2  1 x h100
        job  j1  1  pending  uid 1001  project nlp
        reserve r1  lab1[1] lab2  for uid 1001  in 3h  long 1h  every 7d  requeue
        reserve r2  lab1[0]  for project nlp  begun 30m
        reserve r3  lab1[0]  for job j1  cancel
        reserve m1  lab2  for nobody  in 2d  long 4h
    ";
    let situation = Situation::parse(text).expect("valid");
    assert_eq!(Situation::parse(&situation.to_string()).expect("valid"), situation);
    assert_snapshot!(situation.to_string(), @r"
    policy  order priority,escalated,gpus,age  escalate 1d  strategy sequential
    node lab1  2 x h100
    node lab2  1 x h100
    job j1  1  pending  uid 1001  project nlp
    reserve r1  lab1[1] lab2  for uid 1001  in 3h  long 1h  every 7d  requeue
    reserve r2  lab1[0]  for project nlp  begun 30m
    reserve r3  lab1[0]  for job j1  cancel
    reserve m1  lab2  for nobody  in 2d  long 4h
    ");
}
