//! A job preempts less important running jobs of its project.

use gpool_scenario::answer;
use insta::assert_snapshot;

#[test]
fn a_less_important_preemptible_job_is_preempted() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  r  1  running lab1[0] 2h  preemptible  priority -5
        job  a  1  pending
    "), @"
    evict r preempt for a
    claim a lab1[0]
    ");
}

#[test]
fn a_non_preemptible_job_stays_regardless_of_its_priority() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  r  1  running lab1[0] 2h  priority -5
        job  a  1  pending
    "), @"wait  a gpus_not_free need 1 free 0");
}

#[test]
fn equal_priorities_do_not_preempt_each_other() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  r  1  running lab1[0] 2h  preemptible
        job  a  1  pending
    "), @"wait  a gpus_not_free need 1 free 0");
}

#[test]
fn the_lowest_priority_is_preempted_first() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  r  1  running lab1[0] 1h  preemptible  priority -2
        job  s  1  running lab1[1] 3h  preemptible  priority -5
        job  a  1  pending
    "), @"
    evict s preempt for a
    claim a lab1[1]
    ");
}

#[test]
fn of_equal_victims_the_one_that_loses_least_is_preempted() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  r  1  running lab1[0] 3h  preemptible  priority -5
        job  s  1  running lab1[1] 1h  preemptible  priority -5
        job  a  1  pending
    "), @"
    evict s preempt for a
    claim a lab1[1]
    ");
}

#[test]
fn several_jobs_are_preempted_for_a_larger_one_on_one_node() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  1  running lab1[0] 3h  preemptible  priority -5
        job  s  1  running lab2[0] 1h  preemptible  priority -5
        job  t  1  running lab2[1] 1h  preemptible  priority -5
        job  u  1  running lab1[1] 1h
        job  a  2  pending
    "), @"
    evict t preempt for a
    evict s preempt for a
    claim a lab2[0,1]
    ");
}

#[test]
fn priorities_do_not_count_between_projects() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1  running lab1[0] 2h  project red   preemptible  priority -5
        job  b  1  running lab1[1] 2h  project blue  preemptible
        job  c  1  pending  project blue  preemptible  priority 5
    "), @"
    evict b preempt for c
    claim c lab1[1]
    ");
}

#[test]
fn a_project_at_its_limit_preempts_its_own_jobs() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red  gpus 1  limit 1
        job  r  1  running lab1[0] 2h  project red  preemptible  priority -5
        job  a  1  pending  project red
    "), @"
    evict r preempt for a
    claim a lab1[0]
    ");
}

#[test]
fn a_job_that_has_just_started_is_not_preempted() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        project red  gpus 1  preempt-after 3h
        job  r  1  running lab1[0] 2h  project red  preemptible  priority -5
        job  a  1  pending  project red
    "), @"wait  a gpus_not_free need 1 free 0");
}

#[test]
fn no_job_is_preempted_where_capacity_is_free() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  r  1  running lab1[0] 2h  preemptible  priority -5
        job  a  1  pending
    "), @"start a lab1[1]");
}

