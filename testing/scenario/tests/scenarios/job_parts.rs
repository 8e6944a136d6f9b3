//! Jobs with parts: tasks of different shapes that start together, or none of them.

use gpool_scenario::answer;
use insta::assert_snapshot;

#[test]
fn all_parts_start_together_and_ranks_count_through() {
    assert_snapshot!(answer("
        node n1  2 x h100  cpus 8
        node n2  2 x h100  cpus 8
        node n3  0 x h100  cpus 8
        job  a  parts head:1xcpu,cpus=4+worker:2x2  pending
    "), @"start a n1 n1[0,1] n2[0,1]");
}

#[test]
fn no_part_starts_if_one_has_no_place_and_a_smaller_job_takes_its_room() {
    assert_snapshot!(answer("
        node n1  2 x h100  cpus 8
        node n2  2 x h100  cpus 8
        job  r  2                            running n1[0,1]
        job  a  parts head:1x1+worker:2x2    pending 1h
        job  b  1                            pending 1m
    "), @"
    start b n2[0]
    wait  a of worker nodes_not_free need 2 free 0 of 2
    ");
}

#[test]
fn the_planned_start_of_all_parts_is_kept_free() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        job  r  2                            running n1[0,1] 1h  limit 2h
        job  a  parts head:1x1+worker:1x2    pending 25h  limit 5h
        job  b  1                            pending 1m  limit 8h
        job  c  1                            pending 1m  limit 10m
    "), @"
    start b n2[1]
    start c n2[0]
    plan  a n2[0] n1[0,1] in 3610s by limit
    wait  a of head gpus_not_free need 1 free 0
    ");
}

#[test]
fn the_part_that_needs_most_of_a_node_is_placed_first() {
    assert_snapshot!(answer("
        node n1  1 x h100
        node n2  2 x h100
        job  a  parts small:1x1+large:1x2    pending
    "), @"start a n1[0] n2[0,1]");
}

#[test]
fn parts_may_share_a_node() {
    assert_snapshot!(answer("
        node n1  4 x h100
        job  a  parts head:1xcpu+one:1x1+two:1x2    pending
    "), @"start a n1 n1[2] n1[0,1]");
}

#[test]
fn jobs_over_quota_leave_for_all_parts_or_for_none() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        project p  gpus 4
        project q  gpus 0
        job  r  2                            running n1[0,1]  project q  preemptible
        job  s  2                            running n2[0,1]  project q  preemptible
        job  a  parts head:1x1+worker:1x2    pending  project p
    "), @"
    evict r reclaim for a
    evict s reclaim for a
    claim a n2[0] n1[0,1]
    ");
}

#[test]
fn no_job_leaves_if_one_part_has_no_place_even_then() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        project p  gpus 4
        project q  gpus 0
        job  r  2                            running n1[0,1]  project q  preemptible
        job  s  2                            running n2[0,1]  project p
        job  a  parts head:1x1+worker:1x2    pending  project p
    "), @"wait  a of worker gpus_not_free need 2 free 0");
}

#[test]
fn the_limit_of_a_project_counts_all_parts() {
    assert_snapshot!(answer("
        node n1  8 x h100
        project p  gpus 4 limit 4
        job  a  parts head:1x1+worker:2x2    pending  project p
        job  b  parts head:1x2+worker:1x2    pending  project p
    "), @"
    start b n1[0,1] n1[2,3]
    wait  a of worker quota_project p limit 4 GPUs held 4 asked 4
    ");
}

#[test]
fn a_job_with_parts_that_runs_holds_all_of_them() {
    assert_snapshot!(answer("
        node n1  2 x h100  cpus 8
        node n2  2 x h100  cpus 8
        job  a  parts head:1xcpu,cpus=8+worker:1x2  running n1 n2[0,1]
        job  b  0                                   pending  cpus 8
        job  c  2                                   pending
    "), @"
    start b n2
    start c n1[0,1]
    ");
}
