//! What is on loan is taken back for who is entitled to it: whose goes first, and whose never.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// My quota is lent to others: how do I get it back?
#[test]
fn a_project_under_its_guarantee_gets_what_others_borrowed() {
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
fn what_is_within_the_guarantee_stays() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 2
        project blue  gpus 0
        job  r  1   running lab1[0] 2h  project red  preemptible
        job  s  1   running lab1[1] 1h  project red  preemptible
        job  b  1   pending             project blue  preemptible
    "), @"wait  b gpus_not_free need 1 free 0");
}

/// Can a job be ended for others that never agreed to it?
#[test]
fn what_can_not_be_taken_back_stays() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1   running lab1[0] 2h  project red
        job  s  1   running lab1[1] 1h  project red
        job  b  1   pending             project blue
    "), @"wait  b gpus_not_free need 1 free 0");
}

/// May a project take back more than its share?
#[test]
fn a_job_that_would_go_over_its_share_takes_nothing() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  2   running lab1[0,1] 1h  project red  preemptible
        job  s  2   running lab1[2,3] 1h  project red  preemptible
        job  b  4   pending               project blue  preemptible
    "), @"wait  b gpus_not_free need 4 free 0");
}

/// Which of the jobs of a borrower goes first?
#[test]
fn lower_priorities_go_before_newer_jobs() {
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

/// Of equal jobs, whose work is lost when something is taken back?
#[test]
fn who_loses_least_goes_first() {
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

/// Two projects borrow: which of them gives back?
#[test]
fn who_is_furthest_over_its_share_gives_first() {
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

/// One GPU is needed: is a job of eight ended for it?
#[test]
fn a_small_job_does_not_cost_a_large_one_where_a_small_one_would_do() {
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

/// How many jobs are taken back for a large one?
#[test]
fn several_small_jobs_go_for_a_large_one_and_no_more_than_must() {
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

/// A job is ending anyhow: is another one taken back meanwhile?
#[test]
fn what_leaves_anyhow_is_waited_for() {
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

/// Is a job safe that has just started?
#[test]
fn what_was_just_started_is_safe_for_as_long_as_its_project_says() {
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

/// I borrowed all that is left over, and another project comes: do I keep it all?
#[test]
fn what_is_left_over_is_divided_anew_when_another_wants_it() {
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

/// Are shares of GPUs taken back as well?
#[test]
fn shares_of_devices_go_as_whole_ones_do() {
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

/// Cores are short, and nobody is promised any: is anything taken back?
#[test]
fn nothing_is_taken_back_of_what_nobody_is_promised() {
    assert_snapshot!(answer("
        node lab1  2 x h100  cpus 8
        project red   gpus 0
        project blue  gpus 1
        job  r  1   running lab1[0] 4h  project red  preemptible  cpus 8
        job  b  1   pending             project blue  cpus 4
    "), @"wait  b cpu_or_mem_short CPU cores need 4 free 0 on lab1");
}

/// Does a department answer for what its projects borrow?
#[test]
fn between_departments_the_excess_of_the_whole_counts() {
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

/// My project holds more for good than it is guaranteed by now: is the rest of its work safe?
#[test]
fn what_can_never_be_taken_back_uses_up_the_guarantee() {
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

/// Two halves of mine run, and another project could use the whole: will they be put back and run
/// again and again?
#[test]
fn halves_that_run_count_as_halves_that_wait() {
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

/// My project has all that is its own and somebody of mine would make room: may I take what is idle
/// as well, before whoever is entitled to that?
#[test]
fn who_gives_way_in_my_project_opens_no_way_to_what_is_due_to_others() {
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

/// Somebody leaves two GPUs for one of my jobs that asks for one: does my next job make others go?
#[test]
fn what_is_taken_back_for_one_and_more_than_it_needs_goes_to_the_next_at_once() {
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

/// Somebody else leaves a GPU already, and two of my jobs wait that ask for one each: who has it?
#[test]
fn the_first_waits_for_who_leaves_already_and_nobody_passes_it() {
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
