//! The executions of a task: a step with other values of its parameters in each.

use std::collections::BTreeSet;

use gpool_yaml::{Node, Value, scalar};

use crate::config::Task;
use crate::finding::Finding;

/// The values of an execution: for each parameter its name and values, several for a list.
pub type TaskValues = Vec<(String, Vec<String>)>;

/// Most executions of a task.
const EXECUTIONS_MAX: usize = 10_000;

/// Returns the number of executions of a distributed task, which start together, and the values of
/// all of them; `None` for other tasks.
///
/// # Errors
/// It has no number, or several values for a parameter.
pub fn members(task: &Task) -> Result<Option<(usize, TaskValues)>, Finding> {
    if task.kind != "distributed" {
        return Ok(None);
    }
    let fault = |what: &str| Err(Finding::error(task.line, format!("task {:?} {what}", task.name)));
    let count = task.n_executions.and_then(|n| usize::try_from(n).ok());
    let Some(n) = count.filter(|n| (1..=EXECUTIONS_MAX).contains(n)) else {
        return fault("needs an execution-count of at least 1");
    };
    if task.variants.is_empty() {
        return Ok(Some((n, TaskValues::new())));
    }
    match <[TaskValues; 1]>::try_from(grid(task, 0)?) {
        Ok([values]) => Ok(Some((n, values))),
        Err(_) => fault("has several values for a parameter, and is distributed"),
    }
}

/// A task that chooses the values of each execution by the results of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    pub n_executions: i64,
    /// The most executions at once.
    pub n_parallel: Option<i64>,
    pub metric: String,
    /// The value that the metric should come close to.
    pub target: String,
    pub parameters: Vec<SearchParameter>,
}

/// A parameter of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchParameter {
    pub name: String,
    /// Its values as `gpool sweep --param` reads them: `[a,b]`, `1..8:2`, `1e-4..0.1:log`.
    pub domain: String,
}

/// Returns what a Bayesian task searches; `None` for other tasks.
///
/// # Errors
/// It lacks a number of executions or its target, or a rule has no values.
pub fn search(task: &Task) -> Result<Option<Search>, Finding> {
    if task.kind != "bayesian_tpe" {
        return Ok(None);
    }
    let needs =
        |what: &str| Finding::error(task.line, format!("task {:?} needs {what}", task.name));
    let parameters = task.variants.iter().map(|(name, style, rules)| {
        let domain = domain(name, style, rules)?;
        Ok(SearchParameter { name: name.clone(), domain })
    });
    let parameters = parameters.collect::<Result<Vec<_>, Finding>>()?;
    if parameters.is_empty() {
        return Err(needs("parameters"));
    }
    let count = task.n_executions.filter(|n| *n > 0);
    Ok(Some(Search {
        n_executions: count.ok_or_else(|| needs("execution-count"))?,
        n_parallel: task.batch.filter(|n| *n > 0),
        metric: task.metric.clone().ok_or_else(|| needs("optimization-target-metric"))?,
        target: task.target.clone().ok_or_else(|| needs("optimization-target-value"))?,
        parameters,
    }))
}

/// The values of a rule for a search.
fn domain(name: &str, style: &str, rules: &Node) -> Result<String, Finding> {
    let ends = || number_at(rules, &["start", "min"]).zip(number_at(rules, &["end", "max"]));
    let is_int = rules.get("integerify").is_some_and(|it| it.value == Value::Bool(true));
    let range = |low: f64, high: f64, is_whole: bool, end: &str| match low < high {
        true => Ok(format!("{}..{}{end}", bound(low, is_whole), bound(high, is_whole))),
        false => Err(wrong(name, rules, "need a range that ascends")),
    };
    match style {
        "linear" => {
            let values = listed(name, style, rules)?;
            let step = number_at(rules, &["step"]).unwrap_or(1.0);
            let whole = |number: f64| number.fract() == 0.0;
            let (low, high) = ends().unwrap_or_default();
            let is_whole = whole(low) && whole(step);
            if values.len() == 1 || (is_int && !is_whole) {
                // As integers, values with a broken step are no range.
                let values: BTreeSet<String> = values.into_iter().collect();
                return Ok(format!("[{}]", Vec::from_iter(values).join(",")));
            }
            // The end of the range is its last value.
            let last = values.last().and_then(|last| last.parse().ok()).unwrap_or(high);
            range(low, last, is_whole, &format!(":{}", bound(step, is_whole)))
        }
        "logspace" => {
            let Some((low, high)) = ends() else {
                return Err(wrong(name, rules, "need start and end, the first and last exponent"));
            };
            let base = number_at(rules, &["base"]).unwrap_or(10.0);
            range(base.powf(low), base.powf(high), is_int, ":log")
        }
        "random" => {
            Draw::new(name, rules, 0)?;
            let (low, high) = ends().unwrap_or_default();
            range(low, high, is_int, "")
        }
        _ => {
            let values = listed(name, style, rules)?;
            match values.iter().find(|value| value.contains([',', '[', ']'])) {
                Some(value) => {
                    Err(wrong(name, rules, &format!("have {value:?}, which a search can't have")))
                }
                None => Ok(format!("[{}]", values.join(","))),
            }
        }
    }
}

