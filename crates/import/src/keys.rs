//! Mappings key by key, and values of the expected type.

use gpool_yaml::{Node, Value, YamlError, scalar};

use crate::note::Notes;

/// Passes each key of a mapping to `take`, which returns whether it handles the key. Other keys get
/// a note: with the reason of the table `reasons`, or that the key is unknown. Empty values are
/// skipped.
///
/// # Errors
/// The value is no mapping, or `take` fails.
pub(crate) fn each<'n>(
    node: &'n Node,
    path: &str,
    reasons: &[(&str, &str)],
    notes: &mut Notes,
    mut take: impl FnMut(&str, &'n Node, &mut Notes) -> Result<bool, YamlError>,
) -> Result<(), YamlError> {
    for (key, value) in map(node, path)? {
        if value.value == Value::Null || take(&key.text, value, notes)? {
            continue;
        }
        let reason = reasons.iter().find(|(name, _)| *name == key.text).map(|(_, reason)| *reason);
        let full = child_path(path, &key.text);
        notes.not_taken(key.line, &full, reason.unwrap_or("gpool import does not know this key"));
    }
    Ok(())
}

/// The path of a key below another.
pub(crate) fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The entries of a mapping; none of an empty value.
pub(crate) fn map<'n>(
    node: &'n Node,
    path: &str,
) -> Result<&'n [(gpool_yaml::Key, Node)], YamlError> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        Value::Null => Ok(&[]),
        _ => Err(wrong(node, path, "a mapping")),
    }
}

/// The items of a list.
pub(crate) fn list<'n>(node: &'n Node, path: &str) -> Result<&'n [Node], YamlError> {
    match &node.value {
        Value::List(items) => Ok(items),
        _ => Err(wrong(node, path, "a list")),
    }
}

/// A text; numbers and booleans count as their text.
pub(crate) fn text(node: &Node, path: &str) -> Result<String, YamlError> {
    match &node.value {
        Value::Bool(is) => Ok(is.to_string()),
        Value::List(_) | Value::Map(_) | Value::Null => Err(wrong(node, path, "a text")),
        value => Ok(scalar::text(value)),
    }
}

/// A text or a list of texts.
pub(crate) fn texts(node: &Node, path: &str) -> Result<Vec<String>, YamlError> {
    node.one_or_more().iter().map(|item| text(item, path)).collect()
}

/// A whole number that is not negative; a text of digits counts.
pub(crate) fn count(node: &Node, path: &str) -> Result<u32, YamlError> {
    let number = match &node.value {
        Value::Int(whole) => u32::try_from(*whole).ok(),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| wrong(node, path, "a whole number"))
}

/// A boolean; Kubernetes also writes the texts `"true"` and `"false"`.
pub(crate) fn flag(node: &Node, path: &str) -> Result<bool, YamlError> {
    match &node.value {
        Value::Bool(is) => Ok(*is),
        Value::Text(text) if text == "true" => Ok(true),
        Value::Text(text) if text == "false" => Ok(false),
        _ => Err(wrong(node, path, "true or false")),
    }
}

/// The error of a value with another type.
pub(crate) fn wrong(node: &Node, path: &str, expected: &str) -> YamlError {
    let found = match &node.value {
        Value::Null => "it is empty".to_owned(),
        Value::List(_) | Value::Map(_) => format!("it is {}", node.value.kind()),
        value => {
            let shown: String = scalar::text(value).chars().take(40).collect();
            format!("it is {shown:?}")
        }
    };
    let path = if path.is_empty() { "the file" } else { path };
    YamlError::new(node.line, format!("{path} needs {expected}; {found}"))
}
