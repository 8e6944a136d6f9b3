//! The public scenarios. They are not part of this repository: if they are absent, this test
//! reports it and passes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gpool_lab::kai::{CaseResult, Scenario, play, read, told};

/// The folder of the scenarios: `GPOOL_SHARED`, or else the next `shared` in a parent folder.
fn folder() -> Option<PathBuf> {
    let above = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let nearby = || above.ancestors().map(|it| it.join("shared")).find(|it| it.is_dir());
    std::env::var_os("GPOOL_SHARED")
        .map(PathBuf::from)
        .or_else(nearby)
        .map(|it| it.join("scenarios"))
}

fn scenarios(file: &str) -> Vec<Scenario> {
    let Some(path) = folder().map(|it| it.join(file)).filter(|it| it.is_file()) else {
        eprintln!("skipped: no data ({file})");
        return Vec::new();
    };
    read(&std::fs::read_to_string(path).unwrap()).unwrap().scenarios
}

/// Plays the scenarios and prints the differences; returns the number of each result.
fn results(file: &str) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for scenario in scenarios(file) {
        let (word, why) = match play(&scenario).unwrap() {
            CaseResult::Same => ("same", Vec::new()),
            CaseResult::Differs(reasons) => ("differs", told(&reasons)),
            CaseResult::NotPlayed(missing) => ("not played", vec![missing.to_string()]),
            CaseResult::Fault(faults) => ("wrong", faults),
        };
        *counts.entry(word).or_default() += 1;
        for line in why {
            println!("{word}: {} ({}): {line}", scenario.id, scenario.name);
        }
    }
    println!("{file}: {counts:?}");
    counts
}

#[test]
fn each_case_has_the_result_of_kai_or_a_reason() {
    let of = |same, differs, not_played| -> BTreeMap<&str, usize> {
        let all = [("same", same), ("differs", differs), ("not played", not_played)];
        all.into_iter().filter(|(_, n)| *n > 0).collect()
    };
    for (file, expected) in
        [("kai_public.json", of(166, 36, 6)), ("own_rule_scenarios.json", of(12, 2, 0))]
    {
        let counts = results(file);
        assert!(counts.is_empty() || counts == expected, "{file}: {counts:?}");
    }
}
