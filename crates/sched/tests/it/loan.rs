//! Which jobs of a project are over quota: in order, the first jobs that fit into its own quota are
//! within it.

use gpool_model::Amount;
use gpool_sched::fairshare::mark_loans;

fn marks(own: &[Amount], pieces: &[&[u64]]) -> Vec<bool> {
    marks_beside(&vec![0; own.len()], own, pieces)
}

fn marks_beside(for_good: &[u64], own: &[Amount], pieces: &[&[u64]]) -> Vec<bool> {
    mark_loans(own, pieces.iter().copied(), for_good.to_vec())
}

#[test]
fn jobs_that_cannot_be_evicted_use_up_the_quota_even_if_they_exceed_it() {
    let own = [Amount::saturating_of(2)];
    assert_eq!(marks_beside(&[1], &own, &[&[1], &[1]]), [false, true]);
    assert_eq!(marks_beside(&[3], &own, &[&[1], &[1]]), [true, true]);
}

#[test]
fn the_oldest_jobs_are_within_the_quota() {
    let own = [Amount::saturating_of(2)];
    assert_eq!(marks(&own, &[&[1], &[1], &[1]]), [false, false, true]);
}

#[test]
fn a_gang_beyond_the_quota_is_over_it_and_smaller_jobs_after_it_are_not() {
    let own = [Amount::saturating_of(2)];
    assert_eq!(marks(&own, &[&[4], &[1], &[1], &[1]]), [true, false, false, true]);
}

#[test]
fn only_kinds_that_a_job_uses_count() {
    let own = [Amount::saturating_of(1), Amount::NOTHING, Amount::UNLIMITED];
    assert_eq!(marks(&own, &[&[1, 0, 9], &[0, 1, 0], &[0, 0, 9]]), [false, true, false]);
}
