//! Resources besides devices.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// GPUs are free: why does my job wait for cores?
#[test]
fn cores_run_out_before_devices() {
    assert_snapshot!(answer("
        node lab1  4 x h100  cpus 8
        job  a  1  running lab1[0]  cpus 6
        job  b  1  pending  cpus 4
        job  c  1  pending  cpus 2
    "), @r"
    start c lab1[1]
    wait  b cpu_or_mem_short CPU cores need 4 free 2 on lab1
    ");
}

#[test]
fn memory_runs_out_before_devices() {
    assert_snapshot!(answer("
        node lab1  4 x h100  mem 64G
        job  a  1 x 3  pending  mem 30G
    "), @r"
    start a1 lab1[0]
    start a2 lab1[1]
    wait  a3 cpu_or_mem_short memory need 30 GiB free 4 GiB on lab1
    ");
}

/// I asked for no cores: does my job get any?
#[test]
fn a_job_that_asks_for_no_cores_books_none() {
    assert_snapshot!(answer("
        node lab1  2 x h100  cpus 1
        job  a  1  running lab1[0]  cpus 1
        job  b  1  pending
    "), @"start b lab1[1]");
}

#[test]
fn half_cores_add_up() {
    assert_snapshot!(answer("
        node lab1  cpus 1
        job  a  0 x 3  pending  cpus 0.5
    "), @r"
    start a1 lab1
    start a2 lab1
    wait  a3 cpu_or_mem_short CPU cores need 0.5 free 0 on lab1
    ");
}

#[test]
fn tasks_at_once_are_capped() {
    assert_snapshot!(answer("
        node lab1  8 x h100  tasks 2
        job  a  0  running lab1
        job  b  1 x 3  pending
    "), @r"
    start b1 lab1[0]
    wait  b2 ×2 cpu_or_mem_short tasks at once need 1 free 0 on lab1
    ");
}

#[test]
fn a_stopping_job_keeps_its_memory_until_it_ends() {
    assert_snapshot!(answer("
        node lab1  2 x h100  mem 64G
        job  a  1  stopping lab1[0]  mem 60G
        job  b  1  pending  mem 10G
    "), @r"
    plan  b lab1[0] in 10s by limit
    wait  b cpu_or_mem_short memory need 10 GiB free 4 GiB on lab1
    ");
}

#[test]
fn a_node_without_gpus_runs_jobs_that_need_none() {
    assert_snapshot!(answer("
        node lab1  cpus 4
        job  a  0  pending  cpus 4
        job  b  1  pending
    "), @r"
    start a lab1
    wait  b gpu_model_missing asked 1 most 0
    ");
}

/// I asked for more GPUs than the node has: what happens?
#[test]
fn more_gpus_than_the_node_has_never_fit() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  a  5  pending
    "), @"wait  a gpu_model_missing asked 5 most 4");
}

#[test]
fn more_memory_than_any_gpu_has_never_fits() {
    assert_snapshot!(answer("
        node lab1  2 x a100-40g + 1 x h100-80g
        job  a  100G..:1  pending
    "), @"wait  a gpu_memory_too_small need 100 GiB largest 80 GiB");
}

/// I asked for a model that does not exist: what happens?
#[test]
fn a_missing_model_never_fits() {
    assert_snapshot!(answer("
        node lab1  2 x a100-40g
        job  a  h100:1  pending
    "), @"wait  a gpu_model_missing asked h100:1 most 0");
}

#[test]
fn more_gpus_than_exist_of_any_listed_model_never_fit() {
    assert_snapshot!(answer("
        node lab1  1 x a100 + 1 x h100
        job  a  h100|a100:2  pending
    "), @"wait  a gpu_model_missing asked h100|a100:2 most 1");
}
