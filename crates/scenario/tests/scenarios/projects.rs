//! A cluster that is shared between projects: who is entitled to what, who borrows, who waits.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

/// Two projects want the same GPUs: who goes first?
#[test]
fn two_projects_take_turns() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 2
        project blue  gpus 2
        job  r  1 x 4   pending 1h  project red   preemptible
        job  b  1 x 4   pending     project blue  preemptible
    "), @r"
    start r1 lab1[0]
    start b1 lab1[1]
    start r2 lab1[2]
    start b2 lab1[3]
    wait  r3 ×2 gpus_not_free need 1 free 0
    wait  b3 ×2 gpus_not_free need 1 free 0
    ");
}

/// My project is at its quota, and GPUs are idle: may I use them?
#[test]
fn what_nobody_else_wants_is_lent() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 1
        project blue  gpus 3
        job  r  1 x 4   pending  project red  preemptible
    "), @r"
    start r1 lab1[0]
    start r2 lab1[1]
    start r3 lab1[2]
    start r4 lab1[3]
    ");
}

/// GPUs are idle, and my job waits for quota: what can I do?
#[test]
fn what_can_not_be_taken_back_is_not_lent() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 1
        project blue  gpus 3
        job  r  1 x 4   pending  project red
    "), @r"
    start r1 lab1[0]
    wait  r2 ×3 quota_project red guaranteed 1 GPUs held 1 asked 1
    ");
}

/// What does the limit of a project do?
#[test]
fn a_limit_holds_whatever_is_free() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 1  limit 2
        job  r  1 x 4   pending  project red  preemptible
    "), @r"
    start r1 lab1[0]
    start r2 lab1[1]
    wait  r3 ×2 quota_project red limit 2 GPUs held 2 asked 1
    ");
}

/// Does the limit of a department count for the projects below it?
#[test]
fn the_limit_of_a_department_holds_for_all_below_it() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project lab   limit 3
        project red   in lab  gpus 2
        project blue  in lab  gpus 2
        job  r  1 x 4   pending  project red   preemptible
        job  b  1 x 4   pending  project blue  preemptible
    "), @r"
    start r1 lab1[0]
    start b1 lab1[1]
    start r2 lab1[2]
    wait  b2 ×3 quota_project lab limit 3 GPUs held 3 asked 1
    wait  r3 ×2 quota_project lab limit 3 GPUs held 3 asked 1
    ");
}

/// Who goes first, an older borrower or a newer job within its quota?
#[test]
fn the_entitled_come_before_borrowers_that_are_older() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 1
        project blue  gpus 3
        job  r  1 x 4   pending 5h  project red   preemptible
        job  b  3       pending     project blue  preemptible
    "), @r"
    start r1 lab1[0]
    start b lab1[1,2,3]
    wait  r2 ×3 gpus_not_free need 1 free 0
    ");
}

/// How is divided what nobody is guaranteed?
#[test]
fn what_is_left_over_goes_by_weight() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project red   gpus 1  weight 2
        project blue  gpus 1
        job  r  1 x 8   pending  project red   preemptible
        job  b  1 x 8   pending  project blue  preemptible
    "), @r"
    start r1 lab1[0]
    start b1 lab1[1]
    start r2 lab1[2]
    start b2 lab1[3]
    start r3 lab1[4]
    start r4 lab1[5]
    start b3 lab1[6]
    start r5 lab1[7]
    wait  r6 ×3 gpus_not_free need 1 free 0
    wait  b4 ×5 gpus_not_free need 1 free 0
    ");
}

/// What does weight 0 mean?
#[test]
fn who_has_no_weight_borrows_only_what_nobody_with_one_wants() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 1  weight 0
        project blue  gpus 1
        job  r  1 x 2   pending 2h  project red   preemptible
        job  b  1 x 2   pending     project blue  preemptible
    "), @r"
    start r1 lab1[0]
    start b1 lab1[1]
    start b2 lab1[2]
    start r2 lab1[3]
    ");
}

/// What does the priority of a project do?
#[test]
fn a_higher_priority_takes_all_it_can_of_what_is_left_over() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 1
        project blue  gpus 1  priority 1
        job  r  1 x 4   pending 2h  project red   preemptible
        job  b  1 x 4   pending     project blue  preemptible
    "), @r"
    start b1 lab1[0]
    start r1 lab1[1]
    start b2 lab1[2]
    start b3 lab1[3]
    wait  b4 gpus_not_free need 1 free 0
    wait  r2 ×3 gpus_not_free need 1 free 0
    ");
}

