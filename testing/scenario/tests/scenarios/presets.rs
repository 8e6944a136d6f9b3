//! Presets other than the default: shares between users, no borrowing, only reserved capacity, or
//! no shares at all.

use gpool_scenario::answer;
use insta::assert_snapshot;

#[test]
fn between_users_the_one_with_the_least_is_next() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100
        job  r  1      running lab1[0] 2h  uid 1001
        job  a  1 x 3  pending 3h  uid 1001
        job  b  1 x 2  pending 2h  uid 1002
        job  c  1      pending 1h  uid 1003
    "), @"
    start b1 lab1[1]
    start c lab1[2]
    start a1 lab1[3]
    wait  a2 ×2 gpus_not_free need 1 free 0
    wait  b2 gpus_not_free need 1 free 0
    ");
}

#[test]
fn capacity_that_no_other_user_wants_goes_to_the_user_that_wants_more() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100
        job  a  1 x 5  pending 3h  uid 1001
        job  b  1      pending 2h  uid 1002
    "), @"
    start a1 lab1[0]
    start b lab1[1]
    start a2 lab1[2]
    start a3 lab1[3]
    wait  a4 ×2 gpus_not_free need 1 free 0
    ");
}

/// A user fills the cluster with small jobs, and I need a whole node: when does my job start?
#[test]
fn small_jobs_of_one_user_do_not_delay_the_large_job_of_another() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100
        job  r      1      running lab1[0] 1h  limit 2h  uid 1001
        job  small  1 x 3  pending 3h  limit 4h   uid 1001
        job  quick  1      pending 1h  limit 30m  uid 1001
        job  big    4      pending 1m  limit 1h   uid 1002
    "), @"
    start quick lab1[1]
    plan  big lab1[0,1,2,3] in 3610s by limit
    wait  big gpus_not_free need 4 free 3
    wait  small1 ×3 would_delay job 6
    ");
}

/// My job has waited for two days: does it go before the jobs of others?
#[test]
fn a_user_with_an_escalated_job_counts_with_four_times_the_share() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100
        job  a    1  running lab1[0] 2h  uid 1001
        job  b    1  running lab1[1] 2h  uid 1001
        job  c    1  running lab1[2] 2h  uid 1002
        job  old  1  pending 37h  uid 1001
        job  new  1  pending 1h   uid 1002
    "), @"
    start old lab1[3]
    wait  new gpus_not_free need 1 free 0
    ");
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100
        job  a    1  running lab1[0] 2h  uid 1001
        job  b    1  running lab1[1] 2h  uid 1001
        job  c    1  running lab1[2] 2h  uid 1001
        job  old  1  pending 37h  uid 1001
        job  new  1  pending 1h   uid 1002
    "), @"
    start new lab1[3]
    wait  old gpus_not_free need 1 free 0
    ");
}

#[test]
fn users_share_what_their_own_project_has() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  4 x h100
        project red   gpus 2
        project blue  gpus 2
        job  a  1 x 3  pending 3h  uid 1001  project red
        job  b  1 x 3  pending 2h  uid 1002  project red
        job  c  1 x 3  pending 1h  uid 1003  project blue
    "), @"
    start a1 lab1[0]
    start c1 lab1[1]
    start b1 lab1[2]
    start c2 lab1[3]
    wait  a2 ×2 quota_project red guaranteed 2 GPUs held 2 asked 1
    wait  b2 ×2 quota_project red guaranteed 2 GPUs held 2 asked 1
    wait  c3 quota_project blue guaranteed 2 GPUs held 2 asked 1
    ");
}

#[test]
fn between_users_of_one_project_nothing_is_reclaimed() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  2 x h100
        job  a  1  running lab1[0] 2h  uid 1001  preemptible
        job  b  1  running lab1[1] 1h  uid 1001  preemptible
        job  c  1  pending 1h  uid 1002
    "), @"wait  c gpus_not_free need 1 free 0");
}

