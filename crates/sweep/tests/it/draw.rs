//! Tests of `draw`.

use std::collections::HashSet;

use gpool_sweep::sweep::{Method, Sweep};

use crate::sweep;

#[test]
fn a_grid_has_every_combination_in_order() {
    let grid = sweep(&["lr=0.1,0.01", "bs=1..3"]);
    let table = grid.trials(0).expect("a grid");
    assert_eq!(table.names, ["lr", "bs"]);
    let rows = table.rows.iter().map(|row| row.join(" ")).collect::<Vec<_>>();
    assert_eq!(rows, ["0.1 1", "0.1 2", "0.1 3", "0.01 1", "0.01 2", "0.01 3"]);
    let some = Sweep { method: Some(Method::Grid), n_trials: Some(2), ..grid };
    assert_eq!(some.trials(0).expect("a grid").rows, table.rows[..2]);
}

#[test]
fn random_trials_repeat_with_the_seed_and_stay_in_the_ranges() {
    let random = Sweep {
        n_trials: Some(300),
        ..sweep(&["lr=1e-5..1e-1:log", "drop=0..0.5", "n=1..64:log", "k=3..9", "o=sgd,adam"])
    };
    let table = random.trials(7).expect("trials");
    assert_eq!(table, random.trials(7).expect("trials"));
    assert_ne!(table, random.trials(8).expect("trials"));
    assert_eq!(table.rows.len(), 300);
    let column = |at: usize| table.rows.iter().map(move |row| row[at].parse::<f64>().expect("f64"));
    assert!(column(0).all(|lr| (1e-5..=0.1).contains(&lr)));
    assert!(column(1).all(|drop| (0.0..=0.5).contains(&drop)));
    assert!(column(2).all(|n| (1.0..=64.0).contains(&n) && n.fract() == 0.0));
    // Each order of magnitude gets about a quarter of the trials.
    let n_small = column(0).filter(|lr| *lr < 1e-4).count();
    assert!((45..105).contains(&n_small), "{n_small} of 300 below 1e-4");
    let kinds = |at: usize| table.rows.iter().map(|row| &row[at]).collect::<HashSet<_>>().len();
    assert_eq!((kinds(3), kinds(4)), (7, 2));
    assert!(table.rows.iter().all(|row| row[0].len() <= 11), "six digits are enough");
}

#[test]
fn random_trials_of_few_values_are_all_of_them_once() {
    let few =
        Sweep { method: Some(Method::Random), n_trials: Some(50), ..sweep(&["a=1..4", "b=x,y,z"]) };
    let rows = few.trials(1).expect("trials").rows;
    assert_eq!(rows.len(), 12);
    assert_eq!(rows.iter().collect::<HashSet<_>>().len(), 12);
    assert_ne!(rows, few.trials(2).expect("trials").rows);
    // An integer range without steps ends, too.
    let log = Sweep { n_trials: Some(50), ..sweep(&["a=1..8:log"]) };
    let rows = log.trials(1).expect("trials").rows;
    assert_eq!(rows.iter().collect::<HashSet<_>>().len(), rows.len());
    assert!(rows.len() <= 8);
}
