//! When does a job start that must wait, and who may go before it?

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

/// Nothing is free: when do I start, and where?
#[test]
fn who_must_wait_has_a_time_and_place() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  runs  2  running lab1[0,1] 1h  limit 3h
        job  next  2  pending
    "), @r"
    plan  next lab1[0,1] in 7210s by limit
    wait  next gpus_not_free need 2 free 0
    ");
}

/// May a short job go before one that waits for more GPUs?
#[test]
fn a_short_job_goes_before_it() {
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
fn a_job_that_takes_longer_than_that_waits() {
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
fn a_job_that_takes_just_as_long_is_too_long_by_its_grace() {
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
fn another_node_is_not_in_the_way() {
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

/// A job waits for other GPUs than mine needs: do I wait too?
#[test]
fn other_devices_of_the_node_are_not_in_the_way() {
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
fn devices_that_it_does_not_need_are_for_everybody() {
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
fn who_runs_without_a_limit_and_like_nobody_before_may_run_for_ever() {
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

/// A job has no time limit: when is it taken to end?
#[test]
fn who_runs_without_a_limit_ends_as_like_jobs_did() {
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
fn who_has_run_longer_than_like_jobs_runs_as_long_again() {
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

/// A job is past its time limit: when is it taken to end?
#[test]
fn who_is_past_its_limit_ends_soon() {
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
fn the_first_end_that_makes_room_counts() {
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
fn one_has_a_planned_start_unless_the_policy_says_more() {
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
fn two_have_one_after_the_other() {
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
fn only_escalated_jobs_and_the_first_of_each_priority_have_one() {
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
fn nobody_has_one_where_the_policy_says_so() {
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

/// Are cores kept for a planned start as well?
#[test]
fn cores_are_kept_as_devices_are() {
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
fn memory_is_kept_as_devices_are() {
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
fn what_is_missing_altogether_has_no_planned_start() {
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

/// A reservation begins in an hour: what may still start there?
#[test]
fn a_reservation_to_come_keeps_long_jobs_out() {
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

/// Maintenance begins tonight: who may still start?
#[test]
fn a_maintenance_window_keeps_everybody_out() {
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

/// Can jobs that are known to be short go first?
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
fn why_names_whom_it_would_delay() {
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