/// More is guaranteed than there is: who gets what?
#[test]
fn more_is_guaranteed_than_there_is() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 4
        project blue  gpus 12
        job  r  1 x 4   pending 2h  project red
        job  b  1 x 4   pending     project blue
    "), @r"
    start r1 lab1[0]
    start b1 lab1[1]
    start b2 lab1[2]
    start b3 lab1[3]
    wait  r2 ×3 quota_project red guaranteed 1 GPUs held 1 asked 1
    wait  b4 quota_project blue guaranteed 3 GPUs held 3 asked 1
    ");
}

/// Do shares of GPUs count for quotas?
#[test]
fn half_devices_are_shared_in_halves() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        project red   gpus 0
        project blue  gpus 0
        job  r  0.5 x 2   pending 2h  project red   preemptible
        job  b  0.5 x 2   pending     project blue  preemptible
    "), @r"
    start r1 lab1[0]
    start b1 lab1[0]
    wait  r2 gpu_share_not_free need 0.5 of 1 free 0 on lab1 largest 0 B
    wait  b2 gpu_share_not_free need 0.5 of 1 free 0 on lab1 largest 0 B
    ");
}

/// Do quotas change the order of jobs inside my project?
#[test]
fn within_a_project_the_order_of_jobs_is_what_it_was() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 2
        project blue  gpus 0
        job  late   1   pending      project red  preemptible  priority 1
        job  early  1   pending 3h   project red  preemptible
        job  big    2   pending 5h   project red  preemptible
        job  b      1   pending 9h   project blue  preemptible
    "), @r"
    start late lab1[0]
    start early lab1[1]
    wait  b gpus_not_free need 1 free 0
    wait  big gpus_not_free need 2 free 0
    ");
}

/// Can cores be guaranteed?
#[test]
fn cores_are_guaranteed_and_counted_where_a_project_says_so() {
    assert_snapshot!(answer("
        node lab1  4 x h100  cpus 16
        project red   gpus 4  cpus 8
        project blue  gpus 0
        job  r  1 x 3   pending  cpus 4  project red
    "), @r"
    start r1 lab1[0]
    start r2 lab1[1]
    wait  r3 quota_project red guaranteed 8 CPU cores held 8 asked 4
    ");
}

/// Limits together are more than there is: does that keep me below mine?
#[test]
fn limits_alone_promise_nothing_and_take_nothing() {
    assert_snapshot!(answer("
        node lab1  4 x h100  tasks 4
        project red   gpus 2  jobs 3
        project blue  gpus 2  jobs 3
        job  r  0 x 4   pending  project red
    "), @"
    start r1 lab1
    start r2 lab1
    start r3 lab1
    wait  r4 quota_project red limit 3 tasks at once held 3 asked 1
    ");
}

/// Do I have to make projects?
#[test]
fn without_projects_nothing_is_different() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1 x 3   pending
    "), @r"
    start a1 lab1[0]
    start a2 lab1[1]
    wait  a3 gpus_not_free need 1 free 0
    ");
}

#[test]
fn who_has_jobs_running_and_a_loan_goes_after_who_has_nothing() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 2
        project blue  gpus 2
        job  r  1       running lab1[0] 1h  project red  preemptible
        job  s  1       running lab1[1] 1h  project red  preemptible
        job  t  1       running lab1[2] 1h  project red  preemptible
        job  u  1       pending 3h  project red   preemptible
        job  b  1       pending     project blue  preemptible
    "), @r"
    start b lab1[3]
    wait  u gpus_not_free need 1 free 0
    ");
}

#[test]
fn every_reason_is_told() {
    assert_snapshot!(reasons("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1  limit 1
        job  r  1 x 2   pending  project red
        job  b  1 x 2   pending  project blue  preemptible
    "), @"
    r2  quota_project red guaranteed 1 GPUs held 1 asked 1
        gpus_not_free need 1 free 0
    b2  quota_project blue limit 1 GPUs held 1 asked 1
        gpus_not_free need 1 free 0
        ahead_in_order 1 ahead, last job 2
    ");
}