/// The end of a range: a whole number has a point unless all values are whole.
fn bound(number: f64, is_whole: bool) -> String {
    if is_whole {
        return format!("{number:.0}");
    }
    let rounded: f64 = format!("{number:.11e}").parse().unwrap_or(number);
    let text = format!("{rounded}");
    if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
}

/// Returns the values of each execution of a task that is neither distributed nor a search. The
/// same seed draws the same values.
///
/// # Errors
/// A rule has no values, or there are too many executions.
pub fn executions(task: &Task, seed: u64) -> Result<Vec<TaskValues>, Finding> {
    let fault = |what: &str| Err(Finding::error(task.line, format!("task {:?} {what}", task.name)));
    let rows = match task.kind.as_str() {
        "manual_search" => task.sets.iter().map(|set| set_values(set)).collect(),
        "random_search" => {
            let Some(n) = task.n_executions.and_then(|n| usize::try_from(n).ok()) else {
                return fault("needs execution-count");
            };
            random(task, n.min(EXECUTIONS_MAX + 1), seed)?
        }
        _ => grid(task, seed)?,
    };
    match rows.len() {
        0 => fault("has no parameters"),
        n if n > EXECUTIONS_MAX => fault(&format!("has more than {EXECUTIONS_MAX} executions")),
        _ => Ok(rows),
    }
}

fn set_values(set: &[(String, Value)]) -> TaskValues {
    let texts = |value: &Value| match value {
        Value::List(items) => items.iter().map(|item| scalar::text(&item.value)).collect(),
        other => vec![scalar::text(other)],
    };
    set.iter().map(|(name, value)| (name.clone(), texts(value))).collect()
}

/// Every combination; the last parameter changes fastest.
fn grid(task: &Task, seed: u64) -> Result<Vec<TaskValues>, Finding> {
    let mut rows: Vec<TaskValues> = match task.variants.is_empty() {
        true => Vec::new(),
        false => vec![Vec::new()],
    };
    for (name, style, rules) in &task.variants {
        let values = match style.as_str() {
            "random" => {
                let mut draw = Draw::new(name, rules, seed)?;
                (0..count(rules)?).map(|_| draw.next()).collect()
            }
            _ => listed(name, style, rules)?,
        };
        if rows.len().saturating_mul(values.len()) > EXECUTIONS_MAX {
            let what = format!("task {:?} has more than {EXECUTIONS_MAX} executions", task.name);
            return Err(Finding::error(task.line, what));
        }
        let with = |row: &TaskValues, value: &String| {
            let mut row = row.clone();
            row.push((name.clone(), vec![value.clone()]));
            row
        };
        rows = rows.iter().flat_map(|row| values.iter().map(|value| with(row, value))).collect();
    }
    Ok(rows)
}

/// Draws of each parameter; of a list, one of its values.
fn random(task: &Task, n: usize, seed: u64) -> Result<Vec<TaskValues>, Finding> {
    let mut rows = vec![TaskValues::new(); n];
    for (name, style, rules) in &task.variants {
        let mut draw = match style.as_str() {
            "random" => Draw::new(name, rules, seed)?,
            _ => Draw::of_values(listed(name, style, rules)?, name, rules, seed),
        };
        rows.iter_mut().for_each(|row| row.push((name.clone(), vec![draw.next()])));
    }
    rows.retain(|row| !row.is_empty());
    Ok(rows)
}

fn wrong(name: &str, rules: &Node, what: &str) -> Finding {
    Finding::error(rules.line, format!("the rules of parameter {name:?} {what}"))
}

fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Int(number) => scalar::text(&Value::Int(number)).parse().ok(),
        Value::Float(number) => Some(number).filter(|number| number.is_finite()),
        _ => None,
    }
}

/// The first of some keys with a number: the library and the documentation name them differently.
fn number_at(rules: &Node, keys: &[&str]) -> Option<f64> {
    keys.iter().find_map(|key| rules.get(key)).and_then(number)
}

