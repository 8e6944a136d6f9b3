//! MIG instances: which jobs get them, and how they count.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// How do I ask for a MIG instance?
#[test]
fn an_instance_is_asked_for_by_its_profile_with_or_without_the_model() {
    assert_snapshot!(answer("
        node lab1  1 x h100/3g.40gb+2g.20gb+1g.10gb+1g.10gb
        job  a  1g.10gb       pending
        job  b  h100-3g:1     pending
        job  c  2g.20gb:1     pending
        job  d  mig:1         pending
    "), @r"
    start a lab1[1002]
    start c lab1[1001]
    start b lab1[1000]
    start d lab1[1003]
    ");
}

/// Which of several equal instances do I get?
#[test]
fn the_lowest_index_is_given_first() {
    assert_snapshot!(answer("
        node lab1  2 x h100/1g.10gb+1g.10gb
        job  a  1g.10gb  running lab1[1000]
        job  b  1g.10gb x 2  pending
    "), @r"
    start b1 lab1[1001]
    start b2 lab1[2000]
    ");
}

/// Which instance do I get if I do not name a size?
#[test]
fn a_request_without_a_size_gets_the_smallest_instance_that_fits() {
    assert_snapshot!(answer("
        node lab1  1 x h100/3g.40gb+1g.10gb+1g.10gb
        node lab2  1 x h100/1g.10gb
        job  a  mig:1      pending
        job  b  mig:2      pending
        job  c  mig:1      pending
    "), @r"
    start a lab2[1000]
    start c lab1[1001]
    start b lab1[1000,1002]
    ");
}

/// Do the nodes of a gang get the smallest instances too?
#[test]
fn all_nodes_of_a_gang_get_the_smallest_instances() {
    assert_snapshot!(answer("
        node lab1  1 x h100/3g.40gb+1g.10gb
        node lab2  1 x h100/3g.40gb+1g.10gb
        node lab3  1 x h100/3g.40gb
        job  a  mig:1  nodes 2 each 1  pending
    "), @r"
    start a lab1[1001] lab2[1001]
    ");
}

/// Can one job have two instances?
#[test]
fn several_instances_of_a_node_are_given_together() {
    assert_snapshot!(answer("
        node lab1  1 x h100/1g.10gb+1g.10gb+1g.10gb
        node lab2  1 x h100/3g.40gb+1g.10gb
        job  a  1g.10gb  running lab1[1001]
        job  b  1g.10gb:2  pending
        job  c  1g.10gb:2  pending
    "), @r"
    start b lab1[1000,1002]
    wait  c gpus_not_free need 2 free 1
    ");
}

/// Does a request for a whole GPU ever get an instance?
#[test]
fn a_request_for_a_gpu_a_share_or_memory_gets_no_instance() {
    assert_snapshot!(answer("
        node lab1  1 x h100-80g/3g.40gb+3g.40gb
        node lab2  1 x h100-80g
        job  r  1            running lab2[0]
        job  a  h100:1       pending
        job  b  40G..:1      pending
        job  c  0.5          pending
        job  d  1@20G        pending
        job  e  80g:1        pending
    "), @r"
    wait  c gpu_share_not_free need 0.5 of 1 free 0 on lab1 largest 0 B
    wait  a gpus_not_free need 1 free 0
    wait  b gpus_not_free need 1 free 0
    wait  d gpu_share_not_free need 20G of 1 free 0 on lab1 largest 0 B
    wait  e gpus_not_free need 1 free 0
    ");
}

/// My instances are all taken: what does the wait show?
#[test]
fn the_wait_for_an_instance_shows_how_many_are_free() {
    assert_snapshot!(answer("
        node lab1  1 x h100/3g.40gb+1g.10gb+1g.10gb
        job  r  1g.10gb  running lab1[1001]
        job  a  1g.10gb:2  pending
        job  b  2g.20gb    pending
    "), @r"
    wait  a gpus_not_free need 2 free 1
    wait  b gpu_model_missing asked 2g.20gb:1 most 0
    ");
}

/// My project is guaranteed one GPU: how many instances is that?
#[test]
fn instances_count_as_their_part_of_a_gpu() {
    assert_snapshot!(answer("
        node lab1  1 x h100/3g.40gb+3g.40gb
        node lab2  1 x h100/1g.10gb+1g.10gb+1g.10gb
        project red   gpus 0.7
        project blue  gpus 1
        job  a  3g.40gb    pending  project red
        job  b  1g.10gb x 3  pending  project red
    "), @r"
    start b1 lab2[1000]
    start b2 lab2[1001]
    start b3 lab2[1002]
    wait  a quota_project red guaranteed 0.587 GPUs held 0.426 asked 0.5
    ");
}

/// May a project with a limit have one more instance?
#[test]
fn a_limit_counts_instances_as_their_part() {
    assert_snapshot!(answer("
        node lab1  1 x h100/1g.10gb+1g.10gb+1g.10gb+1g.10gb
        project red  gpus 0.3  limit 0.3
        job  r  1g.10gb  running lab1[1000]  project red
        job  a  1g.10gb x 2  pending  project red
    "), @r"
    start a1 lab1[1001]
    wait  a2 quota_project red limit 0.3 GPUs held 0.284 asked 0.142
    ");
}

/// Others borrow an instance of mine: do I get it back, and no more than I need?
#[test]
fn a_borrowed_instance_is_reclaimed() {
    assert_snapshot!(answer("
        node lab1  1 x h100/3g.40gb+1g.10gb+1g.10gb
        project red   gpus 0.2
        project blue  gpus 0.5
        job  r  3g.40gb  running lab1[1000] 2h  project red  preemptible
        job  s  1g.10gb  running lab1[1001] 2h  project red  preemptible
        job  b  3g.40gb  pending                project blue
    "), @r"
    evict r reclaim for b
    claim b lab1[1000]
    ");
}

/// Some GPUs are divided: how is the cluster shared?
#[test]
fn a_divided_gpu_counts_as_its_instances_in_the_capacity() {
    assert_snapshot!(answer("
        node lab1  1 x h100/3g.40gb+3g.40gb
        node lab2  1 x h100
        project red   gpus 0
        project blue  gpus 0
        job  r  1        running lab2[0] 2h  project red  preemptible
        job  s  3g.40gb  running lab1[1000] 2h  project red  preemptible
        job  t  3g.40gb  running lab1[1001] 2h  project red  preemptible
        job  b  3g.40gb x 2  pending  project blue  preemptible
    "), @r"
    evict t reclaim for b1
    claim b1 lab1[1001]
    evict s reclaim for b2
    claim b2 lab1[1000]
    ");
}

/// Does a job on an instance go before one that wants a whole GPU?
#[test]
fn an_instance_is_smaller_than_a_gpu_in_the_order() {
    assert_snapshot!(answer("
        node lab1  1 x h100 + 1 x h100/1g.10gb  cpus 4
        job  whole  1        pending  cpus 4
        job  part   1g.10gb  pending  cpus 4
    "), @r"
    start part lab1[2000]
    wait  whole cpu_or_mem_short CPU cores need 4 free 0 on lab1
    ");
}

/// Does a quota of one model count its instances?
#[test]
fn an_instance_counts_for_the_model_of_its_gpu() {
    assert_snapshot!(answer("
        node lab1  1 x h100/1g.10gb+1g.10gb
        project red   gpus 1  limit-of h100 0.2
        job  a  1g.10gb x 2  pending  project red
    "), @r"
    start a1 lab1[1000]
    wait  a2 quota_project red limit 0.2 H100 GPUs held 0.142 asked 0.142
    ");
}

/// Other jobs have a time limit: does my job for an instance get a planned start?
#[test]
fn a_job_for_an_instance_gets_a_planned_start() {
    assert_snapshot!(answer("
        node lab1  1 x h100/3g.40gb+1g.10gb
        job  r  1g.10gb  running lab1[1001] 1h  limit 3h
        job  a  1g.10gb  pending
    "), @r"
    plan  a lab1[1001] in 7210s by limit
    wait  a gpus_not_free need 1 free 0
    ");
}

/// I drain a divided GPU: do jobs still get its instances?
#[test]
fn a_drain_of_a_gpu_drains_its_instances() {
    assert_snapshot!(answer("
        node  lab1  2 x h100/1g.10gb
        drain lab1[0]
        job  a  1g.10gb x 2  pending
    "), @r"
    start a1 lab1[2000]
    wait  a2 gpus_not_free need 1 free 0
    ");
}

/// Only some GPUs may be used: what about their instances?
#[test]
fn an_instance_of_an_excluded_gpu_gets_no_jobs() {
    assert_snapshot!(answer("
        node  lab1  1 x h100/1g.10gb + 1 x h100/3g.40gb
        gpu   lab1[0,1000]  forbidden
        job   a  mig x 2  pending
    "), @r"
    start a1 lab1[2000]
    wait  a2 gpus_not_free need 1 free 0
    ");
}

/// A cap allows one user half a GPU: how do my instances count?
#[test]
fn a_user_cap_counts_instances_by_their_size() {
    assert_snapshot!(answer("
        cap   all  gpus 0.5
        node  lab1  1 x h100/1g.10gb+1g.10gb+1g.10gb+1g.10gb
        job   r  mig:2  running lab1[1000,1001]
        job   a  1g.10gb x 2  pending
    "), @r"
    start a1 lab1[1002]
    wait  a2 quota_user gpus used 426 most 500
    ");
}
