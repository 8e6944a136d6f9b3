//! Sweep files of Weights & Biases.
//! Source: <https://docs.wandb.ai/guides/sweeps/sweep-config-keys/>

use gpool_model::objective::is_metric_name;
use gpool_model::{Goal, Objective, placeholder};
use gpool_wire::job_metrics::six_digits;
use gpool_yaml::{Key, Node, Value, YamlError, scalar};

use crate::number;
use crate::parameter::{Domain, Parameter, Range};
use crate::sweep::{EarlyStop, Method, Sweep};

/// Keys of a file that say nothing about the trials.
const PASSED_OVER: [&str; 4] = ["project", "entity", "description", "controller"];
const KEYS: [&str; 8] =
    ["program", "method", "metric", "parameters", "early_terminate", "command", "run_cap", "name"];
const PARAMETER_KEYS: [&str; 8] =
    ["value", "values", "min", "max", "distribution", "q", "mu", "sigma"];
const DISTRIBUTIONS: &str =
    "it has uniform, int_uniform, q_uniform, log_uniform and log_uniform_values";
/// The command of a file without one.
const COMMAND: [&str; 4] = ["${env}", "${interpreter}", "${program}", "${args}"];

/// Reads a file. The second value has the keys that it passes over.
///
/// # Errors
/// The line that is wrong, or that gpool can't follow.
pub fn read(text: &str) -> Result<(Sweep, Vec<String>), YamlError> {
    let root = gpool_yaml::parse(text)?;
    if !matches!(root.value, Value::Map(_)) {
        return Err(YamlError::new(root.line, "a sweep file is a mapping")
            .advice("it has the keys program, method and parameters"));
    }
    let passed_over =
        check_keys(&root, &KEYS, "a sweep")?.into_iter().map(|key| key.text.clone()).collect();
    let method = text_at(&root, "method")?.map(|(line, text)| {
        Method::parse(text).ok_or_else(|| {
            YamlError::new(line, format!("the method {text:?} is none of grid, random, bayes"))
        })
    });
    let method = method.transpose()?;
    if method.is_none() {
        return Err(YamlError::new(root.line, "the key method is missing")
            .advice("write method: grid, random or bayes"));
    }
    let objective = root.get("metric").map(objective).transpose()?;
    let parameters = match root.get("parameters") {
        Some(node) => node.entries().iter().map(parameter).collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    if parameters.is_empty() {
        return Err(YamlError::new(root.line, "the sweep has no parameters"));
    }
    let early_stop = root.get("early_terminate").map(early_stop).transpose()?;
    let sweep = Sweep {
        name: text_at(&root, "name")?.map(|(_, text)| text.to_owned()),
        method,
        objective,
        n_trials: root.get("run_cap").map(count).transpose()?,
        early_stop,
        command: command(&root, &parameters)?,
        parameters,
    };
    Ok((sweep, passed_over))
}

/// Refuses unknown keys and returns those that are passed over.
fn check_keys<'a>(node: &'a Node, known: &[&str], what: &str) -> Result<Vec<&'a Key>, YamlError> {
    let mut passed_over = Vec::new();
    for (key, _) in node.entries() {
        if PASSED_OVER.contains(&&*key.text) && known.contains(&"program") {
            passed_over.push(key);
        } else if !known.contains(&&*key.text) {
            let what = format!("gpool does not know the key {:?} of {what}", key.text);
            return Err(
                YamlError::new(key.line, what).advice(format!("it knows {}", known.join(", ")))
            );
        }
    }
    Ok(passed_over)
}

fn text_at<'a>(node: &'a Node, key: &str) -> Result<Option<(usize, &'a str)>, YamlError> {
    match node.get(key) {
        None => Ok(None),
        Some(Node { line, value: Value::Text(text) }) => Ok(Some((*line, text))),
        Some(other) => {
            Err(YamlError::new(other.line, format!("{key} is {}, not a text", other.value.kind())))
        }
    }
}

/// A number. YAML 1.1 reads `1e-3` as a text.
fn number_of(node: &Node) -> Result<f64, YamlError> {
    let number = match &node.value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::Text(text) => number::parse(text),
        _ => None,
    };
    number.filter(|number| number.is_finite()).ok_or_else(|| {
        YamlError::new(node.line, format!("{} stands where a number is needed", node.value.kind()))
    })
}