#[test]
fn between_projects_borrowed_capacity_is_reclaimed_under_shares_of_users() {
    assert_snapshot!(answer("
        policy preset users
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  a  1  running lab1[0] 2h  uid 1001  project red  preemptible
        job  b  1  running lab1[1] 1h  uid 1002  project red  preemptible
        job  c  1  pending 1h  uid 1003  project blue
    "), @"
    evict b reclaim for c
    claim c lab1[1]
    ");
}

#[test]
fn with_fixed_quotas_no_project_exceeds_its_guarantee() {
    assert_snapshot!(answer("
        policy preset fixed
        node lab1  4 x h100
        project red   gpus 2
        project blue  gpus 2
        job  a  1 x 3  pending  project red  preemptible
    "), @"
    start a1 lab1[0]
    start a2 lab1[1]
    wait  a3 quota_project red guaranteed-only 2 GPUs held 2 asked 1
    ");
}

#[test]
fn a_fixed_quota_counts_preemptible_jobs_too() {
    assert_snapshot!(answer("
        policy preset fixed
        node lab1  4 x h100
        project red   gpus 2
        project blue  gpus 2
        job  r  1  running lab1[0] 1h  project red  preemptible
        job  s  1  running lab1[1] 1h  project red  preemptible
        job  a  1  pending  project red
        job  b  2  pending  project blue
    "), @"
    start b lab1[2,3]
    wait  a quota_project red guaranteed-only 2 GPUs held 2 asked 1
    ");
}

#[test]
fn with_preset_static_jobs_get_only_reserved_gpus() {
    assert_snapshot!(answer("
        policy preset static
        node lab1  4 x h100
        job  a  1 x 2  pending  uid 1001
        job  b  1      pending  uid 1002
        job  c  0      pending  uid 1002
        reserve r1  lab1[2]  for uid 1001  begun 1h
    "), @"
    start c lab1
    start a1 lab1[2]
    wait  a2 not_reserved reserved 1
    wait  b not_reserved reserved 0
    ");
}

#[test]
fn a_reservation_that_has_not_begun_gives_no_gpus_yet() {
    assert_snapshot!(answer("
        policy preset static
        node lab1  2 x h100
        job  a  1  pending  uid 1001
        reserve r1  lab1  for uid 1001  in 1h  long 4h
    "), @"
    plan  a lab1[0] in 1h by limit
    wait  a not_reserved reserved 0
    ");
}

#[test]
fn work_without_gpus_has_a_planned_start_where_nothing_is_reserved() {
    assert_snapshot!(answer("
        policy preset static
        node lab1  2 x h100  cpus 8
        job  a  0  running lab1 1h  cpus 8  limit 2h
        job  b  0  pending  cpus 8
    "), @"
    plan  b lab1 in 3610s by limit
    wait  b cpu_or_mem_short CPU cores need 8 free 0 on lab1
    ");
}

#[test]
fn a_job_with_a_future_reservation_has_a_planned_start_at_its_begin() {
    assert_snapshot!(answer("
        policy preset static
        node lab1  2 x h100
        job  a  1  pending  uid 1001
        reserve r1  lab1[0]  for nobody  begun 1h  long 4h
        reserve r2  lab1[1]  for uid 1001  in 2h  long 4h
    "), @"
    plan  a lab1[1] in 2h by limit
    wait  a not_reserved reserved 0
    ");
}

#[test]
fn shares_of_a_gpu_need_a_reservation_as_well() {
    assert_snapshot!(answer("
        policy preset static
        node lab1  2 x h100
        job  a  0.5      pending  project red
        job  b  0.5 x 2  pending  project blue
        reserve r1  lab1[1]  for project red  begun 1h
    "), @"
    start a lab1[1]
    wait  b1 ×2 not_reserved reserved 0
    ");
}

#[test]
fn a_team_has_no_more_gpus_than_its_limit_in_one_queue_for_all() {
    assert_snapshot!(answer("
        policy preset valohai
        node lab1  4 x h100
        project red   limit 2
        project blue
        job  r  1      running lab1[0] 1h  project red
        job  a  1 x 2  pending 3h  project red
        job  b  2      pending 2h  project blue
    "), @"
    start a1 lab1[1]
    start b lab1[2,3]
    wait  a2 quota_project red limit 2 GPUs held 2 asked 1
    ");
}

#[test]
fn a_department_s_limit_applies_to_all_projects_below_it_in_one_queue() {
    assert_snapshot!(answer("
        policy preset fifo
        node lab1  4 x h100
        project lab   limit 2
        project red   in lab
        project blue  in lab
        job  a  1  pending 3h  project red
        job  b  2  pending 2h  project blue
        job  c  1  pending 1h  project blue
    "), @"
    start a lab1[0]
    start c lab1[1]
    wait  b quota_project lab limit 2 GPUs held 1 asked 2
    ");
}

#[test]
fn a_team_runs_no_more_jobs_at_once_than_its_limit() {
    assert_snapshot!(answer("
        policy preset valohai
        node lab1  4 x h100
        project red  jobs 2
        job  r  1      running lab1[0] 1h  project red
        job  a  1 x 2  pending 3h  project red
        job  b  1      pending 2h
    "), @"
    start a1 lab1[1]
    start b lab1[2]
    wait  a2 quota_project red limit 2 tasks at once held 2 asked 1
    ");
}
