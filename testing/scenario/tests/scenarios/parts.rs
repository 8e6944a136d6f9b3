//! Quotas of one model and of one pool: parts of the GPUs.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

/// My project is guaranteed two H100s: which GPUs do jobs get that ask for any?
#[test]
fn a_guarantee_of_a_model_is_used_first() {
    assert_snapshot!(answer("
        node lab1  2 x a100-80g + 2 x h100-80g
        project red   gpus-of h100 2
        project blue  gpus 2
        job  r  1 x 2   pending 1h  project red
        job  b  1 x 2   pending     project blue
    "), @"
    start r1 lab1[2]
    start b1 lab1[0]
    start r2 lab1[3]
    start b2 lab1[1]
    ");
}

/// Others hold the H100s that my project is guaranteed, and A100s are free: do I get mine?
#[test]
fn a_guarantee_of_a_model_is_reclaimed_in_gpus_of_that_model() {
    assert_snapshot!(answer("
        node lab1  2 x a100-80g + 2 x h100-80g
        project red   gpus-of h100 2
        project blue  gpus 2
        job  b  1       running lab1[2] 1h  project blue  preemptible
        job  c  1       running lab1[3] 1h  project blue  preemptible
        job  r  h100:2  pending     project red
    "), @"
    evict c reclaim for r
    evict b reclaim for r
    claim r lab1[2,3]
    ");
}

/// Can I limit my project to some number of H100s?
#[test]
fn a_limit_of_a_model_leaves_the_other_models() {
    assert_snapshot!(answer("
        node lab1  2 x a100-80g + 4 x h100-80g
        project red   gpus 6  limit-of h100 1
        job  h  h100:1 x 2     pending 2h  project red
        job  e  a100|h100:1    pending 1h  project red
        job  a  1 x 3          pending     project red
    "), @"
    start h1 lab1[2]
    start e lab1[0]
    start a1 lab1[1]
    wait  a2 ×2 quota_project red limit 1 H100 GPUs held 1 asked 1
    wait  h2 quota_project red limit 1 H100 GPUs held 1 asked 1
    ");
}

/// A job will get two H100s and one A100: does its project reach its limit of A100s?
#[test]
fn a_planned_start_counts_for_the_models_that_it_gets() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 2 x h100-80g
        node lab2  1 x a100-80g
        project red   gpus 5  limit-of a100 4
        job  old   1       running lab1[0] 1h  limit 2h  project red
        job  big   3       pending  project red  priority 1
        job  small a100:1  pending  project red  preemptible
    "), @"
    start small lab2[0]
    plan  big lab1[0,1,2] in 3610s by limit
    wait  big gpus_not_free_together need 3 free 2 on lab1
    ");
}

/// Idle GPUs are guaranteed to others: may a non-preemptible job use them?
#[test]
fn non_preemptible_jobs_do_not_use_the_guarantees_of_others() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 2 x h100-80g
        project red   gpus-of h100 1
        project blue  gpus 2
        job  n  1 x 2  pending 2h  project blue
        job  p  1      pending 1h  project blue  preemptible
    "), @"
    start n1 lab1[0]
    start n2 lab1[1]
    start p lab1[2]
    ");
}

/// Others hold my project's quota in one pool: are they evicted while GPUs elsewhere are free?
#[test]
fn nothing_is_reclaimed_in_a_pool_while_gpus_elsewhere_are_free() {
    assert_snapshot!(answer("
        node big1    2 x h100-80g  pool big
        node small1  2 x h100-80g  pool small
        project red   gpus-in big 2
        project blue  gpus-in small 2
        job  b  2       running big1[0,1] 1h  project blue  preemptible
        job  r  1 x 3   pending     project red   preemptible
    "), @"
    start r1 small1[0]
    start r2 small1[1]
    wait  r3 gpus_not_free need 1 free 0
    ");
}

/// Two H100s and one A100 are reclaimed for a job: does its project reach its limit of A100s?
#[test]
fn a_job_counts_for_the_models_that_it_reclaims() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 2 x h100-80g
        node lab2  2 x a100-80g
        project red   gpus 4  limit-of a100 3
        project blue  gpus 0
        job  lent  3       running lab1[0,1,2] 1h  project blue  preemptible
        job  big   3       pending  project red  priority 1
        job  small a100:1  pending  project red
    "), @"
    evict lent reclaim for big
    claim big lab1[0,1,2]
    start small lab2[0]
    ");
}

/// Two jobs of my project wait, and a job with less priority leaves a pool that the project borrows
/// in: does the first of the two get its GPU?
#[test]
fn the_first_job_preempts_in_a_borrowed_pool_and_not_the_next() {
    assert_snapshot!(answer("
        node big1    2 x h100-80g  pool big
        node small1  1 x h100-80g  pool small
        project red   gpus 0
        project blue  gpus 0  limit-in small 1
        job  old     1    running big1[0] 1h    project red  limit 3h  submitted 3h
        job  half    0.5  running big1[1] 1h    project red  limit 3h  submitted 3h
        job  low     0.5  running small1[0] 1h  project red  preemptible  priority -1
        job  first   1    pending 2h  project red  preemptible
        job  second  1    pending 1h  project red  preemptible  cpus 1
    "), @"
    evict low preempt for first
    claim first small1[0]
    plan  second big1[0] in 7210s by limit
    wait  second gpus_not_free need 1 free 0
    ");
}

/// How much may a project hold in a pool?
#[test]
fn a_limit_in_a_pool_applies_to_jobs_that_name_no_pool() {
    assert_snapshot!(answer("
        node big1    4 x h100-80g  pool big
        node small1  1 x h100-80g  pool small
        project red   gpus 5  limit-in big 1
        job  r  1 x 3   pending  project red
    "), @"
    start r1 big1[0]
    start r2 small1[0]
    wait  r3 quota_project red limit 1 GPUs in pool big held 1 asked 1
    ");
}

/// Quotas count models: does a job of several GPUs still start on two models?
#[test]
fn a_job_may_use_several_models_and_counts_for_each() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 1 x h100-80g
        project red   gpus 0  limit-of h100 2
        project blue  gpus 2  limit-of h100 1
        job  b  2   pending 1h  project blue
        job  r  2   pending     project red   preemptible
    "), @"
    start b lab1[0,1]
    wait  r gpus_not_free need 2 free 0
    ");
}

/// My project has reached its limit of H100s: when does its next job start?
#[test]
fn a_planned_start_respects_limits_of_models() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 2 x h100-80g
        project red   gpus 3  limit-of h100 1
        job  h  h100:1  running lab1[1] 1h  limit 2h  project red
        job  a  a100:1  running lab1[0] 1h  limit 4h  project red
        job  r  1       pending           project red
    "), @"
    plan  r lab1[0] in 10810s by limit
    wait  r quota_project red limit 1 H100 GPUs held 1 asked 1
    ");
}

/// Why does my job wait while an H100 is free?
#[test]
fn the_reason_names_the_model_of_the_quota() {
    assert_snapshot!(reasons("
        node lab1  1 x a100-80g + 2 x h100-80g
        project red   gpus 3  limit-of h100 1
        job  h  h100:1  running lab1[1] 1h  project red
        job  a  a100:1  running lab1[0] 1h  project red
        job  r  1       pending     project red
    "), @"r   quota_project red limit 1 H100 GPUs held 1 asked 1");
}

/// Two departments are guaranteed more H100s than exist: how many can each of them keep?
#[test]
fn guarantees_of_a_model_above_the_capacity_are_scaled() {
    assert_snapshot!(answer("
        node lab1  2 x h100-80g + 2 x a100-80g
        project red   gpus-of h100 2
        project blue  gpus-of h100 2
        job  r  h100:1 x 2   pending 1h  project red
        job  b  h100:1 x 2   pending     project blue
    "), @"
    start r1 lab1[0]
    start b1 lab1[1]
    wait  r2 quota_project red guaranteed 1 H100 GPUs held 1 asked 1
    wait  b2 quota_project blue guaranteed 1 H100 GPUs held 1 asked 1
    ");
}

/// A borrower is older than a job within its quota: does that delay the younger job?
#[test]
fn a_younger_job_within_quota_may_start_beside_an_older_borrower() {
    assert_snapshot!(answer("
        node lab1  3 x a100-80g + 2 x h100-80g
        project red    gpus 4  gpus-of a100 2
        project green  gpus-of h100 1
        project blue   weight 3
        job  a  1       running lab1[0] 1h  project red  preemptible
        job  c  1       running lab1[1] 1h  project red  preemptible
        job  n  1       pending 2h  project red
        job  p  1       pending 1h  project red   preemptible
        job  z  a100:3  pending     project blue
    "), @"
    start n lab1[3]
    start p lab1[4]
    wait  z quota_project blue guaranteed 0 GPUs held 0 asked 3
    ");
}

/// One project is guaranteed an H100: how is the rest divided?
#[test]
fn the_rest_of_a_model_goes_to_projects_with_guarantees_of_gpus() {
    assert_snapshot!(answer("
        node lab1  4 x h100-80g
        project red     gpus-of h100 1
        project blue    gpus 2
        project yellow  weight 9
        job  y  4  running lab1[0,1,2,3] 1h  project yellow  preemptible
        job  b  1 x 3  pending  project blue
    "), @"
    evict y reclaim for b1
    claim b1 lab1[0]
    claim b2 lab1[1]
    wait  b3 quota_project blue guaranteed 2 GPUs held 2 asked 1
    ");
}

/// One project is guaranteed a model, another a pool that has that model: does either wait?
#[test]
fn guarantees_of_a_model_and_of_a_pool_both_apply() {
    assert_snapshot!(answer("
        node big1  4 x h100-80g  pool big
        project red    gpus-of h100 2
        project green  gpus-in big 2
        job  r  h100:1 x 3  pending 1h  project red
        job  g  1 x 3       pending     project green
    "), @"
    start r1 big1[0]
    start g1 big1[1]
    start r2 big1[2]
    start g2 big1[3]
    wait  r3 quota_project red guaranteed 2 GPUs held 2 asked 1
    wait  g3 quota_project green guaranteed 2 GPUs held 2 asked 1
    ");
}

/// A large job is entitled to GPUs that are in use: does a smaller job start before it?
#[test]
fn a_job_that_can_not_borrow_keeps_its_planned_start() {
    assert_snapshot!(answer("
        node lab1  4 x a100-80g
        node lab3  2 x a100-80g
        node lab4  2 x a100-80g
        node lab5  1 x h100-80g
        project red    gpus 4
        project blue   gpus 4
        project green  gpus-of h100 1
        job  x  2  running lab1[0,1] 1h  limit 2h  project blue
        job  r  4  pending 2h  project red   preemptible
        job  b  2  pending     project blue
    "), @"
    start b lab3[0,1]
    plan  r lab1[0,1,2,3] in 3610s by limit
    wait  r gpus_not_free_together need 4 free 2 on lab1
    ");
}

/// A job already leaves the H100 that I am to get: is another one evicted for me as well?
#[test]
fn no_job_is_evicted_while_another_leaves_the_wanted_gpu() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 1 x h100-80g
        project red   gpus-of h100 1
        project blue  weight 0
        job  s  1  stopping lab1[1] 1h  project blue
        job  b  1  running lab1[0] 1h   project blue  preemptible
        job  r  1  pending              project red
    "), @"
    plan  r lab1[1] in 10s by limit
    wait  r gpus_not_free need 1 free 0
    ");
}

/// A third project has a guarantee of one model: does it change the order between ours for another?
#[test]
fn a_guarantee_of_one_model_does_not_change_the_order_for_another() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 1 x h100-80g
        project red     gpus-of h100 1
        project blue    gpus 1
        project yellow  priority 5
        job  y  a100:1  pending 1h  project yellow  preemptible
        job  b  a100:1  pending     project blue
    "), @"
    start b lab1[0]
    wait  y gpus_not_free need 1 free 0
    ");
}

/// My job wants GPUs of two models, and a limit closes the first pool: does it start in another?
#[test]
fn gpus_of_several_models_are_searched_in_every_pool() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 1 x h100-80g  pool big
        node lab2  1 x a100-80g + 1 x h100-80g
        project red   gpus 4  limit-in big 0
        job  r    2  pending  project red
    "), @"start r lab2[0,1]");
}

/// I have all H100s that my project is guaranteed, another project has none yet: which is first?
#[test]
fn a_project_with_its_whole_guarantee_comes_after_one_without() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x a100
        project red   gpus 2  gpus-of h100 1  priority 1
        project blue  gpus 2  gpus-of h100 1
        job  r  1       running lab1[0] 1h  project red
        job  b  1       running lab2[0] 1h  project blue
        job  x  1       running lab2[1] 1h
        job  s  1       pending             project red   preemptible
        job  c  1       pending             project blue  preemptible
    "), @"
    start c lab1[1]
    wait  s gpus_not_free need 1 free 0
    ");
}
