//! Why does my job wait? Every reason, the decisive one first, after the plan was carried out.

use gpool_scenario::reasons;
use insta::assert_snapshot;

#[test]
fn the_devices_are_busy_and_others_go_first() {
    assert_snapshot!(reasons("
        node lab1  2 x h100
        job  a  1      running lab1[0]
        job  b  1 x 2  pending 5m
        job  c  2      pending 9m
    "), @r"
    b2  gpus_not_free need 1 free 0
    c   gpus_not_free need 2 free 0
        ahead_in_order 1 ahead, last job 3
    ");
}

#[test]
fn somebody_else_uses_the_device() {
    assert_snapshot!(reasons("
        node lab1  2 x h100
        gpu  lab1[0]  unmanaged by bob
        gpu  lab1[1]  unhealthy
        job  a  1  pending
    "), @r"
    a   gpus_not_free need 1 free 0
        unmanaged_process lab1[0] pid 4711 of bob
        gpu_unhealthy lab1[1] Xid 79
    ");
}

#[test]
fn an_admin_keeps_the_devices() {
    assert_snapshot!(reasons("
        node lab1  1 x h100 + 1 x a100
        gpu  lab1[0]  forbidden
        gpu  lab1[1]  mig
        job  a  1       pending
        job  b  a100:1  pending 1m
    "), @r"
    a   gpus_not_free need 1 free 0
        gpu_not_allowed lab1[0]
        gpu_unhealthy lab1[1] it is divided into MIG instances
        ahead_in_order 1 ahead, last job 2
    b   gpus_not_free need 1 free 0
        gpu_unhealthy lab1[1] it is divided into MIG instances
    ");
}

#[test]
fn it_is_held() {
    assert_snapshot!(reasons("
        node lab1  1 x h100
        job  a  1  held
        job  b  1  held by admin
    "), @r"
    a   held_by_user
    b   held_by_admin
    ");
}

#[test]
fn it_waits_for_another_job() {
    assert_snapshot!(reasons("
        node lab1  1 x h100
        job  a  1  running lab1[0]
        job  b  0  held
        job  c  1  waiting  after a,end:b
    "), @r"
    b   held_by_user
    c   waits_for_job job 1
        waits_for_job job 2
    ");
}

#[test]
fn cores_are_short() {
    assert_snapshot!(reasons("
        node lab1  2 x h100  cpus 4.5
        job  a  1  running lab1[0]  cpus 2
        job  b  1  pending  cpus 4
    "), @"b   cpu_or_mem_short CPU cores need 4 free 2.5 on lab1");
}

#[test]
fn a_running_job_has_nothing_to_wait_for() {
    assert_snapshot!(reasons("
        node lab1  1 x h100
        job  a  1  pending
    "), @"");
}

#[test]
fn who_is_ahead_is_counted_over_all_kinds_of_jobs() {
    assert_snapshot!(reasons("
        node lab1  1 x h100
        job  a  1  running lab1[0]
        job  b  1 x 3  pending 5m
        job  c  h100:1  pending 6m
        job  d  2  pending 25h
        job  e  1  pending 1m
    "), @r"
    b1  gpus_not_free need 1 free 0
        ahead_in_order 2 ahead, last job 5
    b2  gpus_not_free need 1 free 0
        ahead_in_order 3 ahead, last job 2
    b3  gpus_not_free need 1 free 0
        ahead_in_order 4 ahead, last job 3
    c   gpus_not_free need 1 free 0
        ahead_in_order 1 ahead, last job 6
    d   gpu_model_missing asked 2 most 1
    e   gpus_not_free need 1 free 0
        ahead_in_order 5 ahead, last job 4
    ");
}

#[test]
fn nodes_that_have_the_devices_do_not_answer() {
    assert_snapshot!(reasons("
        node lab1  4 x h100  unreachable
        node lab2  1 x h100
        node lab3  1 x a100  unreachable
        job  a  1  running lab2[0]
        job  b  h100:1  pending
        job  c  h100:2  pending
    "), @r"
    b   gpus_not_free need 1 free 0
        agent_unreachable lab1
    c   agent_unreachable lab1
        ahead_in_order 1 ahead, last job 2
    ");
}
