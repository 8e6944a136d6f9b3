//! Confidence intervals of mean differences from batch means: jobs of the same time wait for each
//! other and are not independent, but blocks of time, or seeds, nearly are.
//!
//! Source: A. M. Law, W. D. Kelton, "Simulation Modeling and Analysis", on batch means; B.
//! Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", Operations Research 30(3),
//! 1982, on the number of batches; W. G. Cochran, "Sampling Techniques", on ratio estimates for
//! blocks of different sizes.

use gpool_trace::interval::{Mean, Sum, student};

fn each(values: &[f64]) -> Mean {
    let blocks: Vec<Sum> = values.iter().map(|sum| Sum { sum: *sum, n: 1.0 }).collect();
    Mean::of(&blocks).expect("there are some")
}

#[test]
fn quantiles_are_those_of_the_tables() {
    for (degrees, expected) in [(1, 12.706), (9, 2.262), (10, 2.228), (30, 2.042), (120, 1.980)] {
        assert!((student(degrees) - expected).abs() < 0.001, "{degrees}: {}", student(degrees));
    }
}

#[test]
fn blocks_of_one_size_give_the_interval_of_a_plain_mean() {
    let told = each(&[1.0, 2.0, 3.0]);
    let half = 4.303 / 3.0_f64.sqrt();
    let (low, high) = told.interval.expect("of three");
    assert!((low - (2.0 - half)).abs() < 1e-9 && (high - (2.0 + half)).abs() < 1e-9);
    assert!(!told.is_told());
    assert!(each(&[1.0, 1.1, 0.9]).is_told());
    assert!(each(&[-1.0, -1.1, -0.9]).is_told());
}

#[test]
fn of_one_block_the_mean_is_all_there_is() {
    let none = Sum::default();
    let alone = Mean::of(&[none, Sum { sum: 6.0, n: 3.0 }, none]).expect("there is one");
    assert_eq!((alone.mean, alone.n_blocks, alone.interval), (2.0, 1, None));
    assert_eq!(Mean::of(&[none]), None);
}

#[test]
fn blocks_that_follow_each_other_are_known() {
    let slow: Vec<f64> = (0..40).map(|n| f64::from(n / 10)).collect();
    assert!(each(&slow).is_correlated());
    let fast: Vec<f64> = (0..40).map(|n| f64::from(n % 2)).collect();
    assert!(!each(&fast).is_correlated());
}
