//! A cluster that projects share: guarantees, borrowing and waiting.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

/// Two projects want the same GPUs: which starts first?
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
fn idle_capacity_is_lent() {
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
fn non_preemptible_jobs_can_not_borrow() {
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
fn a_limit_applies_even_if_gpus_are_free() {
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
fn the_limit_of_a_department_applies_to_all_projects_below_it() {
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

/// Which starts first, an older borrower or a newer job within its quota?
#[test]
fn jobs_within_quota_come_before_older_borrowers() {
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

/// How is the unguaranteed capacity divided?
#[test]
fn unguaranteed_capacity_is_divided_by_weight() {
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
fn a_project_of_weight_0_borrows_only_what_no_weighted_project_wants() {
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
fn a_higher_project_priority_gets_unguaranteed_capacity_first() {
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

/// The guarantees exceed the capacity: how much does each project get?
#[test]
fn guarantees_above_the_capacity_are_scaled() {
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
fn half_gpus_count_as_halves() {
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
fn within_a_project_quotas_do_not_change_the_order() {
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
fn cores_can_be_guaranteed() {
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

/// The limits together exceed the capacity: does that keep me below mine?
#[test]
fn limits_alone_neither_guarantee_nor_restrict_more() {
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

/// Do I have to create projects?
#[test]
fn without_projects_nothing_changes() {
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
fn a_project_that_borrows_comes_after_one_that_holds_nothing() {
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
fn every_reason_is_reported() {
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

/// A GPU is drained, or used outside gpool: do all projects lose a part of their guarantees?
#[test]
fn gpus_that_are_lost_for_a_while_reduce_no_guarantee_that_the_others_can_meet() {
    assert_snapshot!(answer("
        project  red   gpus 8
        project  blue  gpus 8
        project  green gpus 4
        node lab1  8 x h100
        node lab2  8 x h100
        node lab3  4 x h100
        gpu  lab3[3]  unmanaged by ana
        job  a  8  pending  project red   on lab1
        job  b  6  pending  project blue  on lab2
    "), @r"
    start a lab1[0,1,2,3,4,5,6,7]
    start b lab2[0,1,2,3,4,5]
    ");
}

// All projects request their guarantees while a GPU is lost.
#[test]
fn a_job_within_its_guarantee_waits_for_gpus_and_not_for_the_quota() {
    assert_snapshot!(answer("
        project  red   gpus 4
        project  blue  gpus 4
        node lab1  8 x h100
        gpu  lab1[7]  unmanaged by ana
        job  a  4  running lab1[0,1,2,3] 1h  project red
        job  b  4  pending  project blue
    "), @r"
    wait  b gpus_not_free need 4 free 3
    ");
}
