//! Small jobs are moved so that a large one finds a node: do shares of GPUs move as well?

use gpool_scenario::answer;
use insta::assert_snapshot;

/// Elsewhere no GPU that is shared has enough left for it: does it open another one?
#[test]
fn a_share_moves_to_a_free_gpu_where_no_other_has_room() {
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

/// Two shares of one GPU are in the way, and elsewhere there is room for one of them: does
/// anybody move?
#[test]
fn nobody_moves_unless_there_is_room_for_all_who_have_to() {
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

/// Fewer GPUs are free than my job wants; would shares make room by joining others?
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

/// A share and a whole GPU have to move, and elsewhere there is one GPU: do they?
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

/// The same, and elsewhere there are two: do they?
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

/// A GPU is free, but too few cores beside it: does somebody move who needs fewer?
#[test]
fn who_needs_fewer_cores_moves_for_one_who_finds_too_few() {
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
