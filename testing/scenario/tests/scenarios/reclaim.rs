//! Borrowed capacity is reclaimed for projects that are entitled to it: which jobs go first, and
//! which never.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// My quota is lent to others: how do I get it back?
#[test]
fn a_project_under_its_guarantee_reclaims_from_borrowers() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1   running lab1[0] 2h  project red  preemptible
        job  s  1   running lab1[1] 1h  project red  preemptible
        job  b  1   pending             project blue
    "), @r"
    evict s reclaim for b
    claim b lab1[1]
    ");
}

/// Can I lose what my project is guaranteed?
#[test]
fn jobs_within_the_guarantee_stay() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 2
        project blue  gpus 0
        job  r  1   running lab1[0] 2h  project red  preemptible
        job  s  1   running lab1[1] 1h  project red  preemptible
        job  b  1   pending             project blue  preemptible
    "), @"wait  b gpus_not_free need 1 free 0");
}

/// Can a non-preemptible job be evicted?
#[test]
fn non_preemptible_jobs_stay() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1   running lab1[0] 2h  project red
        job  s  1   running lab1[1] 1h  project red
        job  b  1   pending             project blue
    "), @"wait  b gpus_not_free need 1 free 0");
}

/// May a project reclaim more than its share?
#[test]
fn a_job_that_would_exceed_its_project_s_share_reclaims_nothing() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  2   running lab1[0,1] 1h  project red  preemptible
        job  s  2   running lab1[2,3] 1h  project red  preemptible
        job  b  4   pending               project blue  preemptible
    "), @"wait  b gpus_not_free need 4 free 0");
}

/// Which of the jobs of a borrower is evicted first?
#[test]
fn lower_priorities_are_evicted_before_newer_jobs() {
    assert_snapshot!(answer("
        node lab1  3 x h100
        project red   gpus 1
        project blue  gpus 1
        job  low  1   running lab1[0] 9h  project red  preemptible  priority -5
        job  r    1   running lab1[1] 2h  project red  preemptible
        job  s    1   running lab1[2] 1h  project red  preemptible
        job  b    1   pending             project blue
    "), @r"
    evict low reclaim for b
    claim b lab1[0]
    ");
}

/// Of equal jobs, which is evicted first?
#[test]
fn the_job_that_loses_the_least_work_is_evicted_first() {
    assert_snapshot!(answer("
        node lab1  3 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r    1   running lab1[0] 9h  project red  preemptible
        job  s    1   running lab1[1] 10m  project red  preemptible  submitted 3h
        job  t    1   running lab1[2] 2h  project red  preemptible  submitted 2h
        job  b    1   pending             project blue
    "), @r"
    evict s reclaim for b
    claim b lab1[1]
    ");
}

/// Two projects borrow: which one gives back?
#[test]
fn the_project_furthest_over_its_share_gives_back_first() {
    assert_snapshot!(answer("
        node lab1  6 x h100
        project red    gpus 1
        project green  gpus 1
        project blue   gpus 2
        job  r  1   running lab1[0] 2h  project red  preemptible
        job  s  1   running lab1[1] 2h  project red  preemptible
        job  t  1   running lab1[2] 2h  project red  preemptible
        job  u  1   running lab1[3] 2h  project red  preemptible
        job  g  1   running lab1[4] 1h  project green  preemptible
        job  h  1   running lab1[5] 1h  project green  preemptible
        job  b  1   pending             project blue
    "), @r"
    evict u reclaim for b
    claim b lab1[3]
    ");
}

/// One GPU is needed: is a job of eight GPUs evicted for it?
#[test]
fn no_large_job_is_evicted_where_a_small_one_is_enough() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  1 x h100
        project red   gpus 0
        project blue  gpus 1
        job  big    4   running lab1[0-3] 1m  project red  preemptible
        job  small  1   running lab2[0] 5h  project red  preemptible
        job  b      1   pending             project blue
    "), @r"
    evict small reclaim for b
    claim b lab2[0]
    ");
}

/// How many jobs are evicted for a large one?
#[test]
fn several_small_jobs_are_evicted_for_a_large_one_and_no_more_than_necessary() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        node lab2  4 x h100
        project red   gpus 0
        project blue  gpus 4
        job  a  1   running lab1[0] 1h  project red  preemptible
        job  c  1   running lab1[1] 1h  project red  preemptible
        job  d  1   running lab1[2] 1h  project red  preemptible
        job  e  1   running lab2[0] 1h  project red  preemptible
        job  f  2   running lab2[1,2] 1h  project red  preemptible
        job  b  3   pending             project blue
    "), @r"
    evict f reclaim for b
    claim b lab2[1,2,3]
    ");
}

/// A job is ending anyway: is another one evicted meanwhile?
#[test]
fn no_job_is_evicted_while_another_is_ending() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1   stopping lab1[0] 2h  project red  preemptible
        job  s  1   running lab1[1] 1h  project red  preemptible
        job  t  1   pending     project red  preemptible
        job  b  1   pending             project blue
    "), @r"
    plan  b lab1[0] in 10s by limit
    wait  b gpus_not_free need 1 free 0
    wait  t gpus_not_free need 1 free 0
    ");
}

/// Is a job protected that has just started?
#[test]
fn a_job_is_protected_for_its_project_s_minimum_run_time() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 0  reclaim-after 30m
        project blue  gpus 1
        job  r  1   running lab1[0] 10m  project red  preemptible
        job  s  1   running lab1[1] 40m  project red  preemptible  priority 5
        job  b  1   pending             project blue
    "), @r"
    evict s reclaim for b
    claim b lab1[1]
    ");
}

/// I borrowed all idle capacity, and another project wants some: do I keep it all?
#[test]
fn unguaranteed_capacity_is_divided_again_when_another_project_wants_it() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 0
        project blue  gpus 0
        job  r  1   running lab1[0] 4h  project red  preemptible
        job  s  1   running lab1[1] 3h  project red  preemptible
        job  t  1   running lab1[2] 2h  project red  preemptible
        job  u  1   running lab1[3] 1h  project red  preemptible
        job  b  1 x 4   pending         project blue  preemptible
    "), @r"
    evict u reclaim for b1
    claim b1 lab1[3]
    evict t reclaim for b2
    claim b2 lab1[2]
    wait  b3 ×2 gpus_not_free need 1 free 0
    ");
}

/// Are shares of GPUs reclaimed as well?
#[test]
fn shares_of_gpus_are_reclaimed_like_whole_ones() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        project red   gpus 0.5
        project blue  gpus 0.5
        job  r  0.5   running lab1[0] 4h  project red  preemptible
        job  s  0.5   running lab1[0] 3h  project red  preemptible
        job  b  0.5   pending             project blue
    "), @r"
    evict s reclaim for b
    claim b lab1[0]
    ");
}

