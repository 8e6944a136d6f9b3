//! The choice of devices.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// Which GPU of an empty machine do I get?
#[test]
fn the_lowest_free_index_is_given_first() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  a  1  running lab1[0]
        job  b  1  running lab1[2]
        job  c  1 x 2  pending
    "), @r"
    start c1 lab1[1]
    start c2 lab1[3]
    ");
}

/// I asked for three GPUs, and 0, 2 and 3 are free: do I wait for neighbours?
#[test]
fn several_devices_need_not_be_neighbours() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  a  1  running lab1[1]
        job  b  3  pending
    "), @"start b lab1[0,2,3]");
}

/// Do my two GPUs have NVLink between them?
#[test]
fn linked_devices_are_given_together() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        link lab1[1,3]  nvlink 12
        job  a  2  pending
    "), @"start a lab1[1,3]");
}

#[test]
fn nvlink_is_better_than_a_switch_and_a_switch_than_numa() {
    assert_snapshot!(answer("
        node lab1  6 x h100
        link lab1[0,1]  numa
        link lab1[2,3]  switch
        link lab1[4,5]  nvlink 4
        job  a  2 x 3  pending
    "), @r"
    start a1 lab1[4,5]
    start a2 lab1[2,3]
    start a3 lab1[0,1]
    ");
}

/// Which four of eight GPUs do I get when links differ?
#[test]
fn four_gpus_of_one_island_are_better_than_two_and_two() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        link lab1[0-3]  switch
        link lab1[4-7]  switch
        job  a  1  running lab1[1]
        job  b  4  pending
    "), @"start b lab1[4,5,6,7]");
}

#[test]
fn equal_links_leave_the_lowest_indexes() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        link lab1[0-7]  nvlink 18
        job  a  2  pending
        job  b  3  pending
    "), @r"
    start a lab1[0,1]
    start b lab1[2,3,4]
    ");
}

