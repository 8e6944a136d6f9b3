//! How gpool treats each key of a file.

use crate::shape::{
    EDGE, EXECUTION_NODE, Kind, MOUNT, Mark, PIPELINE, STEP, Shape, TASK, TASK_NODE, WIDGET,
};
use gpool_yaml::{Node, Value};

/// A key that a file uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedKey {
    /// The first line with it.
    pub line: usize,
    /// Its path, e.g. `step.inputs.name`.
    pub path: String,
    pub mark: Mark,
}

/// The items that gpool does not run, and why.
const REFUSED: [(&str, &str); 2] =
    [("endpoint", "gpool runs no deployments"), ("deployment", "gpool runs no deployments")];

/// The keys that the steps and tasks of a file use, those of pipelines that gpool does not fully
/// support, and the items that gpool does not run, by their first
/// lines. The file passed the checks of its schema.
#[must_use]
pub fn of(root: &Node) -> Vec<UsedKey> {
    let mut found: Vec<UsedKey> = Vec::new();
    for item in root.items() {
        if let Some(step) = item.get("step") {
            mapping(step, &STEP, "step", &mut found);
        }
        if let Some(task) = item.get("task") {
            mapping(task, &TASK, "task", &mut found);
        }
        if let Some(pipeline) = item.get("pipeline") {
            let mut own = Vec::new();
            mapping(pipeline, &PIPELINE, "pipeline", &mut own);
            // Whether gpool supports the other keys depends on their values.
            own.retain(|used| used.mark != Mark::Supported);
            own.retain(|used| !found.iter().any(|it| it.path == used.path));
            found.append(&mut own);
        }
        for (path, why) in REFUSED.into_iter().filter(|(path, _)| item.get(path).is_some()) {
            if !found.iter().any(|used| used.path == path) {
                let mark = Mark::Refused(why);
                found.push(UsedKey { line: item.line, path: path.to_owned(), mark });
            }
        }
    }
    found.sort_by_key(|used| used.line);
    found
}

fn mapping(node: &Node, shape: &Shape, path: &str, found: &mut Vec<UsedKey>) {
    for (key, value) in node.entries() {
        let Some(field) = shape.fields.iter().find(|field| field.key == key.text) else { continue };
        let path = format!("{path}.{}", field.key);
        if !found.iter().any(|used| used.path == path) {
            found.push(UsedKey { line: key.line, path: path.clone(), mark: field.mark });
        }
        below(value, field.kind, &path, found);
    }
}

fn below(node: &Node, kind: Kind, path: &str, found: &mut Vec<UsedKey>) {
    match (kind, &node.value) {
        (Kind::List(of), Value::List(items)) => {
            items.iter().for_each(|item| below(item, *of, path, found));
        }
        (Kind::Shape(shape), _) => mapping(node, shape, path, found),
        (Kind::Node, _) => match node.text_of("type") {
            Some("execution") => mapping(node, &EXECUTION_NODE, path, found),
            Some("task") => mapping(node, &TASK_NODE, path, found),
            _ => {}
        },
        (Kind::Edge, Value::Map(_)) => mapping(node, &EDGE, path, found),
        (Kind::Mount, _) => mapping(node, &MOUNT, path, found),
        (Kind::Widget, _) => mapping(node, &WIDGET, path, found),
        _ => {}
    }
}
