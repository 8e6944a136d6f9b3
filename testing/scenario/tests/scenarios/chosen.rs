//! Jobs that name nodes or labels.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

#[test]
fn a_job_goes_to_the_nodes_that_it_names() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        node lab2  2 x h100
        node lab3  1 x h100
        job  a    1  pending  on lab2
        job  b    1  pending  on lab[2-3]  not-on lab2
        job  c    1  pending  not-on lab[1,3]
        job  d    1  pending  on lab1
        job  e    1  pending  on lab1
    "), @"
    start a lab2[0]
    start b lab3[0]
    start c lab2[1]
    start d lab1[0]
    wait  e gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_job_goes_where_labels_or_models_are_as_it_asks() {
    assert_snapshot!(answer("
        node lab1  2 x h100  label rack=3
        node lab2  1 x a100  label rack=3  label ssd
        node lab3  1 x a100  label rack=4
        job  a    1  pending  where rack=4
        job  b    1  pending  where ssd
        job  c    1  pending  where h100
        job  d    1  pending  where rack=3  where !ssd
        job  e    1  pending  where rack!=3  where rack!=4
        job  f    1  pending  where rack=5|rack=3  where a100
    "), @"
    start a lab3[0]
    start b lab2[0]
    start c lab1[0]
    start d lab1[1]
    wait  e only_on_nodes --where 'rack!=3' --where 'rack!=4' nodes 0 of 3
    wait  f gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_job_that_does_not_fit_its_nodes_does_not_block_other_nodes() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        job  r    1  running lab2[0]
        job  a    2  pending 2h  on lab2
        job  b    2  pending 1h
        job  c    1  pending     on none
    "), @"
    start b lab1[0,1]
    wait  c only_on_nodes --node none nodes 0 of 2
    wait  a gpus_not_free need 2 free 1
    ");
}

#[test]
fn a_planned_start_is_on_nodes_that_may_be_used() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        job  r    2  running lab1[0,1]  limit 1h
        job  s    2  running lab2[0,1]  limit 3h
        job  a    1  pending  not-on lab1
    "), @"
    plan  a lab2[0] in 10810s by limit
    wait  a gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_gang_counts_the_nodes_that_it_may_use() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        node lab3  2 x h100
        job  a    2 nodes 2  pending 3h  not-on lab2
        job  b    1 nodes 2  pending 2h  on lab2
        job  c    1 tasks 2  pending 1h  on lab2
    "), @"
    start c lab2[0] lab2[1]
    start a lab1[0,1] lab3[0,1]
    wait  b nodes_not_free need 2 free 1 of 1
    ");
}

/// Capacity is reclaimed on the node that the job names.
#[test]
fn capacity_is_reclaimed_where_the_job_may_run() {
    assert_snapshot!(answer("
        project red   gpus 1
        project blue  gpus 1
        node lab1  1 x h100
        node lab2  1 x h100
        job  a    1  running lab1[0] 2h  project red  preemptible
        job  b    1  running lab2[0] 1h  project red  preemptible
        job  c    1  pending  project blue  on lab2
        job  d    1  pending  project blue  on lab1
    "), @"
    evict b reclaim for c
    claim c lab2[0]
    wait  d quota_project blue guaranteed 1 GPUs held 1 asked 1
    ");
}

#[test]
fn why_says_which_nodes_are_left_out() {
    assert_snapshot!(reasons("
        node lab1  2 x h100  label rack=3
        node lab2  2 x h100  label rack=3
        node lab3  2 x h100
        job  r    2  running lab1[0,1]
        job  a    1  pending  where rack=3  not-on lab2
        job  b    1  pending  where rack=9
    "), @"
    a   gpus_not_free need 1 free 0
        only_on_nodes --not-node lab2 --where rack=3 nodes 1 of 3
    b   only_on_nodes --where rack=9 nodes 0 of 3
    ");
}

/// Parts of a quota that the job could not use on its nodes do not count for it.
#[test]
fn a_quota_of_a_model_counts_only_where_the_job_may_run() {
    assert_snapshot!(answer("
        project red  gpus 2  limit-of a100 0
        node lab1  1 x h100
        node lab2  1 x a100
        job  a    1  pending  project red  on lab1
        job  b    1  pending  project red  on lab2
    "), @"
    start a lab1[0]
    wait  b quota_project red limit 0 A100 GPUs held 0 asked 1
    ");
}
