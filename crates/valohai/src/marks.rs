//! How gpool treats each key of a file.

use crate::shape::{
    DEPLOYMENT, DEPLOYMENT_NODE, EDGE, EXECUTION_NODE, ITEMS, Kind, MOUNT, Mark, Shape, TASK_NODE,
    WIDGET,
};
use crate::yaml::{Node, Value};

/// A key that a file uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedKey {
    /// The first line with it.
    pub line: usize,
    /// Its path, e.g. `step.inputs.name`.
    pub path: String,
    pub mark: Mark,
}

/// The keys that a file uses, by their first lines. The file passed the checks of its schema.
#[must_use]
pub fn of(root: &Node) -> Vec<UsedKey> {
    let mut found = Vec::new();
    let shapes = ITEMS.into_iter().chain([("deployment", &DEPLOYMENT)]);
    for item in root.items() {
        for (key, shape) in shapes.clone() {
            if let Some(node) = item.get(key) {
                mapping(node, shape, key, &mut found);
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
        (Kind::Mount, _) => mapping(node, &MOUNT, path, found),
        (Kind::Widget, _) => mapping(node, &WIDGET, path, found),
        (Kind::Edge, _) => mapping(node, &EDGE, path, found),
        (Kind::Node, _) => match node.text_of("type") {
            Some("task") => mapping(node, &TASK_NODE, path, found),
            Some("deployment") => mapping(node, &DEPLOYMENT_NODE, path, found),
            _ => mapping(node, &EXECUTION_NODE, path, found),
        },
        _ => {}
    }
}