#[test]
fn an_order_without_priority_preempts_no_job() {
    assert_snapshot!(answer("
        policy preset fifo
        node lab1  1 x h100
        job  r  1  running lab1[0] 2h  preemptible  priority -5
        job  a  1  pending
    "), @"wait  a gpus_not_free need 1 free 0");
}

#[test]
fn by_priority_alone_all_jobs_are_of_one_project() {
    assert_snapshot!(answer("
        policy preset priority
        node lab1  1 x h100
        project red
        project blue
        job  r  1  running lab1[0] 2h  project red  preemptible  priority -5
        job  a  1  pending  project blue
    "), @"
    evict r preempt for a
    claim a lab1[0]
    ");
}

#[test]
fn a_preempted_job_frees_capacity_for_a_third_once_it_has_left() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  r  2  running lab1[0,1] 2h  preemptible  priority -5
        job  a  1  pending
        job  b  1  pending  priority -5
    "), @"
    evict r preempt for a
    claim a lab1[0]
    plan  b lab1[1] in 10s by limit
    wait  b gpus_not_free need 1 free 0
    ");
}

#[test]
fn shares_are_preempted_for_a_whole_gpu() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  r  0.5  running lab1[0] 2h  preemptible  priority -5
        job  s  0.5  running lab1[0] 2h  preemptible  priority -5
        job  a  1    pending
    "), @"
    evict s preempt for a
    evict r preempt for a
    claim a lab1[0]
    ");
}

/// Two shares need the room of two others on one device: does a later job take the memory that the
/// second one needs?
#[test]
fn shares_of_one_device_are_preempted_for_several_jobs_at_once() {
    assert_snapshot!(answer("
        node lab1  1 x h100  mem 64G
        job  r     0.5  running lab1[0] 2h  preemptible  priority -5
        job  s     0.5  running lab1[0] 2h  preemptible  priority -5
        job  a     0.5  pending  mem 24G
        job  b     0.5  pending  mem 24G
        job  late  0    pending  mem 24G  priority -5
    "), @"
    evict s preempt for a
    claim a lab1[0]
    evict r preempt for b
    claim b lab1[0]
    wait  late cpu_or_mem_short memory need 24 GiB free 16 GiB on lab1
    ");
}

/// One victim makes room for two shares.
#[test]
fn a_second_share_waits_for_what_the_victim_of_the_first_leaves() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        job  r  0.5  running lab1[0] 2h  preemptible  priority -5
        job  s  0.5  running lab1[0] 2h  preemptible  priority -5
        job  a  0.25  pending
        job  b  0.25  pending
    "), @"
    evict s preempt for a
    claim a lab1[0]
    plan  b lab1[0] in 10s by limit
    wait  b gpu_share_not_free need 0.25 of 1 free 0 on lab1 largest 0 B
    ");
}

/// Is a job evicted although another one is already leaving?
#[test]
fn no_job_is_preempted_while_another_is_leaving() {
    assert_snapshot!(answer("
        node lab1  1 x h100  cpus 8
        node lab2  1 x h100
        job  r    1  stopping lab1[0]
        job  low  1  running lab2[0] 1h  preemptible  priority -5
        job  cpu  0  running lab1 1h     preemptible  priority -5
        job  a    1  pending
    "), @"
    plan  a lab1[0] in 10s by limit
    wait  a gpus_not_free need 1 free 0
    ");
}

/// My project is at its limit: is a job of another project evicted for mine?
#[test]
fn other_projects_are_not_preempted_for_the_own_limit() {
    assert_snapshot!(answer("
        policy preset priority
        node lab1  2 x h100
        project red   limit 1
        project blue
        job  r  1  running lab1[0] 2h  project red   priority 1
        job  b  1  running lab1[1] 2h  project blue  preemptible
        job  a  1  pending             project red   priority 1
    "), @"wait  a quota_project red limit 1 GPUs held 1 asked 1");
}

/// A planned start counts on the end of my job: is my job evicted for another one that runs longer?
#[test]
fn a_job_is_not_preempted_if_a_planned_start_counts_on_its_end() {
    let cluster = |limit: &str| {
        answer(&format!(
            "
        policy  share users  planned 2
        node lab1  2 x h100
        job  old  2  running lab1[0,1] 2h  limit {limit}  priority -1  preemptible  uid 1001
        job  a    1  pending  priority -1  uid 1002
        job  b    1  pending  uid 1001
    "
        ))
    };
    assert_snapshot!(cluster("7191s"), @"
    plan  a lab1[0] in 1s by limit
    plan  b lab1[1] in 1s by limit
    wait  a gpus_not_free need 1 free 0
    wait  b gpus_not_free need 1 free 0
    ");
    // Once evicted, the job ends long before its limit.
    assert_snapshot!(cluster("3h"), @"
    evict old preempt for b
    claim b lab1[1]
    plan  a lab1[0] in 3610s by limit
    wait  a gpus_not_free need 1 free 0
    ");
}
