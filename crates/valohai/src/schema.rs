//! Checks the types and keys of a file against the shapes of its items.

use crate::finding::Finding;
use crate::shape::{
    DEPLOYMENT, DEPLOYMENT_NODE, EDGE, ENVIRONMENT_VARIABLE, EXECUTION_NODE, ITEMS, Kind, MOUNT,
    Shape, TASK, TASK_NODE, TOLERATION,
};
use gpool_yaml::{Node, Value};

/// Checks a whole file.
#[must_use]
pub fn check(root: &Node) -> Vec<Finding> {
    let mut found = Vec::new();
    let Value::List(items) = &root.value else {
        let what = format!("the file is {}, not a list", root.value.kind());
        return vec![Finding::error(root.line, what).advice("begin each item with: - step:")];
    };
    for item in items {
        let Value::Map(_) = &item.value else {
            let what = format!("an item of the file is {}", item.value.kind());
            found.push(Finding::error(item.line, what).advice("begin each item with: - step:"));
            continue;
        };
        for (key, shape) in ITEMS {
            if let Some(node) = item.get(key) {
                fields(node, shape, "", &mut found);
            }
        }
        if let Some(node) = item.get("deployment") {
            fields(node, &DEPLOYMENT, "", &mut found);
        }
    }
    found
}

/// Checks a mapping with fixed keys. `place` names the mapping around it.
fn fields(node: &Node, shape: &Shape, place: &str, found: &mut Vec<Finding>) {
    let Value::Map(entries) = &node.value else {
        let what = format!("{place}{} is {}, not a mapping", shape.name, node.value.kind());
        found.push(Finding::error(node.line, what).advice("indent its keys below it"));
        return;
    };
    let name = node.text_of("name").map(|name| format!(" {name:?}")).unwrap_or_default();
    let here = format!("{place}{}{name}", shape.name);
    for (key, value) in entries {
        match shape.fields.iter().find(|field| field.key == key.text && key.is_text) {
            Some(field) => kind(value, field.kind, &here, field.key, found),
            None => {
                let what = format!("{here} has an unknown key {:?}", key.text);
                found.push(Finding::error(key.line, what).advice(known_keys(shape, &key.text)));
            }
        }
    }
    for key in shape.required.iter().filter(|key| node.get(key).is_none()) {
        let what = format!("{here} has no {key:?}");
        found.push(Finding::error(node.line, what).advice(format!("add {key}: …")));
    }
    choices_of_keys(node, shape, &here, found);
}

/// The rules about keys that exclude or need each other.
fn choices_of_keys(node: &Node, shape: &Shape, here: &str, found: &mut Vec<Finding>) {
    let has = |key: &str| node.get(key).is_some();
    let mut need = |is_right: bool, what: &str| {
        if !is_right {
            found.push(Finding::error(node.line, format!("{here} needs {what}")));
        }
    };
    match shape.name {
        "endpoint" => {
            need(has("server-command") != has("wsgi"), "either \"server-command\" or \"wsgi\"");
        }
        name if name == TASK.name => {
            let is_right = has("parameters") || has("parameter-sets");
            need(is_right, "\"parameters\" or \"parameter-sets\"");
        }
        name if name == TASK_NODE.name => {
            need(has("step") != has("task"), "either \"step\" or \"task\"");
        }
        name if name == TOLERATION.name => {
            let is_any = node.get("operator").is_none_or(|it| it.text() == Some("Exists"));
            need(has("key") || is_any, "\"key\", unless its operator is Exists");
        }
        _ => {}
    }
}

/// The closest key, or all of them.
fn known_keys(shape: &Shape, wrong: &str) -> String {
    let keys = shape.fields.iter().map(|field| field.key);
    let near = keys.clone().map(|key| (distance(key, wrong), key)).min();
    match near {
        Some((steps, key)) if steps <= 2 => format!("write {key:?}"),
        _ => format!("the keys are {}", keys.collect::<Vec<_>>().join(", ")),
    }
}

/// The number of insertions, deletions and replacements between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Checks one value.
fn kind(node: &Node, kind: Kind, here: &str, key: &str, found: &mut Vec<Finding>) {
    let is_mapping = matches!(node.value, Value::Map(_));
    match kind {
        Kind::Shape(shape) => return fields(node, shape, &format!("{here}, "), found),
        Kind::List(of) if matches!(node.value, Value::List(_)) => {
            return node.items().iter().for_each(|item| self::kind(item, *of, here, key, found));
        }
        Kind::Mount if is_mapping => {
            fields(node, &MOUNT, &format!("{here}, "), found);
            let target = node.text_of("destination");
            if target.is_some_and(|path| !path.starts_with('/') || path.len() < 2) {
                let what = format!("{here}: the destination of a mount is not absolute");
                found.push(Finding::error(node.line, what).advice("begin it with /"));
            }
            return;
        }
        Kind::Widget if is_mapping => {
            let has_type = node.text_of("type").is_some();
            let settings = node.get("settings").is_none_or(|it| matches!(it.value, Value::Map(_)));
            if !has_type || !settings {
                let what = format!("{here}: a widget needs a \"type\", and settings are a mapping");
                found.push(Finding::error(node.line, what));
            }
            return;
        }
        Kind::Node => return pipeline_node(node, here, found),
        Kind::Edge if is_mapping => {
            return fields(node, &EDGE, &format!("{here}, "), found);
        }
        _ => {}
    }
    if let Some(expected) = mismatch(node, kind) {
        let what = format!("{here}: {key:?} is {}, not {expected}", node.value.kind());
        let finding = Finding::error(node.line, what);
        found.push(match (&node.value, kind) {
            (Value::Text(text), Kind::Choice(_) | Kind::TextOrBool(_)) => {
                let what = format!("{here}: {key:?} is {text:?}, not {expected}");
                Finding::error(node.line, what)
            }
            (Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Date(_), Kind::Text) => {
                // Valohai's own documents write `default: 4` for VH_GPUS.
                let is_tolerable = key == "default" && here.contains(ENVIRONMENT_VARIABLE.name);
                Finding { is_tolerable, ..finding.advice("put quotes around it") }
            }
            _ => finding,
        });
    }
}

