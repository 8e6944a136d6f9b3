//! A department is at its limit, and one of its projects has less than its guarantee.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// My department is at its limit, and another of its projects borrows: do I get my guarantee?
#[test]
fn at_the_limit_of_a_department_a_sibling_gives_back() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project lab   limit 4
        project red   in lab  gpus 2
        project blue  in lab  gpus 2
        job  r  1       running lab1[0] 5h  project red   preemptible
        job  s  1       running lab1[1] 4h  project red   preemptible
        job  t  1       running lab1[2] 3h  project red   preemptible
        job  u  1       running lab1[3] 2h  project red   preemptible
        job  b  2       pending             project blue
    "), @r"
    evict u reclaim for b
    evict t reclaim for b
    claim b lab1[4,5]
    ");
}

/// Does a project outside the department give back for the department's limit?
#[test]
fn projects_outside_the_department_give_nothing_for_its_limit() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project lab   limit 4
        project red   in lab  gpus 2
        project blue  in lab  gpus 2
        project east  gpus 2
        job  r  2       running lab1[0-1] 5h  project red
        job  s  1       running lab1[2] 4h    project red   preemptible
        job  t  1       running lab1[3] 3h    project red   preemptible
        job  e  4       running lab1[4-7] 9h  project east  preemptible
        job  b  1       pending               project blue
    "), @r"
    evict t reclaim for b
    claim b lab1[3]
    ");
}

/// No GPU is free either: which jobs are evicted?
#[test]
fn victims_free_both_the_limit_and_the_gpus() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  2 x a100
        project lab   limit 6
        project red   in lab  gpus 2
        project blue  in lab  gpus 4
        job  r  2       running lab1[0-1] 5h  project red
        job  s  1       running lab1[2] 4h    project red   preemptible
        job  t  1       running lab1[3] 4h    project red   preemptible
        job  u  1       running lab2[0] 3h    project red   preemptible
        job  v  1       running lab2[1] 2h    project red   preemptible
        job  b  h100:1  pending               project blue
    "), @r"
    evict t reclaim for b
    claim b lab1[3]
    ");
}

/// The only victim below the limit is on a node of no use to my job: is it evicted?
#[test]
fn for_a_limit_a_victim_may_be_on_any_node() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  4 x a100
        project lab   limit 4
        project red   in lab  gpus 2
        project blue  in lab  gpus 2
        job  r  2       running lab1[0-1] 5h  project red
        job  s  2       running lab2[0-1] 4h  project red   preemptible
        job  b  h100:2  pending               project blue
    "), @r"
    evict s reclaim for b
    claim b lab1[2,3]
    ");
}

/// My department is at its limit of cores: does a sibling project give back?
#[test]
fn at_a_limit_of_cores_a_sibling_gives_back() {
    assert_snapshot!(answer("
        node lab1  8 x h100  cpus 64
        project lab   cpus-limit 8
        project red   in lab  gpus 4  cpus 4
        project blue  in lab  gpus 4  cpus 4
        job  r  1       running lab1[0] 5h  cpus 4  project red   preemptible
        job  s  1       running lab1[1] 4h          project red   preemptible
        job  t  1       running lab1[2] 3h  cpus 4  project red   preemptible
        job  b  1       pending             cpus 4  project blue
    "), @r"
    evict t reclaim for b
    claim b lab1[3]
    ");
}

/// The limit is that of my own project: does another project give back?
#[test]
fn at_its_own_limit_a_project_waits() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project lab
        project red   in lab  gpus 2
        project blue  in lab  gpus 2  limit 1
        job  r  4       running lab1[0-3] 5h  project red   preemptible
        job  s  1       running lab1[4] 5h    project blue  preemptible
        job  b  1       pending               project blue
    "), @"wait  b quota_project blue limit 1 GPUs held 1 asked 1");
}

/// My sibling project borrows with a job that just started: is that job evicted at once?
#[test]
fn the_minimum_run_time_applies_at_a_limit_too() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project lab   limit 4
        project red   in lab  gpus 2  reclaim-after 1h
        project blue  in lab  gpus 2
        job  r  2       running lab1[0-1] 50m  project red  preemptible
        job  s  2       running lab1[2-3] 50m  project red  preemptible
        job  b  1       pending                project blue
    "), @"wait  b quota_project lab limit 4 GPUs held 4 asked 1");
}