fn count(node: &Node) -> Result<u32, YamlError> {
    match node.value {
        Value::Int(n) => u32::try_from(n).ok().filter(|n| *n > 0),
        _ => None,
    }
    .ok_or_else(|| YamlError::new(node.line, "this is no number of at least 1"))
}

fn objective(node: &Node) -> Result<Objective, YamlError> {
    check_keys(node, &["name", "goal", "target"], "metric")?;
    if let Some(target) = node.get("target") {
        return Err(YamlError::new(target.line, "gpool does not end a sweep at a target")
            .advice("remove target"));
    }
    let Some((line, name)) = text_at(node, "name")? else {
        return Err(YamlError::new(node.line, "the metric has no name"));
    };
    if !is_metric_name(name) {
        return Err(YamlError::new(line, format!("{name:?} is no name of a metric"))
            .advice("jobs report metrics with up to 64 letters, digits and _ . / : @ % + -"));
    }
    let goal = match text_at(node, "goal")? {
        None | Some((_, "minimize")) => Goal::Min,
        Some((_, "maximize")) => Goal::Max,
        Some((line, other)) => {
            let what = format!("the goal {other:?} is neither minimize nor maximize");
            return Err(YamlError::new(line, what));
        }
    };
    Ok(Objective { metric: name.to_owned(), goal })
}

fn early_stop(node: &Node) -> Result<EarlyStop, YamlError> {
    check_keys(node, &["type", "min_iter", "max_iter", "s", "eta", "strict"], "early_terminate")?;
    match text_at(node, "type")? {
        Some((_, "hyperband")) => {}
        _ => {
            return Err(YamlError::new(node.line, "early_terminate has no type: hyperband"));
        }
    }
    for key in ["s", "strict"] {
        if let Some(other) = node.get(key) {
            let what = format!("Optuna's hyperband has no {key}");
            return Err(YamlError::new(other.line, what).advice(format!("remove {key}")));
        }
    }
    let number = |key: &str| node.get(key).map(count).transpose();
    let (min, max) = (number("min_iter")?, number("max_iter")?);
    let factor = number("eta")?.unwrap_or(3).max(2);
    // With max_iter, the first bracket begins at a fraction of it.
    let min_steps = min.or(max.map(|max| (max / factor).max(1))).unwrap_or(1);
    Ok(EarlyStop::Hyperband { min_steps, max_steps: max, factor })
}

fn parameter((key, node): &(Key, Node)) -> Result<Parameter, YamlError> {
    let name = key.text.clone();
    if !placeholder::is_name(&name) {
        return Err(YamlError::new(key.line, format!("{name:?} is no name of a parameter"))
            .advice("a name has letters, digits and '_', and does not begin with a digit"));
    }
    if let Some(nested) = node.get("parameters") {
        return Err(YamlError::new(nested.line, "gpool has no nested parameters")
            .advice("write them beside the others, with names such as optimizer_lr"));
    }
    check_keys(node, &PARAMETER_KEYS, "a parameter")?;
    for key in ["mu", "sigma"] {
        if let Some(other) = node.get(key) {
            return Err(YamlError::new(other.line, "gpool has no normal distributions")
                .advice(DISTRIBUTIONS));
        }
    }
    let domain = if let Some(value) = node.get("value") {
        check_only(node, "value", "constant")?;
        Domain::Choice(vec![value_text(value)?])
    } else if let Some(values) = node.get("values") {
        check_only(node, "values", "categorical")?;
        let Value::List(items) = &values.value else {
            return Err(YamlError::new(values.line, "values is not a list"));
        };
        let values: Vec<String> = items.iter().map(value_text).collect::<Result<_, _>>()?;
        if values.is_empty() {
            return Err(YamlError::new(node.line, "values is empty"));
        }
        Domain::Choice(values)
    } else {
        Domain::Range(range(node)?)
    };
    Ok(Parameter { name, domain })
}

