//! The choice of a node by the capacity that stays useful for other jobs.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// No other job is there: where does my job go?
#[test]
fn without_other_jobs_the_fullest_node_is_used() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        node lab2  4 x h100
        job  a  1  pending
    "), @"start a lab2[0]");
}

/// A node has free GPUs but too few cores for other jobs: does my small job go there?
#[test]
fn capacity_of_no_use_to_others_is_used_first() {
    assert_snapshot!(answer("
        node lab1  4 x h100  cpus 32
        node lab2  4 x h100  cpus 20
        job  b1  1  running lab1[0]  cpus 8
        job  b2  1  running lab1[1]  cpus 8
        job  c1  1  running lab2[0]  cpus 8
        job  c2  1  running lab2[1]  cpus 8
        job  a   1  pending  cpus 4
    "), @"start a lab2[2]");
}

/// Other jobs take whole nodes of eight GPUs: which node does my small job break into?
#[test]
fn nodes_that_large_jobs_need_come_last() {
    assert_snapshot!(answer("
        node lab1   8 x h100
        node lab2   8 x h100
        node lab3  10 x h100
        job  big  8  running lab1[0,1,2,3,4,5,6,7]
        job  one  1  running lab3[0]
        job  a    1  pending
    "), @"start a lab3[1]");
}

/// Two GPUs have free memory for my share: on which one does it start?
#[test]
fn a_share_goes_where_it_leaves_no_fragment() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        node lab2  1 x h100
        job  half  0.5  running lab1[0]
        job  more  0.6  running lab2[0]
        job  a     0.4  pending
    "), @"start a lab2[0]");
}

/// The remaining capacity is of no use to other jobs: does my job still start?
#[test]
fn a_job_that_fits_always_starts() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        job  big  7  running lab1[0,1,2,3,4,5,6]
        job  a    1  pending
    "), @"start a lab1[7]");
}

/// Other jobs have shares of two GPUs each: does mine go beside them?
#[test]
fn shares_of_several_gpus_go_beside_others() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  2 x h100
        job  b  2@0.5  running lab1[0,1]
        job  a  2@0.5  pending
    "), @"start a lab1[0,1]");
}

/// Jobs end within the hour on one node and tomorrow on the other: where does my long job go?
#[test]
fn long_work_goes_beside_long_work() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  4 x h100
        job  s1  1  running lab1[0]  limit 1h
        job  s2  1  running lab1[1]  limit 1h
        job  l1  1  running lab2[0]  limit 24h
        job  l2  1  running lab2[1]  limit 1h
        job  a   1  pending  limit 8h
    "), @"start a lab2[2]");
}

/// The same, but my job ends before the others: does it go to the same node as before?
#[test]
fn short_work_goes_anywhere() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  4 x h100
        job  s1  1  running lab1[0]  limit 1h
        job  l1  1  running lab2[0]  limit 24h
        job  a   1  pending  limit 10min
    "), @"start a lab1[1]");
}

/// A node's only job has no time limit: does my job go beside it?
#[test]
fn a_job_without_a_limit_may_run_for_ever() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  4 x h100
        job  s1  1  running lab1[0]  limit 1h
        job  l1  1  running lab2[0]
        job  a   1  pending  limit 8h
    "), @"start a lab2[1]");
}

/// My job has no limit: do the ends of other jobs matter?
#[test]
fn without_a_limit_the_ends_of_others_do_not_matter() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  4 x h100
        job  s1  1  running lab1[0]  limit 1h
        job  l1  1  running lab2[0]  limit 24h
        job  a   1  pending
    "), @"start a lab1[1]");
}
