//! Elements of arrays start like jobs, within the limits of their array.

use gpool_scenario::{Situation, answer};
use insta::assert_snapshot;

/// How do I stop my array from taking the whole cluster?
#[test]
fn no_more_elements_run_at_once_than_the_array_allows() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  a  1  pending  array 0-9%2
        element a 0  running lab1[0]
    "), @r"
    start 1.1 lab1[1]
    wait  a ×8 group_parallel_limit 2 of 2 run
    ");
}

/// Which element of my array starts next?
#[test]
fn elements_start_in_the_order_of_their_indexes() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1  pending  array 0-5  ended failed:0/succeeded:2
    "), @r"
    start 1.1 lab1[0]
    start 1.3 lab1[1]
    wait  a ×2 gpus_not_free need 1 free 0
    ");
}

/// Can the elements of one array wait for the same elements of another?
#[test]
fn an_element_starts_when_its_counterpart_has_ended() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  a  1  pending  array 0-2  ended succeeded:1
        element a 0  running lab1[0]
        job  b  1  pending  after each:a  array 0-2
    "), @r"
    start 1.2 lab1[1]
    start 2.1 lab1[2]
    ");
}

/// Does a large array delay small jobs that came before it?
#[test]
fn an_array_does_not_pass_older_jobs_of_its_size() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1  pending 1h
        job  b  1  pending 10m  array 0-99
        job  c  1  pending 1m
    "), @r"
    start a lab1[0]
    start 2.0 lab1[1]
    wait  b ×100 gpus_not_free need 1 free 0
    ");
}

/// My array depends on another job: do all its elements wait?
#[test]
fn all_elements_wait_for_the_dependencies_of_their_array() {
    assert_snapshot!(answer("
        node lab1  4 x h100
        job  a  1  running lab1[0]
        job  b  1  waiting  after a  array 0-9
        job  c  1  pending
    "), @"start c lab1[1]");
}

/// I cancelled some elements of my array: do the others still run?
#[test]
fn cancelled_elements_do_not_affect_the_others() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        job  a  1  pending  array 0-4  ended cancelled:1-2
        element a 0  running lab1[1]
    "), @r"
    start 1.3 lab1[0]
    wait  a gpus_not_free need 1 free 0
    ");
}

#[test]
fn arrays_are_written_as_they_are_read() {
    let text = "node lab1  2 x h100\njob a  1  pending  array 0-8:2%3  ended failed:0/succeeded:2\n\
                element a 2  running lab1[1] 5m\n";
    let read = Situation::parse(text).expect("a scenario");
    let again = Situation::parse(&read.to_string()).expect("what was written");
    assert_eq!(again.to_string(), read.to_string());
    assert_eq!(
        again.jobs.iter().map(|(_, job)| job).collect::<Vec<_>>(),
        read.jobs.iter().map(|(_, job)| job).collect::<Vec<_>>()
    );
    for wrong in ["array 5-", "ended failed", "array 0-3  ended gone:1"] {
        assert!(Situation::parse(&format!("job a  1  pending  {wrong}")).is_err(), "{wrong}");
    }
}
