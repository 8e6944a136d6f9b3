//! Tests of `wandb`.

use gpool_sweep::parameter::Domain;
use gpool_sweep::sweep::{EarlyStop, Method};
use gpool_sweep::wandb::read;

const BAYES: &str = "
program: train.py
project: demo
name: tuning
method: bayes
run_cap: 20
metric: {name: val/loss, goal: minimize}
parameters:
  lr: {distribution: log_uniform_values, min: 1e-5, max: 0.1}
  width: {distribution: q_uniform, min: 64, max: 512, q: 64}
  layers: {min: 2, max: 8}
  dropout: {min: 0.0, max: 0.5}
  optimizer: {values: [adam, sgd]}
  nesterov: {value: true}
early_terminate: {type: hyperband, min_iter: 3, eta: 4}
";

#[test]
fn a_file_is_read() {
    let (sweep, passed_over) = read(BAYES).expect("a sweep");
    assert_eq!(passed_over, ["project"]);
    assert_eq!((sweep.name.as_deref(), sweep.method), (Some("tuning"), Some(Method::Bayes)));
    assert_eq!(sweep.objective.as_ref().expect("a metric").to_string(), "val/loss:min");
    assert_eq!(sweep.n_trials, Some(20));
    let rule = EarlyStop::Hyperband { min_steps: 3, max_steps: None, factor: 4 };
    assert_eq!(sweep.early_stop, Some(rule));
    let command = [
        "/usr/bin/env",
        "python",
        "train.py",
        "--lr={lr}",
        "--width={width}",
        "--layers={layers}",
        "--dropout={dropout}",
        "--optimizer={optimizer}",
        "--nesterov={nesterov}",
    ];
    assert_eq!(sweep.command, command);
    let range = |at: usize| match &sweep.parameters[at].domain {
        Domain::Range(range) => *range,
        Domain::Choice(values) => panic!("{values:?}"),
    };
    assert!(range(0).is_log && range(0).low == 1e-5 && !range(0).is_int);
    assert!(range(1).is_int && range(1).step == Some(64.0));
    assert!(range(2).is_int && range(2).step.is_none());
    assert!(!range(3).is_int);
    assert_eq!(sweep.parameters[5].domain, Domain::Choice(vec!["True".to_owned()]));
    assert_eq!(sweep.check(), Ok(()));
}

#[test]
fn a_command_is_read() {
    let text = "
method: grid
program: t.py
command: [python3, -u, '${program}', '{x}', '${args_no_hyphens}']
parameters: {x: {values: [1, 2]}, y: {value: a b}}
";
    let (sweep, _) = read(text).expect("a sweep");
    assert_eq!(sweep.command, ["python3", "-u", "t.py", "{{x}}", "x={x}", "y={y}"]);
    let exponents = "
method: random
program: t.py
parameters: {x: {distribution: log_uniform, min: -2.302585, max: 0}}
";
    let (sweep, _) = read(exponents).expect("a sweep");
    let Domain::Range(range) = sweep.parameters[0].domain else { panic!("no range") };
    assert_eq!((range.low, range.high, range.is_log), (0.1, 1.0, true));
}

#[test]
fn what_gpool_cannot_follow_is_refused_with_its_line() {
    let head = "method: random\nprogram: t.py\nparameters:\n";
    let wrong = [
        ("", 1, "is a mapping"),
        ("[a]", 1, "is a mapping"),
        ("a: b: c", 1, "valid YAML"),
        ("program: t.py\nparameters: {x: {value: 1}}", 1, "method is missing"),
        ("method: annealing\n", 1, "none of grid"),
        ("method: 3\n", 1, "not a text"),
        ("method: grid\nprogram: t.py\n", 1, "no parameters"),
        ("method: grid\nparameters: {x: {value: 1}}", 1, "program is missing"),
        ("method: grid\nagents: 3\n", 2, "agents"),
        ("x: {}", 4, "value, values, or min and max"),
        ("x: {min: 1}", 4, "value, values, or min and max"),
        ("x: {min: a, max: 3}", 4, "a number is needed"),
        ("x: {min: 3, max: 1}", 4, "does not ascend"),
        ("x: {values: []}", 4, "empty"),
        ("x: {values: 3}", 4, "not a list"),
        ("x: {values: [[1]]}", 4, "no value of a parameter"),
        ("x: {value: 1, min: 0}", 4, "does not go with value"),
        ("x: {mu: 0, sigma: 1, distribution: normal}", 4, "no normal distributions"),
        ("x: {min: 0, max: 1, distribution: beta}", 4, "no distribution \"beta\""),
        ("x: {min: 0, max: 1, q: 2}", 4, "has no q"),
        ("x: {min: 0, max: 1, step: 2}", 4, "step"),
        ("x: {parameters: {y: {value: 1}}}", 4, "no nested parameters"),
        ("'a b': {value: 1}", 4, "no name of a parameter"),
        ("x: {value: 1}\nmetric: {goal: minimize}", 5, "has no name"),
        ("x: {value: 1}\nmetric: {name: a, goal: up}", 5, "neither minimize"),
        ("x: {value: 1}\nmetric: {name: a b}", 5, "no name of a metric"),
        ("x: {value: 1}\nmetric: {name: a, target: 3}", 5, "target"),
        ("x: {value: 1}\nearly_terminate: {min_iter: 3}", 5, "no type"),
        ("x: {value: 1}\nearly_terminate: {type: hyperband, s: 2}", 5, "no s"),
        ("x: {value: 1}\nrun_cap: 0", 5, "at least 1"),
        ("x: {value: 1}\ncommand: python", 5, "not a list"),
        ("x: {value: 1}\ncommand: ['${args_json}']", 5, "does not know"),
    ];
    for (text, line, what) in wrong {
        let text = match line >= 4 {
            true => format!("{head}  {text}"),
            false => text.to_owned(),
        };
        let finding = read(&text).expect_err(&text);
        assert!(finding.what.contains(what), "{text}: {finding}");
        assert_eq!(finding.line, line, "{text}: {finding}");
    }
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut text = "method: grid\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..8 {
        let above = level - 1;
        let list = vec![format!("*a{above}"); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    assert!(read(&text).expect_err("a bomb").what.contains("values"));
}
