//! Task slots: how they are shared between users, and kept for jobs with GPUs.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// A user fills the node with jobs without GPUs. What do others get?
#[test]
fn one_user_leaves_slots_to_others_and_none_takes_those_of_jobs_with_gpus() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 16  plain 14  user 12
        job  a  0 x 20  pending 3h  uid 1001
        job  g  1 x 2   pending 1h  uid 1002
    "), @"");
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 6  plain 4  user 3
        job  r  0      running lab1 2h  uid 1001
        job  s  0      running lab1 2h  uid 1001
        job  t  0      running lab1 2h  uid 1001
        job  a  0 x 2  pending 3h  uid 1001
        job  b  0 x 2  pending 2h  uid 1002
        job  g  1 x 3  pending 1h  uid 1003
    "), @"");
}

/// Two users come at the same time.
#[test]
fn users_take_turns_for_task_slots() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 10  plain 8  user 8
        job  a  0 x 20  pending 3h  uid 1001
        job  b  0 x 20  pending 2h  uid 1002
    "), @"");
}

/// The same where jobs start in the order of priority and age.
#[test]
fn in_one_order_for_all_a_user_has_no_more_than_one_may() {
    assert_snapshot!(answer("
        policy preset priority
        node lab1  4 x h100  tasks 10  plain 8  user 6
        job  a  0 x 20  pending 3h  uid 1001
        job  b  0 x 20  pending 2h  uid 1002
        job  g  1 x 2   pending 1h  uid 1001  prio 100
        job  h  1 x 3   pending 1h  uid 1003
    "), @"");
    assert_snapshot!(answer("
        policy preset kai
        node lab1  4 x h100  tasks 10  plain 8  user 6
        job  a  0 x 20  pending 3h  uid 1001
        job  b  0 x 20  pending 2h  uid 1002
        job  h  1 x 3   pending 1h  uid 1003
    "), @"");
}

/// Nodes without such limits give out all of their slots.
#[test]
fn without_limits_all_slots_are_given_out() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 4
        job  a  0 x 5  pending 3h  uid 1001
    "), @"");
}

/// A paused job keeps its slot.
#[test]
fn a_paused_job_counts() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100  tasks 6  plain 4  user 2  pauses
        job  p  0      paused lab1 1h  uid 1001
        job  a  0 x 3  pending 3h  uid 1001
    "), @"");
}
