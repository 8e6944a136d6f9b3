//! The queue order.

use gpool_scenario::answer;
use insta::assert_snapshot;

#[test]
fn a_job_starts_where_it_fits() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1  pending
    "), @"start a lab1[0]");
}

#[test]
fn nothing_to_do_is_an_empty_plan() {
    assert_snapshot!(answer("
        node lab1  2 x h100
    "), @"");
}

/// Why did a smaller job start before mine, which is older?
#[test]
fn small_jobs_go_first() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  big    2  pending 3h
        job  small  1  pending 1m
    "), @r"
    start small lab1[0]
    wait  big gpus_not_free need 2 free 1
    ");
}

/// Two jobs ask for the same: which starts first?
#[test]
fn among_equal_jobs_the_older_starts_first() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  young  1  pending 1m
        job  old    1  pending 2h
    "), @r"
    start old lab1[0]
    wait  young gpus_not_free need 1 free 0
    ");
}

#[test]
fn among_equal_jobs_of_one_age_the_lower_id_starts_first() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1 x 3  pending 5m
    "), @r"
    start a1 lab1[0]
    start a2 lab1[1]
    wait  a3 gpus_not_free need 1 free 0
    ");
}

/// Can small jobs delay my large one for ever?
#[test]
fn a_job_that_waited_a_day_goes_before_smaller_ones() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  big    2  pending 24h
        job  small  1  pending 23h
    "), @r"
    start big lab1[0,1]
    wait  small gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_minute_less_than_a_day_is_not_a_day() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  big    2  pending 1439
        job  small  1  pending 23h
    "), @r"
    start small lab1[0]
    wait  big gpus_not_free need 2 free 1
    ");
}

/// Two jobs have waited for more than a day: which starts first?
#[test]
fn among_escalated_jobs_the_oldest_starts_first_regardless_of_size() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  small  1  pending 25h
        job  big    4  pending 26h
    "), @r"
    start big lab1[0,1,2,3]
    wait  small gpus_not_free need 1 free 0
    ");
}

/// Does a hold reset the time that my job has waited?
#[test]
fn waits_before_and_after_a_hold_count_together_for_escalation() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  big    2  pending 10h  waited 14h
        job  small  1  pending 20h
    "), @r"
    start big lab1[0,1]
    wait  small gpus_not_free need 1 free 0
    ");
}

/// Does the time of a hold count as waiting?
#[test]
fn time_spent_held_does_not_count_for_escalation() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  big    2  pending 10h  submitted 30h
        job  small  1  pending 20h
    "), @r"
    start small lab1[0]
    wait  big gpus_not_free need 2 free 1
    ");
}

/// Can jobs escalate sooner than after a day?
#[test]
fn the_policy_sets_the_escalation_time() {
    assert_snapshot!(answer("
        policy escalate 1h
        node lab1  2 x h100
        job  big    2  pending 61
        job  small  1  pending 59
    "), @r"
    start big lab1[0,1]
    wait  small gpus_not_free need 1 free 0
    ");
}

/// What does a higher priority do?
#[test]
fn priority_goes_before_size_age_and_escalation() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  old     1  pending 30h
        job  small   1  pending 1h
        job  urgent  4  pending  priority 10
    "), @r"
    start urgent lab1[0,1,2,3]
    wait  old ×2 gpus_not_free need 1 free 0
    ");
}

/// How do I let all other jobs go first?
#[test]
fn a_negative_priority_goes_last() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  later   1  pending 48h  priority -1
        job  normal  1  pending
    "), @r"
    start normal lab1[0]
    wait  later gpus_not_free need 1 free 0
    ");
}

/// A job with a higher priority can not start yet: does mine wait although it fits?
#[test]
fn a_waiting_priority_does_not_block_smaller_jobs() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  a       1  running lab1[0]
        job  urgent  4  pending  priority 10
        job  small   1  pending
    "), @r"
    start small lab1[1]
    wait  urgent gpus_not_free need 4 free 3
    ");
}

/// Can jobs start in the order of their submission?
#[test]
fn fifo_starts_jobs_in_the_order_of_submission() {
    assert_snapshot!(answer("
        policy order age
        node lab1  2 x h100
        job  big     2  pending 2m  priority -5
        job  small   1  pending 1m  priority 5
    "), @r"
    start big lab1[0,1]
    wait  small gpus_not_free need 1 free 0
    ");
}

/// Can priority and age alone decide?
#[test]
fn the_priority_preset_ignores_size() {
    assert_snapshot!(answer("
        policy order priority,age
        node lab1  2 x h100
        job  big    2  pending 2m
        job  small  1  pending 1m
    "), @r"
    start big lab1[0,1]
    wait  small gpus_not_free need 1 free 0
    ");
}

/// What decides in preset valohai?
#[test]
fn the_valohai_preset_ignores_priority() {
    assert_snapshot!(answer("
        policy order escalated,gpus,age  escalate 1h
        node lab1  2 x h100
        job  urgent  2  pending 30m  priority 100
        job  small   1  pending 10m
    "), @r"
    start small lab1[0]
    wait  urgent gpus_not_free need 2 free 1
    ");
}

#[test]
fn an_order_without_keys_is_by_age() {
    assert_snapshot!(answer("
        policy order id
        node lab1  1 x h100
        job  young  1  pending 1m
        job  old    1  pending 2m
    "), @r"
    start old lab1[0]
    wait  young gpus_not_free need 1 free 0
    ");
}

/// All GPUs are taken: does a job without GPUs start?
#[test]
fn jobs_without_gpus_start_at_once() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a       1  running lab1[0]
        job  cpu     0  pending  cpus 4
        job  gpu     1  pending
    "), @r"
    start cpu lab1
    wait  gpu gpus_not_free need 1 free 0
    ");
}

/// My job is held: does it reserve anything?
#[test]
fn held_jobs_are_not_considered() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  mine    1  held 3h
        job  theirs  1  held by admin 3h
        job  b       1  pending
    "), @"start b lab1[0]");
}

/// My job depends on another: when may it start?
#[test]
fn a_job_waits_for_its_dependencies() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  first   1  running lab1[0] 5m
        job  second  1  waiting 5m  after first
        job  other   1  pending
    "), @"start other lab1[1]");
}

/// I cancelled a job: is its GPU free at once?
#[test]
fn the_gpus_of_a_stopping_job_are_not_free_yet() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  leaving  1  stopping lab1[0] 5m
        job  next     1  pending
    "), @r"
    plan  next lab1[0] in 10s by limit
    wait  next gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_requeued_job_starts_as_its_next_attempt() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  again  1  pending 1m  attempt 3
    "), @"start again#3 lab1[0]");
}

#[test]
fn jobs_of_one_kind_wait_together() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  sweep  1 x 5  pending 10m
        job  other  1      pending 1m  priority -1
    "), @r"
    start sweep1 lab1[0]
    start sweep2 lab1[1]
    wait  sweep3 ×3 gpus_not_free need 1 free 0
    wait  other gpus_not_free need 1 free 0
    ");
}
