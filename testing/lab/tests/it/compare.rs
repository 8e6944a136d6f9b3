//! Comparisons of policies: their words, tables and warnings.

use gpool_lab::simulate::compare::{Comparison, Words, grid, warnings};
use gpool_lab::simulate::queue::results::{WORDS, comparisons, correlated};
use gpool_trace::interval::Mean;
use gpool_trace::queue::Outcome;

use crate::played::outcome;

const SEEDS: Words = Words {
    unit: "",
    value: "IDLE",
    results: ("less", "more"),
    pairs: "seed",
    block: "seed",
    n_blocks_min: 5,
};

fn comparison(mean: f64, half: f64, n_blocks: usize) -> Comparison {
    let interval = Some((mean - half, mean + half));
    let difference = Mean { mean, n_blocks, interval, correlation: 0.0 };
    let (first, policy) = ("fgd".to_owned(), "rollout".to_owned());
    Comparison {
        first,
        policy,
        n_pairs: n_blocks,
        means: (5.0, 5.0 + mean),
        difference,
        deviation: None,
    }
}

fn played(all: Vec<(&str, Outcome)>) -> Vec<(String, Outcome)> {
    all.into_iter().map(|(policy, it)| (policy.to_owned(), it)).collect()
}

#[test]
fn a_difference_has_a_word_only_if_its_interval_excludes_zero() {
    let result = |mean, half| comparison(mean, half, 9).result(SEEDS);
    assert_eq!(result(-2.0, 0.5), "less");
    assert_eq!(result(2.0, 0.5), "more");
    assert_eq!(result(-2.0, 3.0), "not significant");
}

#[test]
fn a_table_has_a_row_for_each_policy_but_the_first() {
    let text = |value: f64| format!("{value:.1} h");
    let made = grid(&[comparison(-2.0, 3.0, 9)], SEEDS, text).unwrap();
    assert_eq!(made.head, ["POLICY", "DIFFERENCE", "95% INTERVAL", "SEEDS", "RESULT"]);
    let row = ["rollout", "-2.0 h", "-5.0 h to +1.0 h", "9", "not significant"];
    assert_eq!(made.rows, [row]);
    assert!(grid(&[], SEEDS, text).is_none());
}

#[test]
fn few_blocks_cause_a_warning() {
    let warned = |n| warnings(&[comparison(1.0, 0.1, 9), comparison(1.0, 0.1, n)], SEEDS);
    assert!(warned(5).is_empty());
    assert_eq!(warned(2), ["confidence intervals of 2 seeds are unreliable: 5 are needed"]);
}

#[test]
fn waits_are_compared_job_by_job_in_seconds() {
    let slow = outcome(30, |day, ix| 60 + day % 3 + ix);
    let played = played(vec![("fifo", slow), ("fair", outcome(12, |_, ix| 30 + ix))]);
    let all = comparisons(&played);
    let [fair] = &all[..] else { panic!("{all:?}") };
    assert_eq!((fair.first.as_str(), fair.policy.as_str(), fair.n_pairs), ("fifo", "fair", 240));
    assert!((fair.difference.mean + 31.0 * 60.0).abs() < 1e-6, "{fair:?}");
    assert_eq!(fair.result(WORDS), "shorter");
    assert!(warnings(&all, WORDS).is_empty() && correlated(&all).is_empty());
    let json = fair.json(WORDS);
    assert_eq!((&json["days"], &json["result"]), (&12.into(), &"shorter".into()));
}

#[test]
fn days_like_the_one_before_cause_a_warning() {
    let other = outcome(40, |day, _| 120 + 10 * (day / 10));
    let played = played(vec![("fifo", outcome(40, |_, _| 60)), ("fair", other)]);
    let warned = correlated(&comparisons(&played));
    assert_eq!(warned.len(), 1);
    assert!(warned[0].starts_with("fair: the difference on one day resembles"), "{warned:?}");
}

#[test]
fn without_jobs_nothing_is_compared() {
    let none = || Outcome::default();
    assert!(comparisons(&played(vec![("fifo", none()), ("fair", none())])).is_empty());
}