/// No project is guaranteed cores, and cores are short: is anything reclaimed?
#[test]
fn unguaranteed_resources_are_not_reclaimed() {
    assert_snapshot!(answer("
        node lab1  2 x h100  cpus 8
        project red   gpus 0
        project blue  gpus 1
        job  r  1   running lab1[0] 4h  project red  preemptible  cpus 8
        job  b  1   pending             project blue  cpus 4
    "), @"wait  b cpu_or_mem_short CPU cores need 4 free 0 on lab1");
}

/// Is a department responsible for what its projects borrow?
#[test]
fn between_departments_the_usage_of_the_whole_department_counts() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project east  gpus 2
        project west  gpus 2
        project e1  in east  gpus 1
        project e2  in east  gpus 1
        project w1  in west  gpus 2
        job  a  1   running lab1[0] 4h  project e1  preemptible
        job  c  1   running lab1[1] 3h  project e1  preemptible
        job  d  1   running lab1[2] 2h  project e1  preemptible
        job  e  1   running lab1[3] 1h  project e2  preemptible
        job  b  2   pending             project w1
    "), @r"
    evict d reclaim for b
    evict c reclaim for b
    claim b lab1[1,2]
    ");
}

/// My non-preemptible jobs hold more than my guarantee: is the rest of my work protected?
#[test]
fn non_preemptible_jobs_use_up_the_guarantee() {
    assert_snapshot!(answer("
        node lab1  3 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  2   running lab1[0,1] 2h  project red
        job  s  1   running lab1[2] 1h    project red  preemptible
        job  b  1   pending               project blue
    "), @"
    evict s reclaim for b
    claim b lab1[2]
    ");
}

/// My two halves run, and another project wants the GPU: are they evicted again and again?
#[test]
fn running_halves_count_like_waiting_halves() {
    assert_snapshot!(answer("
        node lab1  1 x h100
        project red   gpus 2
        project blue  gpus 3
        job  r  0.5  running lab1[0] 1h  project red   preemptible
        job  s  0.5  running lab1[0] 1h  project red   preemptible
        job  b  1    pending             project blue  preemptible
    "), @"
    wait  b gpus_not_free need 1 free 0
    ");
}

/// A job of mine would be preempted: may mine also take an idle GPU that another project is owed?
#[test]
fn a_preemption_does_not_open_access_to_gpus_owed_to_others() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1  running lab1[0] 2h  project red   preemptible  priority -5
        job  a  2  pending 1h          project red   preemptible  priority 5
        job  b  1  pending             project blue
    "), @"
    start b lab1[1]
    wait  a gpus_not_free need 2 free 0
    ");
}

/// May my project borrow more by a preemption while another project is owed the place?
#[test]
fn no_job_is_preempted_to_borrow_what_another_project_is_owed() {
    assert_snapshot!(answer("
        node lab1  2 x h100  cpus 4
        project red   gpus 1
        project blue  gpus 1
        job  r  1  running lab1[0] 2h  cpus 4  project red   preemptible
        job  a  2  pending             cpus 4  project red   preemptible  priority 5
        job  b  1  pending             cpus 4  project blue  preemptible
    "), @r"
    wait  b cpu_or_mem_short CPU cores need 4 free 0 on lab1
    wait  a gpus_not_free need 2 free 1
    ");
}

/// And while no other project waits?
#[test]
fn a_job_is_preempted_to_borrow_what_no_other_project_is_owed() {
    assert_snapshot!(answer("
        node lab1  2 x h100  cpus 4
        project red   gpus 1
        project blue  gpus 1
        job  r  1  running lab1[0] 2h  cpus 4  project red  preemptible
        job  a  2  pending             cpus 4  project red  preemptible  priority 5
    "), @r"
    evict r preempt for a
    claim a lab1[0,1]
    ");
}

/// A planned start will put a department over its guarantee: does its borrower leave before that?
#[test]
fn a_planned_start_does_not_make_earlier_work_of_its_department_a_loan() {
    assert_snapshot!(answer("
        node lab1  1 x a100
        node lab2  2 x a100
        node lab3  1 x h100
        project dept
        project ann   in dept  gpus 2
        project bob   in dept  gpus 0
        project red   gpus 1
        project blue  gpus 0  weight 2
        job  b  1       running lab1[0] 2h            project bob  preemptible
        job  r  1       running lab2[0] 1h  limit 2h  project red
        job  a  2       pending                       project ann
        job  c  a100:1  pending                       project blue  preemptible
    "), @r"
    plan  a lab2[0,1] in 3610s by limit
    wait  a gpus_not_free_together need 2 free 1 on lab2
    wait  c would_delay job 3
    ");
}

/// A victim frees two GPUs for a job that needs one: are more jobs evicted for my next job?
#[test]
fn the_surplus_of_an_eviction_goes_to_the_next_job_at_once() {
    assert_snapshot!(answer("
        project red   gpus 0
        project blue  gpus 4
        node lab1  4 x h100
        job  r  2  running lab1[0,1] 3h  project red  preemptible
        job  s  2  running lab1[2,3] 2h  project red  preemptible
        job  a  1 x 3  pending  project blue
    "), @"
    evict s reclaim for a1
    claim a1 lab1[2]
    claim a2 lab1[3]
    evict r reclaim for a3
    claim a3 lab1[0]
    ");
}

/// A GPU is already being freed, and two of my jobs wait for one each: which one gets it?
#[test]
fn the_first_job_waits_for_the_leaving_one_and_is_not_passed() {
    assert_snapshot!(answer("
        project red   gpus 0
        project blue  gpus 2
        node lab1  2 x h100
        job  r  1  requeuing lab1[0] 3h  project red  preemptible
        job  s  1  running lab1[1] 2h  project red  preemptible
        job  a  1 x 2  pending  project blue
    "), @"
    plan  a1 lab1[0] in 10s by limit
    wait  a1 ×2 gpus_not_free need 1 free 0
    ");
}
