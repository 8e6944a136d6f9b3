//! Planned starts of jobs that must wait, and the jobs that may start before them.

use gpool_scenario::{Cluster, Situation, answer, reasons};
use insta::assert_snapshot;

/// No GPU is free: when does my job start, and where?
#[test]
fn a_waiting_job_has_a_planned_start_with_devices() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  runs  2  running lab1[0,1] 1h  limit 3h
        job  next  2  pending
    "), @r"
    plan  next lab1[0,1] in 7210s by limit
    wait  next gpus_not_free need 2 free 0
    ");
}

/// May a short job start before one that waits for more GPUs?
#[test]
fn a_short_job_backfills() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  runs   1  running lab1[0] 1h  limit 3h
        job  big    2  pending 25h
        job  short  1  pending  limit 1h
    "), @r"
    start short lab1[1]
    plan  big lab1[0,1] in 7210s by limit
    wait  big gpus_not_free need 2 free 1
    ");
}

/// Two GPUs are free, and my job needs one: why does it wait?
#[test]
fn a_job_that_would_delay_the_planned_start_waits() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  runs  1  running lab1[0] 1h  limit 3h
        job  big   2  pending 25h
        job  long  1  pending  limit 4h
    "), @r"
    plan  big lab1[0,1] in 7210s by limit
    wait  big gpus_not_free need 2 free 1
    wait  long would_delay job 2
    ");
}

#[test]
fn the_grace_counts_as_part_of_a_backfilling_job() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  runs  1  running lab1[0] 1h  limit 3h
        job  big   2  pending 25h
        job  same  1  pending  limit 2h
    "), @r"
    plan  big lab1[0,1] in 7210s by limit
    wait  big gpus_not_free need 2 free 1
    wait  same would_delay job 2
    ");
}

/// Why should I give a time limit?
#[test]
fn a_job_without_a_limit_may_take_for_ever() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  runs  1  running lab1[0] 1h  limit 3h
        job  big   2  pending 25h
        job  free  1  pending
    "), @r"
    plan  big lab1[0,1] in 7210s by limit
    wait  big gpus_not_free need 2 free 1
    wait  free would_delay job 2
    ");
}

#[test]
fn jobs_on_other_nodes_do_not_delay_a_planned_start() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  1 x h100
        job  runs  1  running lab1[0] 1h  limit 3h
        job  big   2  pending 25h
        job  free  1  pending
    "), @r"
    start free lab2[0]
    plan  big lab1[0,1] in 7210s by limit
    wait  big gpus_not_free_together need 2 free 1 on lab1
    ");
}

/// A job waits for other GPUs than mine needs: does mine wait too?
#[test]
fn other_gpus_of_the_node_do_not_delay_a_planned_start() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  runs  2  running lab1[0,1] 1h  limit 3h
        job  one   1  running lab1[2] 1h    limit 9h
        job  big   3  pending 25h
        job  free  1  pending
    "), @r"
    plan  big lab1[0,1,3] in 7210s by limit
    wait  big gpus_not_free need 3 free 1
    wait  free would_delay job 3
    ");
}

#[test]
fn gpus_that_the_planned_start_does_not_need_are_free_for_all() {
    assert_snapshot!(answer("
        node lab1  3 x h100
        job  runs  2  running lab1[0,1] 1h  limit 3h
        job  big   2  pending 25h
        job  free  1  pending
    "), @r"
    start free lab1[2]
    plan  big lab1[0,1] in 7210s by limit
    wait  big gpus_not_free need 2 free 1
    ");
}

#[test]
fn without_a_limit_or_a_prediction_a_job_may_run_for_ever() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  runs  1  running lab1[0] 1h
        job  big   2  pending 25h
        job  free  1  pending
    "), @r"
    start free lab1[1]
    wait  big gpus_not_free need 2 free 1
    ");
}

/// A job has no time limit: when is it expected to end?
#[test]
fn without_a_limit_a_job_is_expected_to_run_like_earlier_ones() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  train7  1  running lab1[0] 1h
        job  big     2  pending 25h
        job  short   1  pending  limit 30m
        job  long    1  pending  limit 2h
        past train   2h,3h,1h
    "), @r"
    start short lab1[1]
    plan  big lab1[0,1] in 1h by predicted
    wait  big gpus_not_free need 2 free 1
    wait  long gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_job_past_its_prediction_is_expected_to_run_as_long_again() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  train7  1  running lab1[0] 5h
        job  next    1  pending
        past train   1h
    "), @r"
    plan  next lab1[0] in 5h by predicted
    wait  next gpus_not_free need 1 free 0
    ");
}

