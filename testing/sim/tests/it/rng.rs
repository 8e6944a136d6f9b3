//! A stream of random numbers that is the same on every machine and in every version.

use gpool_sim::Rng;

#[test]
fn a_seed_always_makes_the_same_numbers() {
    let mut rng = Rng::new(1);
    let numbers: Vec<u64> = (0..3).map(|_| rng.number()).collect();
    assert_eq!(
        numbers,
        [12_966_619_160_104_079_557, 9_600_361_134_598_540_522, 10_590_380_919_521_690_900]
    );
}

#[test]
fn numbers_stay_in_their_range_and_reach_all_of_it() {
    let mut rng = Rng::new(7);
    let mut seen = [0; 6];
    for _ in 0..1000 {
        seen[usize::try_from(rng.between(1, 5)).expect("small")] += 1;
    }
    assert_eq!(seen[0], 0);
    assert!(seen[1..].iter().all(|n| *n > 100), "{seen:?}");
    assert_eq!(rng.below(0), 0);
}
