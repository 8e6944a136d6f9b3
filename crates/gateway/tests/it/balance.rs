//! The choice of a replica.

use gpool_gateway::balance::{BalanceRules, Candidate, Outlier, choose};
use proptest::prelude::*;

fn candidates(n_in_flight: &[u32], n_new: usize) -> Vec<Candidate> {
    let each = n_in_flight.iter().enumerate();
    each.map(|(ix, n)| Candidate { ix, n_in_flight: *n, is_new: ix < n_new }).collect()
}

#[test]
fn equally_loaded_replicas_take_turns() {
    let all = candidates(&[1, 0, 0, 2], 0);
    let chosen: Vec<_> = (0..4).map(|turn| choose(&all, BalanceRules::default(), turn)).collect();
    assert_eq!(chosen, [Some(1), Some(2), Some(1), Some(2)]);
}

#[test]
fn a_full_replica_gets_nothing() {
    let rules = BalanceRules { max_concurrency: Some(2), canary: None };
    assert_eq!(choose(&candidates(&[2, 2], 0), rules, 0), None);
    assert_eq!(choose(&candidates(&[2, 1], 0), rules, 0), Some(1));
}

#[test]
fn a_canary_gets_its_percentage_while_it_is_ready() {
    let rules = BalanceRules { max_concurrency: None, canary: Some(10) };
    let all = candidates(&[9, 0, 0], 1);
    let n = (0..1000).filter(|turn| choose(&all, rules, *turn) == Some(0)).count();
    assert_eq!(n, 100);
    let only_old = candidates(&[1, 1], 0);
    assert!((0..100).all(|turn| choose(&only_old, rules, turn).is_some()));
}

#[test]
fn five_errors_in_a_row_make_a_pause() {
    let mut outlier = Outlier::default();
    (0..4).for_each(|at| outlier.answered(true, at));
    outlier.answered(false, 4);
    (5..9).for_each(|at| outlier.answered(true, at));
    assert!(!outlier.is_out(9));
    outlier.answered(true, 9);
    assert!(outlier.is_out(10) && outlier.is_out(30_008) && !outlier.is_out(30_009));
}

proptest! {
    #[test]
    fn no_other_free_replica_has_fewer_requests(
        loads in prop::collection::vec(0_u32..6, 0..12),
        most in prop::option::of(1_u32..6),
        turn in 0_u64..1000,
    ) {
        let rules = BalanceRules { max_concurrency: most, canary: None };
        let fewest = loads.iter().min().copied().filter(|n| most.is_none_or(|most| *n < most));
        let chosen = choose(&candidates(&loads, 0), rules, turn);
        prop_assert_eq!(chosen.map(|ix| loads[ix]), fewest);
    }
}
