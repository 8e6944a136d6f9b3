//! The public scenarios. They are not part of this repository: if they are absent, these tests
//! report it and pass.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gpool_kai::cases::{Beside, Scenario, beside, build, play, read, told};
use gpool_kai::cycle;

use crate::random::{Dice, by_name};

/// The folder of the scenarios: `GPOOL_SHARED`, or else the next `shared` in a parent folder.
fn folder() -> Option<PathBuf> {
    let above = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let beside = || above.ancestors().map(|it| it.join("shared")).find(|it| it.is_dir());
    std::env::var_os("GPOOL_SHARED")
        .map(PathBuf::from)
        .or_else(beside)
        .map(|it| it.join("scenarios"))
}

pub fn scenarios(file: &str) -> Vec<Scenario> {
    let Some(path) = folder().map(|it| it.join(file)).filter(|it| it.is_file()) else {
        eprintln!("skipped: no data ({file})");
        return Vec::new();
    };
    read(&std::fs::read_to_string(path).unwrap()).unwrap().scenarios
}

/// Plays the scenarios and prints a table; returns how many there are and how many fail.
fn table(file: &str) -> (usize, usize) {
    let mut rows = [("change", 0, 0, 0), ("no change", 0, 0, 0)];
    for scenario in scenarios(file) {
        let row = &mut rows[usize::from(scenario.tags.iter().any(|tag| tag == "noop"))];
        let verdict = play(&scenario).unwrap();
        row.1 += 1;
        row.2 += usize::from(verdict.passed());
        row.3 += usize::from(verdict.passed() && verdict.devices.is_empty());
        for line in verdict.differences.iter().chain(&verdict.devices) {
            println!("{} ({}): {line}", scenario.id, scenario.name);
        }
    }
    println!("{file}: expects     all  passed  with devices");
    for (what, all, passed, strict) in rows {
        println!("{file}: {what:9} {all:5} {passed:7} {strict:13}");
    }
    let sum = |number: fn(&(&str, usize, usize, usize)) -> usize| rows.iter().map(number).sum();
    let (all, passed): (usize, usize) = (sum(|row| row.1), sum(|row| row.2));
    println!("{file}: all       {all:5} {passed:7} {:13}", sum(|row| row.3));
    (all, all - passed)
}

#[test]
fn public_scenarios() {
    let (all, failed) = table("kai_public.json");
    assert!(failed * 50 <= all, "{failed} of {all} fail");
}

/// Plays the scenarios with preset `fair` and prints the differences; returns the number of each
/// result.
fn by_fair(file: &str) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for scenario in scenarios(file) {
        let (word, why) = match beside(&scenario).unwrap() {
            Beside::Same => ("same", Vec::new()),
            Beside::Differs(reasons) => ("differs", told(&reasons)),
            Beside::NotPlayed(missing) => ("not played", vec![missing.to_string()]),
            Beside::Fault(faults) => ("wrong", faults),
        };
        *counts.entry(word).or_default() += 1;
        for line in why {
            println!("{word}: {} ({}): {line}", scenario.id, scenario.name);
        }
    }
    println!("{file} by fair: {counts:?}");
    counts
}

#[test]
fn by_fair_each_case_comes_out_the_same_or_says_why_not() {
    for (file, n_same, n_not) in [("kai_public.json", 166, 6), ("own_rule_scenarios.json", 12, 0)] {
        let counts = by_fair(file);
        assert_eq!(counts.get("wrong"), None, "{file}: {counts:?}");
        if counts.is_empty() {
            return;
        }
        let count = |word| counts.get(word).copied().unwrap_or(0);
        assert!(count("same") >= n_same, "{file}: {counts:?}");
        assert!(count("not played") <= n_not, "{file}: {counts:?}");
    }
}

#[test]
fn own_rules() {
    let (_, failed) = table("own_rule_scenarios.json");
    assert_eq!(failed, 0);
}

/// The scenario with every list in another order.
fn shuffled(scenario: &Scenario, seed: u64) -> Scenario {
    let mut dice = Dice::new(seed);
    let mut other = scenario.clone();
    dice.shuffle(&mut other.nodes);
    dice.shuffle(&mut other.queues);
    dice.shuffle(&mut other.jobs);
    for job in &mut other.jobs {
        dice.shuffle(&mut job.tasks);
    }
    other
}

#[test]
fn the_order_of_lists_means_nothing() {
    for file in ["kai_public.json", "own_rule_scenarios.json"] {
        for (seed, scenario) in (1..).zip(scenarios(file)) {
            let ready = build(&scenario).unwrap();
            let plan = by_name(&ready.input, &cycle(&ready.input, &ready.settings));
            for turn in 0..4 {
                let other = shuffled(&scenario, seed * 7 + turn);
                let ready = build(&other).unwrap();
                let again = by_name(&ready.input, &cycle(&ready.input, &ready.settings));
                assert_eq!(plan, again, "{}", scenario.id);
                assert_eq!(play(&other).unwrap(), play(&scenario).unwrap(), "{}", scenario.id);
            }
        }
    }
}
