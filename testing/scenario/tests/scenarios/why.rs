//! Every reason why a job waits, the decisive one first, after the plan was applied.

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
fn the_gpu_is_in_unmanaged_use() {
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
fn an_admin_excluded_the_gpus() {
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
fn jobs_ahead_are_counted_over_all_shapes() {
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
fn the_nodes_with_the_gpus_are_not_connected() {
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

/// Which jobs before mine in the queue could take the devices that it waits for?
#[test]
fn jobs_that_can_only_use_other_devices_do_not_go_first() {
    assert_snapshot!(reasons("
        node lab1  1 x h100 + 1 x a100  cpus 8
        job  h  h100:1  running lab1[0]
        job  a  a100:1  running lab1[1]
        job  b  a100:1  pending 5m
        job  c  h100:1  pending 4m
        job  d  a100:1  pending 3m  cpus 8
        job  e  h100:1  pending 2m  cpus 1
    "), @r"
    b   gpus_not_free need 1 free 0
    c   gpus_not_free need 1 free 0
    d   gpus_not_free need 1 free 0
        ahead_in_order 1 ahead, last job 3
    e   gpus_not_free need 1 free 0
        ahead_in_order 2 ahead, last job 5
    ");
}

/// The whole node is drained: why does the reason not repeat for each GPU?
#[test]
fn a_drained_node_is_named_once() {
    assert_snapshot!(reasons("
        node lab1  4 x h100
        drain lab1
        job  a  1  pending
    "), @"a   node_drained lab1");
}

/// Some GPUs are busy and some are reserved: which of them delay my job?
#[test]
fn reservations_are_named_beside_what_is_short() {
    assert_snapshot!(reasons("
        node lab1  4 x h100
        job  a  2  running lab1[0,1]
        job  b  4  pending
        reserve r1  lab1[2,3]  for uid 1001  begun 1h
    "), @r"
    b   gpus_not_free need 4 free 2
        reserved_for_other r1 keeps 2 on lab1
    ");
}

/// Jobs get only reserved GPUs, and others use theirs: which reason does my job have?
#[test]
fn with_preset_static_busy_gpus_do_not_matter() {
    assert_snapshot!(reasons("
        policy preset static
        node lab1  1 x h100
        job  a  1  running lab1[0]  uid 1001
        job  b  1  pending  uid 1002
        reserve r1  lab1[0]  for uid 1001  begun 1h
    "), @r"
    b   not_reserved reserved 0
        reserved_for_other r1 keeps 1 on lab1
    ");
}
