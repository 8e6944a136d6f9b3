//! Guarantees and limits of cores and memory for projects, besides GPUs.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// The node has cores left: why does my job wait for quota?
#[test]
fn a_limit_of_cores_applies_even_if_cores_are_free() {
    assert_snapshot!(answer("
        node lab1  8 x h100  cpus 64
        project red   gpus 8  cpus-limit 8
        job  r  1 x 3   pending  cpus 4  project red  preemptible
        job  s  1       pending          project red
    "), @r"
    start r1 lab1[0]
    start r2 lab1[1]
    start s lab1[2]
    wait  r3 quota_project red limit 8 CPU cores held 8 asked 4
    ");
}

/// The node has memory left: why does my job wait for quota?
#[test]
fn a_limit_of_memory_applies_even_if_memory_is_free() {
    assert_snapshot!(answer("
        node lab1  8 x h100  mem 512G
        project red   gpus 8  mem-limit 100G
        job  r  1 x 3   pending  mem 40G  project red  preemptible
        job  s  1       pending  mem 20G  project red  preemptible
    "), @r"
    start r1 lab1[0]
    start r2 lab1[1]
    start s lab1[2]
    wait  r3 quota_project red limit 100 GiB memory held 100 GiB asked 40 GiB
    ");
}

/// What does a limit of zero mean?
#[test]
fn with_no_memory_only_jobs_that_ask_for_none_run() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project red   gpus 8  mem-limit 0
        job  r  1   pending  mem 1G  project red
        job  s  1   pending          project red
    "), @r"
    start s lab1[0]
    wait  r quota_project red limit 0 B memory held 0 B asked 1 GiB
    ");
}

/// Does a department's limit of memory apply to the projects below it?
#[test]
fn the_memory_limit_of_a_department_applies_to_all_projects_below_it() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project lab   mem-limit 100G
        project red   in lab  gpus 4
        project blue  in lab  gpus 4
        job  r  1 x 2   pending  mem 40G  project red   preemptible
        job  b  1 x 2   pending  mem 40G  project blue  preemptible
    "), @r"
    start r1 lab1[0]
    start b1 lab1[1]
    wait  r2 quota_project lab limit 100 GiB memory held 80 GiB asked 40 GiB
    wait  b2 quota_project lab limit 100 GiB memory held 80 GiB asked 40 GiB
    ");
}

/// Can memory be guaranteed?
#[test]
fn memory_can_be_guaranteed() {
    assert_snapshot!(answer("
        node lab1  8 x h100  mem 512G
        project red   gpus 8  mem 64G
        project blue  gpus 0
        job  r  1 x 3   pending  mem 32G  project red
        job  s  1       pending  mem 32G  project red  preemptible
    "), @r"
    start r1 lab1[0]
    start r2 lab1[1]
    start s lab1[2]
    wait  r3 quota_project red guaranteed 64 GiB memory held 64 GiB asked 32 GiB
    ");
}

/// Two projects ask for the last cores: which is first?
#[test]
fn a_job_within_its_guaranteed_cores_goes_before_an_older_borrower() {
    assert_snapshot!(answer("
        node lab1  cpus 8
        project red   cpus 4
        project blue  cpus 4
        job  r  0 x 2   pending 5h  cpus 4  project red   preemptible
        job  b  0       pending     cpus 4  project blue  preemptible
    "), @r"
    start r1 lab1
    start b lab1
    wait  r2 cpu_or_mem_short CPU cores need 4 free 0 on lab1
    ");
}

/// Others hold the cores that I am guaranteed: do I get them back?
#[test]
fn borrowed_cores_are_reclaimed() {
    assert_snapshot!(answer("
        node lab1  cpus 8
        project red   cpus 4
        project blue  cpus 4
        job  r  0       running lab1 5h  cpus 4  project red   preemptible
        job  s  0       running lab1 4h  cpus 4  project red   preemptible
        job  b  0       pending          cpus 4  project blue
    "), @r"
    evict s reclaim for b
    claim b lab1
    ");
}

/// Others hold the memory that I am guaranteed: do I get it back?
#[test]
fn borrowed_memory_is_reclaimed() {
    assert_snapshot!(answer("
        node lab1  4 x h100  mem 128G
        project red   gpus 2  mem 64G
        project blue  gpus 2  mem 64G
        job  r  1       running lab1[0] 5h  mem 64G  project red   preemptible
        job  s  1       running lab1[1] 4h  mem 32G  project red   preemptible
        job  t  0       running lab1 3h     mem 32G  project red   preemptible
        job  b  1       pending             mem 32G  project blue
    "), @r"
    evict t reclaim for b
    claim b lab1[2]
    ");
}

/// A project borrows cores but has GPUs within its quota: which of its jobs are evicted?
#[test]
fn only_jobs_over_quota_of_the_missing_resource_are_evicted() {
    assert_snapshot!(answer("
        node lab1  4 x h100  cpus 16
        project red   gpus 4  cpus 8
        project blue  gpus 0  cpus 8
        job  r  1       running lab1[0] 5h  cpus 8  project red   preemptible
        job  s  3       running lab1[1-3] 4h        project red   preemptible
        job  t  0       running lab1 3h     cpus 4  project red   preemptible
        job  b  0 x 2   pending             cpus 4  project blue
        job  c  0       pending             cpus 4  project blue
    "), @r"
    start b1 lab1
    evict t reclaim for b2
    claim b2 lab1
    wait  c quota_project blue guaranteed 8 CPU cores held 8 asked 4
    ");
}
