//! Executions of tasks.

use gpool_valohai::Document;
use gpool_valohai::task::executions;

/// The executions of a task with these lines, as `lr=0.1 n=1`, or why there are none.
fn rows(lines: &str) -> Result<Vec<String>, String> {
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "- step: {{name: s, image: i, command: c}}\n- task:\n    name: t\n    step: s\n{lines}"
    );
    let document = Document::read(&text);
    assert!(document.can_run(), "{text}: {:?}", document.findings);
    let task = document.config.tasks.first().expect("a task");
    let found = executions(task, 1).map_err(|finding| finding.to_string())?;
    let words = |(name, values): &(String, Vec<String>)| format!("{name}={}", values.join(","));
    Ok(found.iter().map(|row| row.iter().map(words).collect::<Vec<_>>().join(" ")).collect())
}

fn texts(list: &[&str]) -> Result<Vec<String>, String> {
    Ok(list.iter().map(|it| (*it).to_owned()).collect())
}

#[test]
fn a_grid_has_every_combination() {
    let grid = "parameters:\n  - {name: lr, style: multiple, rules: {items: [0.1, 1e-3]}}\n  \
                - {name: n, style: linear, rules: {start: 1, end: 3, step: 1}}";
    let expected =
        ["lr=0.1 n=1", "lr=0.1 n=2", "lr=0.1 n=3", "lr=1e-3 n=1", "lr=1e-3 n=2", "lr=1e-3 n=3"];
    assert_eq!(rows(grid), texts(&expected));
    let one = |rules: &str| rows(&format!("parameters: [{{name: x, {rules}}}]"));
    assert_eq!(one("style: single, rules: {value: 7}"), texts(&["x=7"]));
    let linear = "style: linear, rules: {min: 0, max: 0.3, step: 0.1}";
    assert_eq!(one(linear), texts(&["x=0", "x=0.1", "x=0.2", "x=0.3"]));
    let logspace = "style: logspace, rules: {start: -3, end: 0, base: 10, count: 4}";
    assert_eq!(one(logspace), texts(&["x=0.001", "x=0.01", "x=0.1", "x=1"]));
    let powers = "style: logspace, rules: {min: 0, max: 3, base: 2, count: 4, integerify: true}";
    assert_eq!(one(powers), texts(&["x=1", "x=2", "x=4", "x=8"]));
}

#[test]
fn other_types_have_their_values() {
    let manual = "type: manual-search\nparameter-sets:\n  - {lr: 0.1, n: 1}\n  - {n: [2, 3]}";
    assert_eq!(rows(manual), texts(&["lr=0.1 n=1", "n=2,3"]));
    let random = "type: RANDOM_SEARCH\nexecution-count: 20\nparameters:\n  \
                  - {name: lr, style: random, rules: {min: 0.5, max: 1, seed: 3}}\n  \
                  - {name: n, style: random, rules: {min: 1, max: 4, integerify: true}}\n  \
                  - {name: o, style: multiple, rules: {items: [a, b]}}";
    let found = rows(random).expect("executions");
    assert_eq!(found, rows(random).expect("executions"));
    assert_eq!(found.len(), 20);
    for row in &found {
        let values: Vec<&str> = row.split(' ').map(|it| it.split_once('=').unwrap().1).collect();
        assert!((0.5..=1.0).contains(&values[0].parse::<f64>().unwrap()), "{row}");
        assert!((1..=4).contains(&values[1].parse::<u8>().unwrap()), "{row}");
        assert!(["a", "b"].contains(&values[2]), "{row}");
    }
}

#[test]
fn a_task_that_cannot_run_is_refused() {
    let wrong = |lines: &str, what: &str| {
        let why = rows(lines).expect_err("it is wrong");
        assert!(why.contains(what), "{lines}: {why}");
    };
    let with = |rules: &str| format!("parameters: [{{name: x, {rules}}}]");
    wrong("type: distributed\nparameters: []", "gpool submit --tasks");
    wrong("type: bayesian_tpe\nparameters: []", "gpool sweep --method bayes");
    wrong("parameters: []", "has no parameters");
    wrong("type: random_search\nparameters: []", "needs execution-count");
    wrong(&with("style: multiple, rules: {items: []}"), "have no values");
    wrong(&with("style: linear, rules: {start: 1}"), "need start, end");
    wrong(&with("style: linear, rules: {start: 1, end: 2, step: 0}"), "a step above 0");
    wrong(&with("style: linear, rules: {start: 2, end: 1}"), "have no values");
    wrong(&with("style: logspace, rules: {start: 1, end: 2}"), "need a count");
    wrong(&with("style: random, rules: {min: 1, max: 2, distribution: beta, count: 2}"), "beta");
    wrong(&with("style: linear, rules: {start: 1, end: 1000000}"), "more than 10000");
}