fn count(rules: &Node) -> Result<usize, Finding> {
    let n = rules.get("count").and_then(|node| match node.value {
        Value::Int(n) => usize::try_from(n).ok().filter(|n| (1..=EXECUTIONS_MAX).contains(n)),
        _ => None,
    });
    n.ok_or_else(|| Finding::error(rules.line, "the rules need a count of at least 1"))
}

/// A number as an argument: without rounding errors, and integers without a point.
fn text(value: f64, rules: &Node) -> String {
    let is_true = |key: &str| rules.get(key).is_some_and(|it| it.value == Value::Bool(true));
    if is_true("integerify") {
        return format!("{:.0}", value.trunc());
    }
    let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
    match rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        true => format!("{rounded:.0}"),
        false => scalar::text(&Value::Float(rounded)),
    }
}

/// The values of a style that lists them.
fn listed(name: &str, style: &str, rules: &Node) -> Result<Vec<String>, Finding> {
    let ends = || number_at(rules, &["start", "min"]).zip(number_at(rules, &["end", "max"]));
    let values: Vec<String> = match style {
        "multiple" => {
            let items = rules.get("items").map(Node::items).unwrap_or_default();
            items.iter().map(|item| scalar::text(&item.value)).collect()
        }
        "single" => rules.get("value").map(|it| scalar::text(&it.value)).into_iter().collect(),
        "linear" => {
            let step = number_at(rules, &["step"]).unwrap_or(1.0);
            let Some((start, end)) = ends().filter(|_| step > 0.0) else {
                return Err(wrong(name, rules, "need start, end and a step above 0"));
            };
            // The sum of rounding errors is far below a thousandth of a step.
            let last = (end - start) / step + 0.001;
            let steps = (0u32..).map(f64::from).take_while(|at| *at <= last);
            let most = EXECUTIONS_MAX + 1;
            steps.take(most).map(|at| text(at.mul_add(step, start), rules)).collect()
        }
        "logspace" => {
            let Some((start, end)) = ends() else {
                return Err(wrong(name, rules, "need start and end, the first and last exponent"));
            };
            let base = number_at(rules, &["base"]).unwrap_or(10.0);
            let n = count(rules)?;
            let last = u32::try_from(n - 1).unwrap_or(u32::MAX);
            let part = |at: u32| f64::from(at) / f64::from(last.max(1));
            (0..=last)
                .map(|at| text(base.powf(part(at).mul_add(end - start, start)), rules))
                .collect()
        }
        _ => return Err(wrong(name, rules, &format!("are of the unknown style {style:?}"))),
    };
    match values.is_empty() {
        true => Err(wrong(name, rules, "have no values")),
        false => Ok(values),
    }
}

/// Draws values of a parameter.
struct Draw {
    random: fastrand::Rng,
    source: Source,
}

enum Source {
    Range { low: f64, high: f64, rules: Node },
    Values(Vec<String>),
}

impl Draw {
    fn new(name: &str, rules: &Node, seed: u64) -> Result<Self, Finding> {
        if let Some(kind) = rules.text_of("distribution").filter(|kind| *kind != "uniform") {
            let finding = wrong(name, rules, &format!("have the distribution {kind:?}"));
            return Err(finding.advice("uniform is the only one; gpool sweep has others"));
        }
        let low = number_at(rules, &["min", "start"]).zip(number_at(rules, &["max", "end"]));
        let Some((low, high)) = low.filter(|(low, high)| low <= high) else {
            return Err(wrong(name, rules, "need min and max"));
        };
        let source = Source::Range { low, high, rules: rules.clone() };
        Ok(Self { random: generator(name, rules, seed), source })
    }

    fn of_values(values: Vec<String>, name: &str, rules: &Node, seed: u64) -> Self {
        Self { random: generator(name, rules, seed), source: Source::Values(values) }
    }

    fn next(&mut self) -> String {
        match &self.source {
            Source::Values(values) => self.random.choice(values).cloned().unwrap_or_default(),
            Source::Range { low, high, rules } => {
                text(self.random.f64().mul_add(high - low, *low), rules)
            }
        }
    }
}

/// The generator of a parameter: by the seed of its rules, or else by its name, so that two
/// parameters do not get the same draws.
fn generator(name: &str, rules: &Node, seed: u64) -> fastrand::Rng {
    let own = rules.get("seed").and_then(|node| match node.value {
        Value::Int(seed) => Some(seed.unsigned_abs()),
        _ => None,
    });
    let of_name =
        name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    fastrand::Rng::with_seed(own.unwrap_or(of_name))
}
