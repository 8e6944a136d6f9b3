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
