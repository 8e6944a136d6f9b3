//! Task slots: how users share them, and how some are reserved for jobs with GPUs.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// A user fills the node with jobs without GPUs: other users still get slots.
#[test]
fn one_user_leaves_slots_for_others_and_for_jobs_with_gpus() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 16  plain 14  user 12
        job  a  0 x 20  pending 3h  uid 1001
        job  g  1 x 2   pending 1h  uid 1002
    "), @"
    start a1 lab1
    start g1 lab1[0]
    start a2 lab1
    start a3 lab1
    start a4 lab1
    start a5 lab1
    start a6 lab1
    start a7 lab1
    start a8 lab1
    start a9 lab1
    start a10 lab1
    start a11 lab1
    start a12 lab1
    start g2 lab1[1]
    wait  a13 ×8 user_slots used 12 most 12 of 16
    ");
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 6  plain 4  user 3
        job  r  0      running lab1 2h  uid 1001
        job  s  0      running lab1 2h  uid 1001
        job  t  0      running lab1 2h  uid 1001
        job  a  0 x 2  pending 3h  uid 1001
        job  b  0 x 2  pending 2h  uid 1002
        job  g  1 x 3  pending 1h  uid 1003
    "), @"
    start b1 lab1
    start g1 lab1[0]
    start g2 lab1[1]
    wait  b2 slots_kept_for_gpus 1 needed 0 free of 4 of 6 on lab1
    wait  a1 ×2 user_slots used 3 most 3 of 6
    wait  g3 cpu_or_mem_short tasks at once need 1 free 0 on lab1
    ");
}

/// Two users submit at the same time.
#[test]
fn users_take_turns_for_task_slots() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 10  plain 8  user 8
        job  a  0 x 20  pending 3h  uid 1001
        job  b  0 x 20  pending 2h  uid 1002
    "), @"
    start a1 lab1
    start b1 lab1
    start a2 lab1
    start b2 lab1
    start a3 lab1
    start b3 lab1
    start a4 lab1
    start b4 lab1
    wait  a5 ×16 slots_kept_for_gpus 1 needed 0 free of 8 of 10 on lab1
    wait  b5 ×16 slots_kept_for_gpus 1 needed 0 free of 8 of 10 on lab1
    ");
}

/// The same with one order of priority and age for all.
#[test]
fn with_one_order_for_all_a_user_stays_within_the_limit() {
    assert_snapshot!(answer("
        policy preset priority
        node lab1  4 x h100  tasks 10  plain 8  user 6
        job  a  0 x 20  pending 3h  uid 1001
        job  b  0 x 20  pending 2h  uid 1002
        job  g  1 x 2   pending 1h  uid 1001  priority 100
        job  h  1 x 3   pending 1h  uid 1003
    "), @"
    start g1 lab1[0]
    start g2 lab1[1]
    start a1 lab1
    start a2 lab1
    start a3 lab1
    start a4 lab1
    start b1 lab1
    start b2 lab1
    start b3 lab1
    start b4 lab1
    wait  a5 ×16 user_slots used 6 most 6 of 10
    wait  b5 ×16 cpu_or_mem_short tasks at once need 1 free 0 on lab1
    wait  h1 ×3 cpu_or_mem_short tasks at once need 1 free 0 on lab1
    ");
}

/// Nodes without such limits give all of their slots.
#[test]
fn without_limits_all_slots_are_used() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 4
        job  a  0 x 5  pending 3h  uid 1001
    "), @"
    start a1 lab1
    start a2 lab1
    start a3 lab1
    start a4 lab1
    wait  a5 cpu_or_mem_short tasks at once need 1 free 0 on lab1
    ");
}

/// A paused job keeps its slot.
#[test]
fn a_paused_job_counts() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 6  plain 4  user 2  pauses
        job  p  0      paused lab1 1h  uid 1001
        job  a  0 x 3  pending 3h  uid 1001
    "), @"
    start a1 lab1
    resume p lab1
    wait  a2 ×2 user_slots used 2 most 2 of 6
    ");
}
