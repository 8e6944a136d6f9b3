//! Tests of `ledger`.

use std::collections::BTreeSet;

use gpool_map::ledger::{Ledger, Verdict};

#[test]
fn items_are_leased_in_order_and_recorded_once() {
    let mut ledger = Ledger::new(5, 3);
    assert_eq!(ledger.lease("a", 2), [0, 1]);
    assert_eq!(ledger.lease("b", 9), [2, 3, 4]);
    assert!(ledger.lease("c", 1).is_empty());
    assert!(ledger.done("a", 1) && !ledger.done("a", 1) && !ledger.done("b", 1));
    assert!(!ledger.done("b", 99), "there is no such item");
    ledger.returned("b", &[3, 4]);
    assert_eq!(ledger.lease("c", 9), [4, 3]);
    // Late answers of a worker that lost its lease count, too.
    assert!(ledger.done("b", 3) && !ledger.done("c", 3));
    assert!([("a", 0), ("b", 2), ("c", 4)].into_iter().all(|(who, item)| ledger.done(who, item)));
    assert!(ledger.is_finished());
    assert_eq!((ledger.n_done(), ledger.workers().count()), (5, 0));
}

#[test]
fn an_item_that_fails_too_often_is_set_aside() {
    let mut ledger = Ledger::new(2, 2);
    assert_eq!(ledger.lease("a", 1), [0]);
    assert_eq!(ledger.failed("a", 0), Verdict::Again(1));
    assert_eq!(ledger.failed("a", 0), Verdict::Ignored);
    assert_eq!(ledger.lease("b", 1), [0]);
    assert_eq!(ledger.failed("b", 0), Verdict::SetAside(2));
    assert!(!ledger.is_finished());
    assert_eq!(ledger.lease("b", 9), [1]);
    assert!(ledger.done("b", 1) && ledger.is_finished());
    assert_eq!(ledger.set_aside().iter().copied().collect::<Vec<_>>(), [0]);
}

#[test]
fn of_several_items_that_may_have_killed_a_worker_only_the_cause_is_blamed() {
    let mut ledger = Ledger::new(6, 2);
    assert_eq!(ledger.lease("a", 4), [0, 1, 2, 3]);
    assert_eq!(ledger.crashed("a", None), None);
    // Each suspect is alone with its worker.
    assert_eq!(ledger.lease("b", 9), [0]);
    assert!(ledger.lease("b", 9).is_empty());
    assert_eq!(ledger.lease("c", 9), [1]);
    assert!(ledger.done("b", 0));
    assert_eq!(ledger.crashed("c", Some(&[1])), Some((1, Verdict::Again(1))));
    assert_eq!(ledger.lease("b", 9), [2]);
    assert!(ledger.done("b", 2));
    assert_eq!(ledger.lease("b", 9), [3]);
    assert_eq!(ledger.lease("c", 9), [1]);
    assert_eq!(ledger.crashed("c", None), Some((1, Verdict::SetAside(2))));
    assert!(ledger.done("b", 3));
    assert_eq!(ledger.lease("b", 9), [4, 5]);
}

#[test]
fn a_worker_of_an_earlier_driver_keeps_its_items() {
    let mut ledger = Ledger::new(4, 3);
    ledger.restore_done(0);
    ledger.restore_tries(2, 2);
    assert!(ledger.claim("a", 2) && ledger.claim("a", 2));
    assert!(!ledger.claim("b", 2) && !ledger.claim("b", 0));
    assert_eq!(ledger.lease("b", 9), [1, 3]);
    assert_eq!(ledger.failed("a", 2), Verdict::SetAside(3));
    assert!(ledger.done("b", 1) && ledger.done("b", 3) && ledger.is_finished());
}

/// Random workers that take, finish, fail, die and come back: every item is settled once, and only
/// the items that always fail or kill are set aside.
#[test]
fn every_item_is_settled_once_whatever_workers_do() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (n_items, tries) = (random.u64(1..60), random.u32(1..4));
        let poison = |item: u64| item % 11 == 7;
        let killer = |item: u64| item % 13 == 5;
        let mut ledger = Ledger::new(n_items, tries);
        let names = ["a", "b", "c"];
        let mut recorded = BTreeSet::new();
        for _ in 0..20_000 {
            if ledger.is_finished() {
                break;
            }
            let worker = names[random.usize(..names.len())];
            let leases = ledger.leases_of(worker).to_vec();
            match random.u8(..10) {
                0..4 => drop(ledger.lease(worker, random.usize(..6))),
                4 if leases.iter().any(|item| killer(*item)) => drop(ledger.crashed(worker, None)),
                5 => ledger.returned(worker, &leases[..leases.len() / 2]),
                _ => {
                    let Some(item) = leases.first().copied() else { continue };
                    if killer(item) {
                        ledger.crashed(worker, None);
                    } else if poison(item) {
                        ledger.failed(worker, item);
                    } else if ledger.done(worker, item) {
                        assert!(recorded.insert(item), "seed {seed}: {item} is recorded twice");
                    }
                }
            }
            let mut all = BTreeSet::new();
            let leased = names.iter().flat_map(|name| ledger.leases_of(name));
            assert!(leased.into_iter().all(|item| all.insert(*item)), "seed {seed}: leased twice");
        }
        assert!(ledger.is_finished(), "seed {seed}");
        let bad: BTreeSet<u64> = (0..n_items).filter(|it| poison(*it) || killer(*it)).collect();
        assert_eq!(*ledger.set_aside(), bad, "seed {seed}");
        assert_eq!(recorded.len() as u64, n_items - bad.len() as u64, "seed {seed}");
    }
}

#[test]
fn a_million_items_are_quick() {
    let mut ledger = Ledger::new(1_000_000, 3);
    let names: Vec<String> = (0..64).map(|n| format!("{n}#1")).collect();
    let mut n_done = 0;
    while !ledger.is_finished() {
        for name in &names {
            for item in ledger.lease(name, 100) {
                n_done += u64::from(ledger.done(name, item));
            }
        }
    }
    assert_eq!(n_done, 1_000_000);
}