/// A job is past its time limit: when is it expected to end?
#[test]
fn a_job_past_its_limit_is_expected_to_end_soon() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  late  1  running lab1[0] 5h  limit 4h
        job  next  1  pending
    "), @r"
    plan  next lab1[0] in 10s by limit
    wait  next gpus_not_free need 1 free 0
    ");
}

#[test]
fn the_first_end_that_frees_enough_counts() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        job  a     2  running lab1[0,1] 1h  limit 9h
        job  b     1  running lab2[0] 1h    limit 3h
        job  c     1  running lab2[1] 1h    limit 2h
        job  big   2  pending 25h
    "), @r"
    plan  big lab2[0,1] in 7210s by limit
    wait  big gpus_not_free need 2 free 0
    ");
}

/// How many jobs have a planned start at once?
#[test]
fn one_job_has_a_planned_start_unless_the_policy_allows_more() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  runs   1  running lab1[0]  limit 1h
        job  first  1  pending 30h  limit 1h
        job  then   1  pending 29h  limit 1h
    "), @r"
    plan  first lab1[0] in 3610s by limit
    wait  first ×2 gpus_not_free need 1 free 0
    ");
}

#[test]
fn two_jobs_have_planned_starts_one_after_the_other() {
    assert_snapshot!(answer("
        policy planned 2
        node lab1  1 x h100
        job  runs   1  running lab1[0]  limit 1h
        job  first  1  pending 30h  limit 1h
        job  then   1  pending 29h  limit 1h
        job  last   1  pending 28h  limit 1h
    "), @r"
    plan  first lab1[0] in 3610s by limit
    plan  then lab1[0] in 7510s by limit
    wait  first ×3 gpus_not_free need 1 free 0
    ");
}

#[test]
fn only_escalated_jobs_and_the_first_of_each_priority_have_planned_starts() {
    assert_snapshot!(answer("
        policy planned 4
        node lab1  1 x h100
        job  runs    1  running lab1[0]  limit 1h
        job  high    1  pending 1h   limit 1h  priority 5
        job  high2   1  pending 30m  limit 1h  priority 5
        job  old     1  pending 25h  limit 1h
        job  young   1  pending 1h   limit 1h
    "), @r"
    plan  high lab1[0] in 3610s by limit
    plan  old lab1[0] in 7510s by limit
    wait  high ×2 gpus_not_free need 1 free 0
    wait  old ×2 gpus_not_free need 1 free 0
    ");
}

/// Can every waiting job have a planned start?
#[test]
fn conservative_backfill_plans_for_all() {
    assert_snapshot!(answer("
        policy planned all
        node lab1  2 x h100
        job  runs   1  running lab1[0]  limit 2h
        job  big    2  pending 25h  limit 1h
        job  a      1  pending 1h   limit 2h
        job  b      1  pending 30m  limit 1h
    "), @r"
    start b lab1[1]
    plan  big lab1[0,1] in 7210s by limit
    plan  a lab1[0] in 11110s by limit
    wait  big gpus_not_free need 2 free 1
    wait  a would_delay job 2
    ");
}

/// Can planned starts be switched off?
#[test]
fn a_policy_can_turn_planned_starts_off() {
    assert_snapshot!(answer("
        policy planned 0
        node lab1  2 x h100
        job  runs  1  running lab1[0] 1h  limit 3h
        job  big   2  pending 25h
        job  free  1  pending
    "), @r"
    start free lab1[1]
    wait  big gpus_not_free need 2 free 1
    ");
}

/// Does a planned start reserve cores as well?
#[test]
fn a_planned_start_reserves_cores_like_gpus() {
    assert_snapshot!(answer("
        node lab1  cpus 8
        job  runs   0  running lab1 1h  cpus 6  limit 3h
        job  big    0  pending 25h  cpus 8  priority 5
        job  short  0  pending  cpus 2  limit 1h
        job  long   0  pending  cpus 2  limit 4h
    "), @r"
    start short lab1
    plan  big lab1 in 7210s by limit
    wait  big cpu_or_mem_short CPU cores need 8 free 2 on lab1
    wait  long cpu_or_mem_short CPU cores need 2 free 0 on lab1
    ");
}

#[test]
fn a_planned_start_reserves_memory_like_gpus() {
    assert_snapshot!(answer("
        node lab1  2 x h100  mem 64G
        job  runs   1  running lab1[0] 1h  mem 40G  limit 3h
        job  big    1  pending 25h  mem 60G
        job  small  1  pending  mem 4G
        job  more   1  pending  mem 8G
    "), @r"
    start small lab1[1]
    plan  big lab1[0] in 7210s by limit
    wait  big cpu_or_mem_short memory need 60 GiB free 24 GiB on lab1
    wait  more gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_share_waits_for_memory_of_a_device() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  runs  0.6  running lab1[0] 1h  limit 3h
        job  big   0.8  pending 25h
        job  fits  0.2  pending
        job  long  0.4  pending
        job  short 0.4  pending  limit 1h
    "), @r"
    start fits lab1[0]
    plan  big lab1[0] in 7210s by limit
    wait  big gpu_share_not_free need 0.8 of 1 free 0 on lab1 largest 32 GiB
    wait  long gpu_share_not_free need 0.4 of 1 free 0 on lab1 largest 16 GiB
    wait  short gpu_share_not_free need 0.4 of 1 free 0 on lab1 largest 16 GiB
    ");
}

#[test]
fn a_job_that_never_fits_has_no_planned_start() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  runs    1        running lab1[0]  limit 1h
        job  absent  v100:1   pending 30h
        job  next    1        pending 29h
    "), @r"
    plan  next lab1[0] in 3610s by limit
    wait  absent gpu_model_missing asked v100:1 most 0
    wait  next gpus_not_free need 1 free 0
    ");
}

/// A reservation begins in two hours: which jobs may still start there?
#[test]
fn a_future_reservation_excludes_long_jobs() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        reserve r1  lab1[0,1]  for uid 1001  in 2h  long 4h
        job  short  1  pending  limit 1h
        job  long   1  pending  limit 3h
        job  own    1  pending  limit 3h  uid 1001
    "), @r"
    start short lab1[0]
    start own lab1[1]
    wait  long reserved_for_other r1 keeps 2 on lab1
    ");
}

/// A maintenance window begins in two hours: which jobs may still start?
#[test]
fn a_maintenance_window_excludes_all_jobs() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        reserve m1  lab1  for nobody  in 2h  long 1h
        job  short  1  pending  limit 1h
        job  long   1  pending  limit 3h
    "), @r"
    start short lab1[0]
    plan  long lab1[0] in 3h by limit
    wait  long maintenance_soon m1 on lab1
    ");
}

/// Can jobs with a short prediction start first?
#[test]
fn the_shorter_job_goes_first_where_the_order_says_predicted() {
    assert_snapshot!(answer("
        policy order priority,escalated,predicted,gpus,age
        node lab1  2 x h100
        job  slow   1  pending 3h
        job  quick  2  pending 1m
        past slow   10h
        past quick  10m,10m,10m
    "), @r"
    start quick lab1[0,1]
    plan  slow lab1[0] in 10m by predicted
    wait  slow gpus_not_free need 1 free 0
    ");
}

#[test]
fn the_reason_names_the_job_that_it_would_delay() {
    assert_snapshot!(reasons("
        node lab1  2 x h100
        job  runs  1  running lab1[0] 1h  limit 3h
        job  big   2  pending 25h
        job  free  1  pending
    "), @r"
    big gpus_not_free need 2 free 1
    free would_delay job 2
        ahead_in_order 1 ahead, last job 2
    ");
}

// `c` gets no planned start while `a` has a place to borrow; `b` takes that place. Which job has
// the planned start decides where `d` may start, so the cycle is repeated.
#[test]
fn a_start_is_planned_once_the_place_that_it_left_free_is_taken() {
    let text = "
        policy  order priority,age  strategy random
        node lab1  2 x h100  cpus 4
        project red   gpus 0.5
        project blue  gpus 1.5  limit-of a100 0.5
        job  q  2    pending  project blue  id 2
        job  a  1    pending  cpus 3  project red  preemptible  priority 1
        job  b  0.1  pending  cpus 3  project red  limit 1h
        job  c  0.1  pending  cpus 3  project red
        job  d  1    pending  project red  preemptible
    ";
    let mut cluster = Cluster::of(&Situation::parse(text).unwrap());
    cluster.cycles();
    assert_eq!(cluster.cycle().decisions, []);
}
