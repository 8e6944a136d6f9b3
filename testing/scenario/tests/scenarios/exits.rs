//! The exits of evicted jobs: which ones a job allows, and their costs.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// My job can checkpoint: is it still ended like any other?
#[test]
fn a_job_that_can_checkpoint_does() {
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

/// My job only allows to be killed: is it chosen although another job would run again?
#[test]
fn the_lost_work_decides_and_not_the_exit() {
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

/// Two jobs borrow, and one has run long but checkpoints in a minute: which is evicted?
#[test]
fn a_checkpoint_loses_less_than_a_requeue() {
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

/// My job may be paused, and a project reclaims its GPU: does the job lose its work?
#[test]
fn a_job_that_can_pause_is_paused_regardless_of_its_run_time() {
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

/// The node can't pause jobs: which exit is used?
#[test]
fn where_jobs_can_not_pause_the_next_exit_is_used() {
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

/// A paused job keeps its host memory: is it paused although the memory is needed?
#[test]
fn a_job_is_not_paused_if_its_memory_is_needed() {
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

/// A driver moves the GPU memory of a paused job to host memory: is there room for it?
#[test]
fn a_job_is_not_paused_if_its_gpu_memory_has_no_room() {
    let answer_with = |memory: &str| {
        answer(&format!(
            "
            node lab1  2 x h100  mem {memory}  checkpoints
            project red   gpus 1
            project blue  gpus 1
            job  old  1   running lab1[0] 9h  project red  submitted 9h
            job  r    1   running lab1[1] 5h  project red  exits pause,requeue  submitted 5h
            job  b    1   pending             project blue
        "
        ))
    };
    assert_snapshot!(answer_with("100G"), @"
    evict r reclaim for b by pause
    claim b lab1[1]
    ");
    assert_snapshot!(answer_with("60G"), @"
    evict r reclaim for b
    claim b lab1[1]
    ");
}

/// Two jobs could be paused, and the host memory is enough for one: is only one paused?
#[test]
fn the_gpu_memory_of_all_paused_jobs_has_room_together() {
    assert_snapshot!(answer("
        node lab1  2 x h100  mem 100G  checkpoints
        project red   gpus 0
        project blue  gpus 2
        job  r1   1   running lab1[0] 9h  project red  exits pause,requeue  submitted 9h
        job  r2   1   running lab1[1] 5h  project red  exits pause,requeue  submitted 5h
        job  b    2   pending             project blue
    "), @"
    evict r2 reclaim for b
    evict r1 reclaim for b
    claim b lab1[0,1]
    ");
    assert_snapshot!(answer("
        node lab1  2 x h100  mem 100G  checkpoints
        project red   gpus 0
        project blue  gpus 2
        job  r1   1   running lab1[0] 9h  project red  exits pause,requeue  submitted 9h
        job  r2   1   running lab1[1] 5h  project red  exits pause,requeue  submitted 5h
        job  b1   1   pending             project blue
        job  b2   1   pending             project blue
    "), @"
    evict r2 reclaim for b1 by pause
    claim b1 lab1[1]
    evict r1 reclaim for b2
    claim b2 lab1[0]
    ");
}

/// Two victims pause at once while the third still has its host memory: is there room for both?
#[test]
fn pauses_do_not_count_on_the_memory_of_another_victim() {
    let answer_with = |memory: &str| {
        answer(&format!(
            "
            node lab1  3 x h100  mem {memory}  checkpoints
            project red   gpus 0
            project blue  gpus 3
            job  r1   1   running lab1[0] 9h  project red  exits pause,requeue  submitted 9h
            job  r2   1   running lab1[1] 5h  project red  exits pause,requeue  submitted 5h
            job  r3   1   running lab1[2] 1h  project red  mem 90G  preemptible  submitted 1h
            job  b    3   pending             project blue
        "
        ))
    };
    assert_snapshot!(answer_with("260G"), @"
    evict r2 reclaim for b by pause
    evict r1 reclaim for b by pause
    evict r3 reclaim for b
    claim b lab1[0,1,2]
    ");
    assert_snapshot!(answer_with("240G"), @"
    evict r3 reclaim for b
    evict r2 reclaim for b
    evict r1 reclaim for b
    claim b lab1[0,1,2]
    ");
}

/// A job runs on two nodes: can half of it be paused?
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

/// My job needs host memory that a paused job gives back when it resumes: does it start at once?
#[test]
fn a_job_that_waited_for_host_memory_is_tried_again_after_a_resume() {
    assert_snapshot!(answer("
        node lab1  2 x h100  mem 128G  checkpoints
        project red   gpus 1.5
        project blue  gpus 0.25
        job  x  1    running lab1[1] 1h  project red
        job  r  0.5  paused lab1[0] 2h  project red
        job  b  0.5  pending 3h  mem 100G  project blue  preemptible
    "), @"
    resume r lab1[0]
    start b lab1[0]
    ");
}

/// My job needs the host memory of a paused job that resumes: when does it start?
#[test]
fn a_planned_start_counts_on_what_a_resumed_job_kept() {
    assert_snapshot!(answer("
        node lab1  2 x h100  mem 128G  checkpoints
        job  r  0.5  paused lab1[0] 2h  mem 40G  limit 3h
        job  b  1    pending  mem 100G
    "), @r"
    resume r lab1[0]
    plan  b lab1[0] in 10810s by limit
    wait  b cpu_or_mem_short memory need 100 GiB free 88 GiB on lab1
    ");
}

/// My job is paused and its GPU is free again: does it resume?
#[test]
fn a_paused_job_resumes_on_its_own_devices() {
    assert_snapshot!(answer("
        node lab1  2 x h100  pauses
        job  r  1   paused lab1[1] 2h
    "), @"resume r lab1[1]");
}

/// Another GPU is free, but not the job's own: what does the paused job wait for?
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

/// A job came while mine was paused: which one is first?
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

/// My project is owed the GPU that my job is paused on: is it reclaimed?
#[test]
fn borrowed_gpus_are_reclaimed_for_a_paused_job_too() {
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

/// My job needs all GPUs, and the running jobs are leaving: may a small job start first?
#[test]
fn a_leaving_job_is_expected_to_be_gone_soon() {
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

/// A planned start counts on the memory of a job that ends by its limit: is that job paused?
#[test]
fn a_job_is_not_paused_if_a_planned_start_needs_its_memory() {
    let running = "
        policy  planned 2
        node lab1  2 x h100  mem 90G  pauses
        job  old    1  running lab1[0] 2h  mem 80G  limit 3h  priority -1";
    // Without a planned start the job is paused.
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
