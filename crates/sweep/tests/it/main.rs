//! Tests of the public items of the crate, in one binary.

mod draw;
mod parameter;
mod trials;
mod wandb;

use gpool_sweep::parameter::{Domain, Parameter};
use gpool_sweep::sweep::{EarlyStop, Method, Sweep};

/// A sweep with parameters as the command line has them: `lr=0.1,0.01`.
fn sweep(parameters: &[&str]) -> Sweep {
    let parameter = |text: &&str| {
        let (name, values) = text.split_once('=').expect("NAME=VALUES");
        let values = values.split(',').map(str::to_owned).collect();
        Parameter { name: name.to_owned(), domain: Domain::parse(values).expect("a domain") }
    };
    Sweep { parameters: parameters.iter().map(parameter).collect(), ..Sweep::default() }
}

#[test]
fn rules_of_early_stopping_are_read() {
    assert_eq!(EarlyStop::parse("median"), Ok(EarlyStop::Median));
    assert_eq!(EarlyStop::parse("asha:10:3"), Ok(EarlyStop::Asha { min_steps: 10, factor: 3 }));
    let hyperband = EarlyStop::Hyperband { min_steps: 1, max_steps: None, factor: 3 };
    assert_eq!(EarlyStop::parse("hyperband"), Ok(hyperband));
    for wrong in ["", "never", "asha:0", "asha:x", "asha:1:1", "median:1:2", "asha:1:2:3"] {
        assert!(EarlyStop::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_sweep_says_what_it_lacks() {
    let what = |sweep: Sweep| sweep.check().expect_err("it lacks something").what;
    assert_eq!(what(sweep(&[])), "the sweep has no parameters");
    assert_eq!(what(sweep(&["a=1", "a=2"])), "the parameter \"a\" is there twice");
    assert!(what(sweep(&["a=0.0..1.0"])).contains("number of trials"));
    let bayes = Sweep { method: Some(Method::Bayes), n_trials: Some(5), ..sweep(&["a=0.0..1.0"]) };
    assert_eq!(what(bayes), "the method bayes needs a metric");
    let grid = Sweep { method: Some(Method::Grid), ..sweep(&["a=0.0..1.0"]) };
    assert!(what(grid).contains("no steps"));
    let large = sweep(&["a=1..100000", "b=1..100000"]);
    assert!(what(large).contains("10000000000 trials"));
    assert_eq!(sweep(&["a=1,2", "b=1..3"]).check(), Ok(()));
}