/// A node of a pipeline, by its type.
fn pipeline_node(node: &Node, here: &str, found: &mut Vec<Finding>) {
    let place = format!("{here}, ");
    match node.text_of("type") {
        Some("execution") => fields(node, &EXECUTION_NODE, &place, found),
        Some("task") => fields(node, &TASK_NODE, &place, found),
        Some("deployment") => fields(node, &DEPLOYMENT_NODE, &place, found),
        _ => {
            let what = format!("{here}: a node has no type that is known");
            found.push(
                Finding::error(node.line, what)
                    .advice("add type: execution, type: task or type: deployment"),
            );
        }
    }
}

/// What a value should be, if it is something else.
fn mismatch(node: &Node, kind: Kind) -> Option<String> {
    let value = &node.value;
    let is_text = matches!(value, Value::Text(_));
    let number = match value {
        Value::Int(whole) => Some(*whole as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    let is_whole = number.is_some_and(|number| number.fract() == 0.0);
    let all_text = node.items().iter().all(|item| item.text().is_some());
    let (is_right, expected) = match kind {
        Kind::Any => (true, ""),
        Kind::Text => (is_text, "a text"),
        Kind::ShortText(most) => {
            let is_right = node.text().is_some_and(|text| text.chars().count() <= most);
            return (!is_right).then(|| format!("a text of at most {most} characters"));
        }
        Kind::Bool => (matches!(value, Value::Bool(_)), "true or false"),
        Kind::Integer => (is_whole, "a whole number"),
        Kind::Number => (number.is_some(), "a number"),
        Kind::Within(least, most) => {
            let is_right = number.is_some_and(|it| it >= least && it <= most);
            return (!is_right).then(|| format!("a number from {least} to {most}"));
        }
        Kind::Choice(words) | Kind::TextOrBool(words) => {
            let is_bool = matches!((kind, value), (Kind::TextOrBool(_), Value::Bool(_)));
            let is_right = is_bool || node.text().is_some_and(|text| words.contains(&text));
            return (!is_right).then(|| format!("one of {}", words.join(", ")));
        }
        Kind::TextOrInteger => (is_text || is_whole, "a text or a whole number"),
        Kind::TextOrList => {
            let is_list = matches!(value, Value::List(_)) && all_text;
            (is_text || is_list, "a text or a list of texts")
        }
        Kind::Scalar => {
            let is_bool = matches!(value, Value::Bool(_));
            (is_text || is_bool || number.is_some(), "a number, text or boolean")
        }
        Kind::Mapping | Kind::Shape(_) | Kind::Node => {
            (matches!(value, Value::Map(_)), "a mapping")
        }
        Kind::AnyList | Kind::List(_) => (matches!(value, Value::List(_)), "a list"),
        Kind::Devices => {
            let is_count = |it: &Node| mismatch(it, Kind::Within(1.0, f64::INFINITY)).is_none();
            let is_right = node.entries().iter().all(|(_, count)| is_count(count));
            (is_right && matches!(value, Value::Map(_)), "a mapping from devices to numbers")
        }
        Kind::Mount => {
            let is_right = node.text().is_some_and(is_mount);
            (is_right, "/SOURCE:/DESTINATION or a mapping")
        }
        Kind::Widget => (is_text, "a text or a mapping"),
        Kind::Edge => {
            let is_pair = node.items().len() == 2 && all_text;
            (is_pair, "a pair of texts: [NODE.output.NAME, NODE.input.NAME]")
        }
        Kind::Slug => (
            node.text().is_some_and(is_slug),
            "a name of lower-case letters, digits and dashes, with a letter first",
        ),
        Kind::Selector => (node.text().is_some_and(|text| text.contains('=')), "LABEL=VALUE"),
    };
    (!is_right).then(|| expected.to_owned())
}

fn is_mount(text: &str) -> bool {
    let after = |text: &str| text.match_indices(":/").any(|(at, _)| at >= 2 && text.len() > at + 2);
    text.starts_with('/') && after(text)
}

fn is_slug(text: &str) -> bool {
    let is_rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() >= 2
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(is_rest)
}