/// Refuses keys without effect beside a list of values.
fn check_only(node: &Node, own: &str, distribution: &str) -> Result<(), YamlError> {
    for (key, other) in node.entries() {
        let fits = key.text == "distribution" && other.text() == Some(distribution);
        if key.text != own && !fits {
            let what = format!("{:?} does not go with {own}", key.text);
            return Err(YamlError::new(key.line, what).advice(format!("remove {}", key.text)));
        }
    }
    Ok(())
}

fn value_text(node: &Node) -> Result<String, YamlError> {
    match &node.value {
        Value::List(_) | Value::Map(_) => {
            let what = format!("{} is no value of a parameter", node.value.kind());
            Err(YamlError::new(node.line, what).advice("write a text or a number"))
        }
        value => Ok(scalar::text(value)),
    }
}

fn range(node: &Node) -> Result<Range, YamlError> {
    let (Some(min), Some(max)) = (node.get("min"), node.get("max")) else {
        return Err(YamlError::new(node.line, "a parameter has value, values, or min and max"));
    };
    let (low, high) = (number_of(min)?, number_of(max)?);
    let are_whole = matches!((&min.value, &max.value), (Value::Int(_), Value::Int(_)));
    let usual = if are_whole { "int_uniform" } else { "uniform" };
    let (line, name) = text_at(node, "distribution")?.unwrap_or((node.line, usual));
    let step = node.get("q").map(number_of).transpose()?;
    let is_q = name.starts_with("q_");
    let (low, high, is_log) = match name {
        "int_uniform" | "uniform" | "q_uniform" => (low, high, false),
        "log_uniform_values" => (low, high, true),
        // Its limits are exponents of e.
        "log_uniform" => (six_digits(low.exp()), six_digits(high.exp()), true),
        _ => {
            let what = format!("gpool has no distribution {name:?}");
            return Err(YamlError::new(line, what).advice(DISTRIBUTIONS));
        }
    };
    if step.is_some() && !is_q {
        return Err(YamlError::new(line, format!("the distribution {name} has no q")));
    }
    let step = if is_q { Some(step.unwrap_or(1.0)) } else { None };
    let is_int = match step {
        Some(step) => [low, high, step].iter().all(|number| number.fract() == 0.0),
        None => name == "int_uniform" || (name == "log_uniform_values" && are_whole),
    };
    let range = Range { low, high, is_log, step, is_int };
    range.check().map_err(|fault| YamlError::new(node.line, fault.what))
}

/// The command with placeholders in place of W&B's macros.
fn command(root: &Node, parameters: &[Parameter]) -> Result<Vec<String>, YamlError> {
    let program = text_at(root, "program")?;
    let words: Vec<(usize, String)> = match root.get("command") {
        None => COMMAND.iter().map(|word| (root.line, (*word).to_owned())).collect(),
        Some(Node { value: Value::List(items), .. }) => {
            items.iter().map(|item| Ok((item.line, value_text(item)?))).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(YamlError::new(other.line, "command is not a list")),
    };
    let mut command = Vec::new();
    let flags = |dashes: &str| {
        parameters.iter().map(|it| format!("{dashes}{name}={{{name}}}", name = it.name)).collect()
    };
    for (line, word) in words {
        let more: Vec<String> = match &*word {
            "${env}" => vec!["/usr/bin/env".to_owned()],
            "${interpreter}" => vec!["python".to_owned()],
            "${program}" => match program {
                Some((_, program)) => vec![program.to_owned()],
                None => {
                    return Err(YamlError::new(line, "the key program is missing")
                        .advice("write program: train.py, or a command after --"));
                }
            },
            "${args}" => flags("--"),
            "${args_no_hyphens}" => flags(""),
            other if other.contains("${args") || other.contains("${envvar") => {
                let what = format!("gpool does not know {other:?} in a command");
                return Err(YamlError::new(line, what)
                    .advice("it knows ${env}, ${interpreter}, ${program}, ${args}"));
            }
            // Braces of a word that W&B passes on are not those of a parameter.
            _ => vec![literal(&word)],
        };
        command.extend(more);
    }
    Ok(command)
}

/// The word with each placeholder doubled, which stands for itself.
fn literal(word: &str) -> String {
    placeholder::names(word).into_iter().fold(word.to_owned(), |text, name| {
        text.replace(&format!("{{{name}}}"), &format!("{{{{{name}}}}}"))
    })
}
