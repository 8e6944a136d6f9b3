//! Jobs on devices that they did not book: a new job that gets such a device makes them move.

use gpool_scenario::answer;
use insta::assert_snapshot;

/// Does a new job push a borrowing notebook from GPU to GPU?
#[test]
fn free_gpus_without_guests_come_first() {
    assert_snapshot!(answer("
        node  lab1  5 x h100
        job   a  0.5:1  running lab1[0]
        job   b  0.5:1  running lab1[0]
        guest b  lab1[1]
        job   c  1  pending
        job   d  2  pending
        job   e  1  pending
    "), @r"
    start c lab1[2]
    start e lab1[3]
    start d lab1[1,4]
    ");
}

/// A 40 GiB notebook and a small one borrow the last free GPUs: which one has to move?
#[test]
fn the_guest_with_the_least_memory_moves() {
    assert_snapshot!(answer("
        node  lab1  3 x h100
        job   a  1@40G:80G  running lab1[0]
        job   b  1@2G:80G   running lab1[0]
        guest a  lab1[1]
        guest b  lab1[2]
        job   c  1  pending
    "), @r"
    start c lab1[2]
    ");
}

// I need two linked GPUs, and one of them has a guest.
#[test]
fn links_of_several_gpus_count_more_than_a_guest_that_moves_once() {
    assert_snapshot!(answer("
        node  lab1  5 x h100
        link  lab1[1,2]  nvlink 4
        job   a  0.5:1  running lab1[0]
        guest a  lab1[1]
        job   c  2  pending
        job   d  2  pending
    "), @r"
    start c lab1[1,2]
    start d lab1[3,4]
    ");
}

// Two pairs of GPUs are linked alike, and one has a guest.
#[test]
fn of_equally_linked_sets_the_one_without_guests_is_taken() {
    assert_snapshot!(answer("
        node  lab1  5 x h100
        link  lab1[1,2]  nvlink 4
        link  lab1[3,4]  nvlink 4
        job   a  0.5:1  running lab1[0]
        guest a  lab1[1]
        job   c  2  pending
    "), @r"
    start c lab1[3,4]
    ");
}

// Two nodes are alike, and one has a guest on its free GPU.
#[test]
fn of_equal_nodes_one_without_guests_is_taken() {
    assert_snapshot!(answer("
        node  lab1  2 x h100
        node  lab2  2 x h100
        job   a  0.5:1  running lab1[0]
        job   b  0.5:1  running lab2[0]
        guest a  lab1[1]
        job   c  1  pending
    "), @r"
    start c lab2[1]
    ");
}

// The same for a job of several nodes.
#[test]
fn a_gang_goes_to_nodes_without_guests() {
    assert_snapshot!(answer("
        node  lab1  2 x h100
        node  lab2  2 x h100
        node  lab3  2 x h100
        job   a  0.5:1  running lab1[0]
        job   b  0.5:1  running lab2[0]
        job   c  0.5:1  running lab3[0]
        guest a  lab1[1]
        job   d  1  nodes 2 each 1  pending
    "), @r"
    start d lab2[1] lab3[1]
    ");
}

/// Does a share open a GPU with a guest while another one is free?
#[test]
fn a_share_opens_a_gpu_without_guests() {
    assert_snapshot!(answer("
        node  lab1  3 x h100
        job   a  0.5:1  running lab1[0]
        guest a  lab1[1]
        job   c  0.75  pending
    "), @r"
    start c lab1[2]
    ");
}

/// A planned start names GPUs: does it name one with a guest?
#[test]
fn a_planned_start_names_gpus_without_guests() {
    assert_snapshot!(answer("
        node  lab1  5 x h100
        job   a  0.5:1  running lab1[0]
        job   b  2      running lab1[3,4] 1h  limit 2h
        guest a  lab1[1]
        job   c  3      pending  limit 1h
    "), @r"
    plan  c lab1[2,3,4] in 3610s by limit
    wait  c gpus_not_free need 3 free 2
    ");
}

// Jobs on two nodes can be preempted for me; on one of them a guest would have to move too.
#[test]
fn a_move_counts_as_lost_work_when_a_victim_is_chosen() {
    assert_snapshot!(answer("
        policy  preset priority
        node  lab1  3 x h100
        node  lab2  3 x h100
        job   a  1@40G:80G  running lab1[0]
        job   b  1@40G:80G  running lab2[0]
        job   v  1  running lab1[1] 1h  preemptible
        job   w  1  running lab2[1] 1h  preemptible
        guest a  lab1[2]
        job   c  2  pending  priority 5
    "), @r"
    evict w preempt for c
    claim c lab2[1,2]
    ");
}
