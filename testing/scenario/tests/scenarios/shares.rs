//! Shares of GPUs beside each other and beside whole GPUs.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// Two jobs ask for half a GPU: do they share one?
#[test]
fn two_halves_share_one_gpu_and_the_other_stays_whole() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  0.5 x 2  pending
        job  b  1        pending
    "), @r"
    start a1 lab1[0]
    start a2 lab1[0]
    start b lab1[1]
    ");
}

/// I have a whole GPU: may another job get a share of it?
#[test]
fn a_gpu_that_a_job_has_whole_gets_no_shares() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1    running lab1[0]
        job  b  0.5  running lab1[1]
        job  c  0.5  pending
        job  d  0.5  pending
    "), @r"
    start c lab1[1]
    wait  d gpu_share_not_free need 0.5 of 1 free 0 on lab1 largest 0 B
    ");
}

#[test]
fn a_gpu_with_shares_is_not_given_as_a_whole() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  0.25  running lab1[1]
        job  b  2     pending
        job  c  1     pending
    "), @r"
    start c lab1[0]
    wait  b gpus_not_free need 2 free 0
    ");
}

/// Which GPU does a share get?
#[test]
fn the_fullest_gpu_that_fits_the_share_is_used() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  a  0.25  running lab1[0]
        job  b  0.75  running lab1[1]
        job  c  0.25  pending
        job  d  0.5   pending
    "), @r"
    start c lab1[1]
    start d lab1[0]
    ");
}

/// Do three equal thirds fit one GPU?
#[test]
fn equal_thirds_by_memory_fill_a_device() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g
        job  a  1@27306M x 4  pending
    "), @r"
    start a1 lab1[0]
    start a2 lab1[0]
    start a3 lab1[0]
    wait  a4 gpu_share_not_free need 27306M of 1 free 0 on lab1 largest 2 MiB
    ");
}

/// Can a share by memory and a share by part be on one GPU?
#[test]
fn memory_and_parts_share_a_device_by_its_memory() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g
        job  a  0.5    running lab1[0]
        job  b  1@40G  pending
        job  c  1@1G   pending
    "), @r"
    start b lab1[0]
    wait  c gpu_share_not_free need 1G of 1 free 0 on lab1 largest 0 B
    ");
}

/// Can I have a part of each of two GPUs?
#[test]
fn a_part_of_each_of_two_devices() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  0.75   running lab1[0]
        job  b  2@0.25 pending
        job  c  2@0.5  pending
    "), @r"
    start b lab1[0,1]
    wait  c gpu_share_not_free need 0.5 of 2 free 1 on lab1 largest 60 GiB
    ");
}

#[test]
fn a_node_with_a_gpu_already_shared_comes_first() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        job  a  0.5  running lab2[1]
        job  b  0.5  pending
        job  c  0.5  pending
    "), @r"
    start b lab2[1]
    start c lab2[0]
    ");
}

#[test]
fn smaller_shares_go_first() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  1     pending
        job  b  0.75  pending
        job  c  0.5   pending
        job  d  0.5   pending
    "), @r"
    start c lab1[0]
    start d lab1[0]
    wait  b gpu_share_not_free need 0.75 of 1 free 0 on lab1 largest 0 B
    wait  a gpus_not_free need 1 free 0
    ");
}

#[test]
fn a_device_that_is_leaving_shares_is_not_whole_yet() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  0.5  stopping lab1[0]
        job  b  1    pending
        job  c  0.5  pending
    "), @r"
    start c lab1[0]
    wait  b gpus_not_free need 1 free 0
    ");
}

/// May other projects use the rest of my GPU?
#[test]
fn a_share_for_one_project_is_not_beside_others() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  0.5  running lab1[0]  project vision  share-with project
        job  b  0.25  pending  project audio
        job  c  0.25  pending  project vision  share-with project
    "), @r"
    start b lab1[1]
    start c lab1[0]
    ");
}

/// Why does my job wait although a GPU has room?
#[test]
fn a_job_that_may_not_share_waits_for_another_gpu() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  a  0.5  running lab1[0]  uid 1001
        job  b  0.25  pending  uid 1001  share-with user
        job  c  0.25  pending  uid 1002
        job  d  0.25  pending  uid 1001
    "), @r"
    start b lab1[0]
    start d lab1[0]
    wait  c share_not_allowed need 1 free 0 on lab1 with user
    ");
}

/// Can an admin decide for a pool?
#[test]
fn the_pool_of_a_gpu_decides_unless_the_job_does() {
    assert_snapshot!(answer("
        policy  share-with user
        pool open  share-with anyone
        node lab1  1 x h100
        node lab2  1 x h100  pool open
        job  a  0.25  running lab1[0]  uid 1001
        job  b  0.25  running lab2[0]  uid 1002
        job  c  0.25  pending  uid 1003  pool default
        job  d  0.25  pending  uid 1003  pool open
    "), @r"
    start d lab2[0]
    wait  c share_not_allowed need 1 free 0 on lab1 with user
    ");
}

/// Do both jobs have to agree?
#[test]
fn jobs_share_a_gpu_only_if_each_accepts_the_other() {
    assert_snapshot!(answer("
        policy  share-with user
        node lab1  1 x h100
        job  a  0.25  running lab1[0]  uid 1001  share-with anyone
        job  b  0.25  pending  uid 1002  share-with anyone
        job  c  0.25  pending  uid 1002
    "), @r"
    start b lab1[0]
    wait  c share_not_allowed need 1 free 0 on lab1 with user
    ");
}

/// May a short job of another user start on a GPU that is planned for a job that shares with none?
#[test]
fn a_planned_share_is_not_delayed_by_a_job_that_may_not_be_beside_it() {
    assert_snapshot!(answer("
        policy  order age
        node lab1  1 x h100
        job  a  0.5  running lab1[0] 1h  uid 1001  limit 3h
        job  b  0.75  pending  uid 1001  share-with user  limit 1h
        job  c  0.25  pending  uid 1002  limit 5h
        job  d  0.25  pending  uid 1002  limit 30m
    "), @r"
    start d lab1[0]
    plan  b lab1[0] in 7210s by limit
    wait  b gpu_share_not_free need 0.75 of 1 free 0 on lab1 largest 40 GiB
    wait  c would_delay job 2
    ");
}