#[test]
fn of_equally_linked_pairs_the_lower_one_is_given() {
    assert_snapshot!(answer("
        node lab1  6 x h100
        link lab1[1,4]  nvlink 4
        link lab1[2,3]  nvlink 4
        link lab1[0,5]  switch
        job  a  2 x 2  pending
    "), @r"
    start a1 lab1[1,4]
    start a2 lab1[2,3]
    ");
}

/// How do I write the model of the GPU that I want?
#[test]
fn a_model_is_matched_by_its_words() {
    assert_snapshot!(answer("
        node lab1  1 x a100-40g + 1 x a100-80g + 1 x h100-80g
        job  any    a100:1      pending
        job  large  a100-80g:1  pending
        job  h      H100        pending
    "), @r"
    start any lab1[0]
    start large lab1[1]
    start h lab1[2]
    ");
}

/// I prefer an H100 and would take an A100: which do I get?
#[test]
fn models_are_used_in_the_order_of_preference() {
    assert_snapshot!(answer("
        node lab1  2 x a100 + 2 x h100
        job  a  h100|a100:1 x 3  pending
    "), @r"
    start a1 lab1[2]
    start a2 lab1[3]
    start a3 lab1[0]
    ");
}

/// Can I get one GPU of each of the models that I listed?
#[test]
fn listed_models_are_never_mixed() {
    assert_snapshot!(answer("
        node lab1  1 x a100 + 2 x h100
        job  a  1  running lab1[1]
        job  b  h100|a100:2  pending
    "), @"wait  b gpus_not_free_together need 2 free 1 on lab1");
}

/// I named no model: are my two GPUs of the same model?
#[test]
fn without_a_model_two_gpus_of_one_model_are_better_than_two_models() {
    assert_snapshot!(answer("
        node lab1  1 x a100 + 2 x h100
        job  a  2  pending
    "), @"start a lab1[1,2]");
}

#[test]
fn without_a_model_two_models_are_better_than_no_start() {
    assert_snapshot!(answer("
        node lab1  1 x a100 + 2 x h100
        job  a  1  running lab1[1]
        job  b  2  pending
    "), @"start b lab1[0,2]");
}

/// I need at least 40 GB of GPU memory: which GPUs count?
#[test]
fn a_memory_minimum_skips_small_gpus() {
    assert_snapshot!(answer("
        node lab1  2 x a100-40g + 1 x a100-80g
        job  a  60G..:1  pending
        job  b  40G..:2  pending
    "), @r"
    start a lab1[2]
    start b lab1[0,1]
    ");
}

/// A user runs a process on a GPU without gpool: does my job start on that GPU?
#[test]
fn gpus_in_unmanaged_use_get_no_jobs() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        gpu  lab1[0]  unmanaged by bob
        job  a  1  pending
        job  b  2  pending
    "), @r"
    start a lab1[1]
    wait  b gpus_not_free need 2 free 0
    ");
}

/// A GPU reports faults: does my job still start on it?
#[test]
fn faulty_lost_and_silent_gpus_get_no_jobs() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        gpu  lab1[0]  unhealthy
        gpu  lab1[1]  lost
        gpu  lab1[2]  unknown
        job  a  1 x 2  pending
    "), @r"
    start a1 lab1[3]
    wait  a2 gpus_not_free need 1 free 0
    ");
}

/// Can an admin exclude single GPUs?
#[test]
fn only_allowed_devices_are_given() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        gpu  lab1[0,2-3]  forbidden
        job  a  1 x 2  pending
    "), @r"
    start a1 lab1[1]
    wait  a2 gpus_not_free need 1 free 0
    ");
}

/// An admin excludes the GPU that my job runs on: does my job end?
#[test]
fn a_job_keeps_a_device_that_was_forbidden_later() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        gpu  lab1[0]  forbidden
        job  a  1  running lab1[0]
        job  b  1  pending
    "), @"wait  b gpus_not_free need 1 free 0");
}

/// Does a GPU in MIG mode count as a whole one?
#[test]
fn a_gpu_in_mig_mode_is_not_given_as_a_whole() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        gpu  lab1[0]  mig
        job  a  1 x 2  pending
    "), @r"
    start a1 lab1[1]
    wait  a2 gpus_not_free need 1 free 0
    ");
}

#[test]
fn random_gives_a_job_the_same_devices_every_time() {
    let scenario = "
        policy strategy random
        node lab1  8 x h100
        job  a  1 x 4  pending
    ";
    assert_eq!(answer(scenario), answer(scenario));
    assert_snapshot!(answer(scenario), @r"
    start a1 lab1[2]
    start a2 lab1[4]
    start a3 lab1[5]
    start a4 lab1[6]
    ");
}

#[test]
fn random_gives_another_attempt_its_own_draw() {
    assert_snapshot!(answer("
        policy strategy random
        node lab1  8 x h100
        job  a  1  pending  attempt 2
    "), @"start a#2 lab1[5]");
}

/// What does the strategy pack do?
#[test]
fn pack_chooses_gpus_beside_busy_ones() {
    assert_snapshot!(answer("
        policy strategy pack
        node lab1  4 x h100
        link lab1[0,1]  switch
        link lab1[2,3]  switch
        job  a  1  running lab1[2]
        job  b  1 x 2  pending
    "), @r"
    start b1 lab1[3]
    start b2 lab1[0]
    ");
}

/// What does the strategy spread do?
#[test]
fn spread_chooses_gpus_away_from_busy_ones() {
    assert_snapshot!(answer("
        policy strategy spread
        node lab1  4 x h100
        link lab1[0,1]  switch
        link lab1[2,3]  switch
        job  a  1  running lab1[0]
        job  b  1 x 2  pending
    "), @r"
    start b1 lab1[2]
    start b2 lab1[1]
    ");
}

/// Jobs are evicted to free cores for mine: is it still packed beside the remaining jobs?
#[test]
fn packing_ignores_jobs_that_are_evicted_for_the_new_one() {
    assert_snapshot!(answer("
        policy  strategy pack
        node lab1  6 x h100  cpus 8
        link lab1[0,1]  nvlink 4
        link lab1[2,3]  nvlink 4
        link lab1[4,5]  nvlink 4
        job  low   1  running lab1[1] 1h  preemptible  priority -5  cpus 6
        job  stay  1  running lab1[3] 1h  cpus 1
        job  a     1  pending  cpus 6
    "), @"
    evict low preempt for a
    claim a lab1[2]
    ");
}
