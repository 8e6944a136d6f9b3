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

fn task(lines: &str) -> gpool_valohai::config::Task {
    let text = format!(
        "- step: {{name: s, image: i, command: c}}\n- task:\n    name: t\n    step: s\n    {}\n",
        lines.replace('\n', "\n    ")
    );
    let document = gpool_valohai::Document::read(&text);
    document.config.tasks.first().unwrap_or_else(|| panic!("{:?}", document.findings)).clone()
}

#[test]
fn a_distributed_task_has_members_with_the_same_values() {
    let members = |lines: &str| gpool_valohai::task::members(&task(lines)).map_err(|it| it.what);
    let one = "parameters: [{name: lr, style: single, rules: {value: 0.1}}]";
    let found = members(&format!("type: distributed\nexecution-count: 3\n{one}"));
    let values = vec![("lr".to_owned(), vec!["0.1".to_owned()])];
    assert_eq!(found, Ok(Some((3, values))));
    assert_eq!(members(one), Ok(None));
    let wrong = |lines: &str, what: &str| {
        let why = members(lines).expect_err("it is wrong");
        assert!(why.contains(what), "{lines}: {why}");
    };
    wrong("type: distributed\nparameters: []", "needs an execution-count");
    let two = "parameters: [{name: lr, style: multiple, rules: {items: [1, 2]}}]";
    wrong(&format!("type: distributed\nexecution-count: 3\n{two}"), "several values");
}

#[test]
fn a_bayesian_task_is_a_search() {
    let lines = |parameters: &str| {
        format!(
            "type: bayesian_tpe\nexecution-count: 30\nexecution-batch-size: 4\n\
             optimization-target-metric: acc\noptimization-target-value: 0.95\n{parameters}"
        )
    };
    let search = |lines: &str| gpool_valohai::task::search(&task(lines)).map_err(|it| it.what);
    let of = |rules: &str| {
        let found = search(&lines(&format!("parameters: [{{name: x, {rules}}}]")));
        found.map(|found| found.expect("it is one").parameters[0].domain.clone())
    };
    let found = search(&lines("parameters: [{name: x, style: single, rules: {value: 1}}]"));
    let found = found.expect("it is right").expect("it is one");
    assert_eq!((found.n_executions, found.n_parallel), (30, Some(4)));
    assert_eq!((found.metric.as_str(), found.target.as_str()), ("acc", "0.95"));
    for (rules, domain) in [
        ("style: multiple, rules: {items: [a, 0.1]}", "[a,0.1]"),
        ("style: linear, rules: {start: 1, end: 8, step: 2}", "1..7:2"),
        ("style: linear, rules: {start: 0, end: 1, step: 0.25}", "0.0..1.0:0.25"),
        ("style: linear, rules: {start: 1, end: 3, step: 0.5, integerify: true}", "[1,2,3]"),
        ("style: logspace, rules: {start: -4, end: -1, base: 10, count: 4}", "0.0001..0.1:log"),
        ("style: logspace, rules: {start: 0, end: 3, count: 2}", "1.0..1000.0:log"),
        ("style: logspace, rules: {min: 0, max: 3, count: 2, integerify: true}", "1..1000:log"),
        ("style: random, rules: {min: 1, max: 4}", "1.0..4.0"),
        ("style: random, rules: {min: 1, max: 4, integerify: true}", "1..4"),
    ] {
        assert_eq!(of(rules).as_deref(), Ok(domain), "{rules}");
    }
    let wrong = |lines: &str, what: &str| {
        let why = search(lines).expect_err("it is wrong");
        assert!(why.contains(what), "{lines}: {why}");
    };
    wrong(&lines("parameters: []"), "needs parameters");
    wrong(&lines("parameters: [{name: x, style: multiple, rules: {items: ['a,b']}}]"), "a,b");
    wrong(&lines("parameters: [{name: x, style: random, rules: {min: 2, max: 1}}]"), "min and max");
    let one = "parameters: [{name: x, style: single, rules: {value: 1}}]";
    wrong(&format!("type: bayesian_tpe\n{one}"), "needs execution-count");
    wrong(&format!("type: bayesian_tpe\nexecution-count: 3\n{one}"), "target-metric");
}

#[test]
fn a_task_that_cannot_run_is_refused() {
    let wrong = |lines: &str, what: &str| {
        let why = rows(lines).expect_err("it is wrong");
        assert!(why.contains(what), "{lines}: {why}");
    };
    let with = |rules: &str| format!("parameters: [{{name: x, {rules}}}]");
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
