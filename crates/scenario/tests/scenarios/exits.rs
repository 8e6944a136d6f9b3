//! How a job goes whose devices are taken back: what it allows, and what that costs.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// My job can save what it has: is it still ended like any other?
#[test]
fn a_job_that_can_save_is_told_to() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1   running lab1[0] 2h  project red  exits kill,checkpoint
        job  s  1   running lab1[1] 1h  project red
        job  b  1   pending             project blue
    "), @"
    evict r reclaim for b by checkpoint
    claim b lab1[0]
    ");
}

/// My job may only be ended for good: is that done although another would be run again?
#[test]
fn what_is_lost_decides_and_not_the_name_of_the_exit() {
    assert_snapshot!(answer("
        node lab1  3 x h100
        project red   gpus 1
        project blue  gpus 1
        job  r  1   running lab1[0] 9h  project red  exits kill     submitted 3h
        job  s  1   running lab1[1] 1h  project red  preemptible    submitted 2h
        job  t  1   running lab1[2] 5m  project red                 submitted 9h
        job  b  1   pending             project blue
    "), @"
    evict s reclaim for b
    claim b lab1[1]
    ");
}

/// Of two that borrow, one has run for long and saves in a minute: which goes?
#[test]
fn who_saves_loses_less_than_who_runs_again() {
    assert_snapshot!(answer("
        node lab1  3 x h100
        project red   gpus 1
        project blue  gpus 1
        job  old   1   running lab1[0] 9h   project red  submitted 9h
        job  save  1   running lab1[1] 5h   project red  exits checkpoint  submitted 5h
        job  new   1   running lab1[2] 10m  project red  preemptible       submitted 1h
        job  b     1   pending              project blue
    "), @"
    evict save reclaim for b by checkpoint
    claim b lab1[1]
    ");
}

/// My job may be paused, and somebody takes back what it borrowed: does it lose its work?
#[test]
fn who_can_be_paused_is_paused_however_long_it_ran() {
    assert_snapshot!(answer("
        node lab1  2 x h100  pauses
        project red   gpus 1
        project blue  gpus 1
        job  old  1   running lab1[0] 9h  project red  submitted 9h
        job  r    1   running lab1[1] 5h  project red  exits pause,requeue  submitted 5h
        job  b    1   pending             project blue
    "), @"
    evict r reclaim for b by pause
    claim b lab1[1]
    ");
}

/// Its GPUs are real, and nobody can pause it there: what then?
#[test]
fn where_nobody_can_be_paused_the_next_exit_is_taken() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red   gpus 1
        project blue  gpus 1
        job  old  1   running lab1[0] 9h  project red  submitted 9h
        job  r    1   running lab1[1] 5h  project red  exits pause,requeue  submitted 5h
        job  b    1   pending             project blue
    "), @"
    evict r reclaim for b
    claim b lab1[1]
    ");
}

/// Who is paused keeps its host memory: is it paused although that is what is needed?
#[test]
fn nobody_is_paused_where_its_memory_is_what_is_needed() {
    assert_snapshot!(answer("
        node lab1  2 x h100  mem 64G  pauses
        project red   gpus 1
        project blue  gpus 1
        job  old  1   running lab1[0] 9h  project red  submitted 9h
        job  r    1   running lab1[1] 5h  project red  exits pause,requeue  mem 40G  submitted 5h
        job  b    1   pending             project blue  mem 50G
    "), @"
    evict r reclaim for b
    claim b lab1[1]
    ");
}

/// A job on two nodes: is half of it paused?
#[test]
fn a_gang_is_paused_as_a_whole_or_not_at_all() {
    assert_snapshot!(answer("
        node lab1  1 x h100  pauses
        node lab2  1 x h100
        project red   gpus 0
        project blue  gpus 1
        job  r  1 nodes 2  running lab1[0] lab2[0] 5h  project red  exits pause,requeue
        job  b  1       pending             project blue
    "), @"
    evict r reclaim for b
    claim b lab1[0]
    ");
}

/// My job is paused and its GPU is free again: does it go on?
#[test]
fn a_paused_job_goes_on_where_it_was() {
    assert_snapshot!(answer("
        node lab1  2 x h100  pauses
        job  r  1   paused lab1[1] 2h
    "), @"resume r lab1[1]");
}

/// Another GPU is free, but not mine: what does it wait for, and until when?
#[test]
fn a_paused_job_waits_for_its_own_devices() {
    assert_snapshot!(answer("
        node lab1  2 x h100  pauses
        job  s  1   running lab1[1] 1h  limit 3h
        job  r  1   paused lab1[1] 2h
    "), @"
    plan  r lab1[1] in 7210s by limit
    wait  r paused_on lab1[1] free 0
    ");
}

/// Somebody came while my job was paused: who goes first?
#[test]
fn a_paused_job_keeps_its_place_in_the_order() {
    assert_snapshot!(answer("
        node lab1  1 x h100  pauses
        job  r  1   paused lab1[0] 2h
        job  n  1   pending 1h
    "), @"
    resume r lab1[0]
    wait  n gpus_not_free need 1 free 0
    ");
}

/// My project is owed the GPU on which my job is paused: is it taken back for it?
#[test]
fn what_is_on_loan_is_taken_back_for_a_paused_job_too() {
    assert_snapshot!(answer("
        node lab1  1 x h100  pauses
        project red   gpus 1
        project blue  gpus 0
        job  b  1   running lab1[0] 1h  project blue  exits pause,requeue
        job  r  1   paused lab1[0] 2h   project red
    "), @"
    evict b reclaim for r by pause
    resume after others r lab1[0]
    ");
}

/// My job needs all GPUs, and those who have them are told to stop: may somebody small slip in?
#[test]
fn who_is_told_to_stop_is_expected_to_have_stopped_soon() {
    assert_snapshot!(answer("
        policy order age
        node lab1  2 x h100  pauses
        job  r  1    pausing lab1[0]   exits pause,requeue
        job  s  0.5  stopping lab1[1]
        job  b  2    pending 5m
        job  c  0.5  pending
    "), @"
    plan  b lab1[0,1] in 10s by limit
    wait  b gpus_not_free need 2 free 0
    wait  c would_delay job 3
    ");
}

/// A start is planned for when a job has ended by its limit: is that job paused for another one,
/// and keeps the memory?
#[test]
fn nobody_is_paused_whose_memory_a_planned_start_counts_on() {
    let running = "
        policy  planned 2
        node lab1  2 x h100  mem 90G  pauses
        job  old    1  running lab1[0] 2h  mem 80G  limit 3h  priority -1";
    // The same without a planned start: there it is paused.
    assert_snapshot!(answer(&format!("{running}  exits pause
        job  small  2  pending  limit 1h
    ")), @"
    evict old preempt for small by pause
    claim small lab1[0,1]
    ");
    assert_snapshot!(answer(&format!("{running}  exits pause
        job  large  1  pending  mem 11G  priority 1
        job  small  2  pending  limit 1h
    ")), @"
    plan  large lab1[0] in 3610s by limit
    wait  large cpu_or_mem_short memory need 11 GiB free 10 GiB on lab1
    wait  small gpus_not_free need 2 free 1
    ");
}
