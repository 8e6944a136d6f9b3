//! Small jobs move so that a large one finds a node, and shares of GPUs move as well.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// No shared GPU elsewhere has enough free memory for my share: does it move to a free GPU?
#[test]
fn a_share_moves_to_a_free_gpu_if_no_shared_one_fits_it() {
    assert_snapshot!(answer("
        policy preset fair  consolidate
        node lab1  2 x h100
        node lab2  2 x h100
        job  r  0.5  running lab1[0] 30m  exits checkpoint
        job  s  0.6  running lab2[0] 30m
        job  a  2    pending 11m
    "), @"
    evict r consolidate for a by checkpoint
    claim a lab1[0,1]
    ");
}

/// Two shares of one GPU are in the way, and only one of them fits elsewhere: does either move?
#[test]
fn no_job_moves_unless_all_that_have_to_can() {
    assert_snapshot!(answer("
        policy preset fair  consolidate
        node lab1  2 x h100
        node lab2  1 x h100
        job  q  0.5  running lab1[0] 30m  exits checkpoint
        job  r  0.5  running lab1[0] 30m  exits checkpoint
        job  s  0.5  running lab2[0] 30m
        job  a  2    pending 21m
    "), @"wait  a gpus_not_free need 2 free 1");
}

/// Fewer GPUs are free than my job wants: do shares join others to make a GPU free?
#[test]
fn shares_that_move_together_make_a_gpu_free() {
    assert_snapshot!(answer("
        policy preset fair  consolidate
        node lab1  2 x h100
        node lab2  1 x h100
        job  r  0.5  running lab1[0] 30m  exits checkpoint
        job  s  0.5  running lab2[0] 30m
        job  a  2    pending 11m
    "), @"
    evict r consolidate for a by checkpoint
    claim a lab1[0,1]
    ");
}

/// A share and a whole GPU have to move, and one GPU is free elsewhere: do they move?
#[test]
fn a_free_gpu_is_counted_once() {
    assert_snapshot!(answer("
        policy preset fair  consolidate
        node lab1  3 x h100
        node lab2  1 x h100
        job  q  0.5  running lab1[0] 30m  exits checkpoint
        job  r  1    running lab1[1] 30m  exits checkpoint
        job  a  3    pending 21m
    "), @"wait  a gpus_not_free need 3 free 2");
}

/// The same, and two GPUs are free elsewhere: do they move?
#[test]
fn a_share_and_a_whole_gpu_move_together() {
    assert_snapshot!(answer("
        policy preset fair  consolidate
        node lab1  3 x h100
        node lab2  2 x h100
        job  q  0.5  running lab1[0] 30m  exits checkpoint
        job  r  1    running lab1[1] 30m  exits checkpoint
        job  a  3    pending 21m
    "), @"
    evict q consolidate for a by checkpoint
    evict r consolidate for a by checkpoint
    claim a lab1[0,1,2]
    ");
}

/// A GPU is free, but has too few cores beside it: does a job move that needs fewer?
#[test]
fn a_job_with_fewer_cores_moves_for_one_with_more() {
    assert_snapshot!(answer("
        policy preset fair  consolidate
        node lab1  2 x h100  cpus 8
        node lab2  1 x h100  cpus 6
        job  r  1  running lab1[0] 30m  exits checkpoint  cpus 4
        job  a  1  pending 11m  cpus 8
    "), @"
    evict r consolidate for a by checkpoint
    claim a lab1[0]
    ");
}
