//! Decayed usage, where the policy counts it.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// Two users wait and hold nothing: which one is next?
#[test]
fn of_users_with_equal_holdings_the_one_with_less_usage_is_next() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  1 x h100
        job  a  1  pending 3h  uid 1001
        job  b  1  pending 1h  uid 1002
        used 40  uid 1001
        used 5   uid 1002
    "), @"
    start b lab1[0]
    wait  a gpus_not_free need 1 free 0
    ");
}

/// Does it matter when one user already holds something?
#[test]
fn holding_less_counts_before_having_used_less() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  2 x h100
        job  r  1  running lab1[0] 1h  uid 1002
        job  a  1  pending 3h  uid 1001
        job  b  1  pending 1h  uid 1002
        used 40  uid 1001
    "), @"
    start a lab1[1]
    wait  b gpus_not_free need 1 free 0
    ");
}

/// Does usage count between projects with guarantees?
#[test]
fn between_projects_usage_counts_only_if_the_policy_says_so() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red
        project blue
        job  r  1 x 2  pending 3h  project red   preemptible
        job  b  1 x 2  pending 1h  project blue  preemptible
        used 90  project red
    "), @"
    start r1 lab1[0]
    start b1 lab1[1]
    wait  r2 gpus_not_free need 1 free 0
    wait  b2 gpus_not_free need 1 free 0
    ");
}

/// How can a project with much recent usage get less of the unguaranteed capacity?
#[test]
fn with_a_usage_weight_more_usage_gets_less_unguaranteed_capacity() {
    assert_snapshot!(answer("
        policy preset fair  use-weight 1  half-life 24h
        node lab1  4 x h100
        project red
        project blue
        job  r  1 x 4  pending 3h  project red   preemptible
        job  b  1 x 4  pending 1h  project blue  preemptible
        used 90  project red
    "), @"
    start b1 lab1[0]
    start r1 lab1[1]
    start b2 lab1[2]
    start b3 lab1[3]
    wait  b4 gpus_not_free need 1 free 0
    wait  r2 ×3 gpus_not_free need 1 free 0
    ");
}

/// Does usage reduce a guarantee?
#[test]
fn a_guarantee_does_not_depend_on_usage() {
    assert_snapshot!(answer("
        policy preset fair  use-weight 10  half-life 24h
        node lab1  4 x h100
        project red   gpus 2
        project blue
        job  r  1 x 4  pending 3h  project red   preemptible
        job  b  1 x 4  pending 1h  project blue  preemptible
        used 90  project red
    "), @"
    start r1 lab1[0]
    start r2 lab1[1]
    start b1 lab1[2]
    start b2 lab1[3]
    wait  b3 ×2 gpus_not_free need 1 free 0
    wait  r3 ×2 gpus_not_free need 1 free 0
    ");
}
