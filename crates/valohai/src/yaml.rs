//! YAML as a tree of values with line numbers. Plain scalars have the types that YAML 1.1 gives
//! them, as in PyYAML, which Valohai uses: `1e-3` is a text and `on` is true.
//! Source: <https://yaml.org/type/>

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::finding::Finding;
use crate::scalar;
pub use crate::value::{Key, Node, Value};

/// The largest file in bytes.
const BYTES_MAX: usize = 1 << 20;
/// The deepest nesting.
const DEPTH_MAX: usize = 64;
/// The largest number of values, including each copy that an alias makes.
const VALUES_MAX: usize = 100_000;

/// Parses the only document of a text.
///
/// # Errors
/// It is not valid YAML, has several documents, or is over a limit.
pub fn parse(text: &str) -> Result<Node, Finding> {
    if text.len() > BYTES_MAX {
        let what = format!("the file has {} bytes; the limit is {BYTES_MAX}", text.len());
        return Err(Finding::error(1, what));
    }
    let mut tree = Tree::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|error| {
            let what = format!("this is not valid YAML: {}", error.info());
            Finding::error(error.marker().line(), what)
                .advice("check the indentation of this line and of the one before")
        })?;
        tree.take(event, span.start.line())?;
    }
    Ok(tree.root.unwrap_or(Node { line: 1, value: Value::Null }))
}

/// A list or mapping whose end is still to come.
struct Open {
    line: usize,
    anchor: usize,
    shape: OpenShape,
}

enum OpenShape {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, merged: Vec<Node>, key: Option<Key> },
}

#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    root: Option<Node>,
    /// Values with an anchor, and their number of values.
    anchors: HashMap<usize, (Node, usize)>,
    n_values: usize,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Finding> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                return Err(Finding::error(line, "the file has more than one document")
                    .advice("remove the line --- between them"));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref(), line)?;
                self.add_node(Node { line, value }, anchor, 1)?;
            }
            Event::Alias(anchor) => {
                let Some((node, n_values)) = self.anchors.get(&anchor).cloned() else {
                    return Err(Finding::error(line, "an alias stands inside its own anchor"));
                };
                self.add_node(node, 0, n_values)?;
            }
            Event::SequenceStart(anchor, tag) => {
                check_tag(tag.as_deref(), "seq", line)?;
                self.begin(line, anchor, OpenShape::List(Vec::new()))?;
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(tag.as_deref(), "map", line)?;
                let shape = OpenShape::Map { entries: Vec::new(), merged: Vec::new(), key: None };
                self.begin(line, anchor, shape)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    let value = match open.shape {
                        OpenShape::List(items) => Value::List(items),
                        OpenShape::Map { entries, merged, .. } => {
                            Value::Map(with_merged(entries, merged)?)
                        }
                    };
                    self.add_node(Node { line: open.line, value }, open.anchor, 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, anchor: usize, shape: OpenShape) -> Result<(), Finding> {
        if self.open.len() >= DEPTH_MAX {
            let what = format!("lists and mappings are nested more than {DEPTH_MAX} deep");
            return Err(Finding::error(line, what));
        }
        self.open.push(Open { line, anchor, shape });
        Ok(())
    }

    /// Adds a complete value to the list or mapping around it.
    fn add_node(&mut self, node: Node, anchor: usize, n_values: usize) -> Result<(), Finding> {
        self.n_values += n_values;
        if self.n_values > VALUES_MAX {
            let what = format!("the file has more than {VALUES_MAX} values");
            return Err(Finding::error(node.line, what)
                .advice("use fewer aliases (*NAME): each makes a copy of its anchor"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), node.n_values()));
        }
        match self.open.last_mut().map(|open| &mut open.shape) {
            None => self.root = Some(node),
            Some(OpenShape::List(items)) => items.push(node),
            Some(OpenShape::Map { entries, merged, key }) => match key.take() {
                None => *key = Some(key_of(&node)?),
                Some(own) if own.text == "<<" && own.is_text => merged.push(node),
                Some(own) => set(entries, own, node),
            },
        }
        Ok(())
    }
}

fn key_of(node: &Node) -> Result<Key, Finding> {
    let (text, is_text) = match &node.value {
        Value::Text(text) => (text.clone(), true),
        Value::List(_) | Value::Map(_) => {
            let what = format!("{} is used as a key", node.value.kind());
            return Err(Finding::error(node.line, what)
                .advice("put quotes around a text that begins with { or ["));
        }
        value => (scalar::text(value), false),
    };
    Ok(Key { line: node.line, text, is_text })
}

/// Sets a key; the last value of a key counts.
fn set(entries: &mut Vec<(Key, Node)>, key: Key, node: Node) {
    match entries.iter_mut().find(|(own, _)| own.text == key.text) {
        Some(entry) => *entry = (key, node),
        None => entries.push((key, node)),
    }
}

/// Adds the entries of merge keys (`<<`). Own keys override them, and earlier mappings override
/// later ones.
fn with_merged(own: Vec<(Key, Node)>, merged: Vec<Node>) -> Result<Vec<(Key, Node)>, Finding> {
    let mut all = Vec::new();
    for node in merged {
        for map in node.one_or_more().iter().rev() {
            let Value::Map(entries) = &map.value else {
                return Err(Finding::error(map.line, "<< needs a mapping").advice("<<: *NAME"));
            };
            for (key, node) in entries {
                set(&mut all, key.clone(), node.clone());
            }
        }
    }
    for (key, node) in own {
        set(&mut all, key, node);
    }
    Ok(all)
}

/// The value of a scalar by its tag or its form.
fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    line: usize,
) -> Result<Value, Finding> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => {
            Ok(Value::Text(text.to_owned()))
        }
        Some(tag) if tag.is_yaml_core_schema() => {
            let value = scalar::resolved(text);
            let fits = match tag.suffix.as_str() {
                "int" => matches!(value, Value::Int(_)),
                "bool" => matches!(value, Value::Bool(_)),
                "null" => value == Value::Null,
                "float" => matches!(value, Value::Float(_) | Value::Int(_)),
                _ => false,
            };
            match (fits, value) {
                (true, Value::Int(whole)) if tag.suffix == "float" => {
                    Ok(text.parse().map_or(Value::Int(whole), Value::Float))
                }
                (true, value) => Ok(value),
                (false, _) => Err(bad_tag(tag, line)),
            }
        }
        Some(tag) if tag.handle != "!" || !tag.suffix.is_empty() => Err(bad_tag(tag, line)),
        Some(_) => Ok(Value::Text(text.to_owned())),
        None if style == ScalarStyle::Plain => Ok(scalar::resolved(text)),
        None => Ok(Value::Text(text.to_owned())),
    }
}

/// Checks the tag of a list or mapping.
fn check_tag(tag: Option<&Tag>, suffix: &str, line: usize) -> Result<(), Finding> {
    match tag {
        Some(tag) if !tag.is_yaml_core_schema() || tag.suffix != suffix => Err(bad_tag(tag, line)),
        _ => Ok(()),
    }
}

fn bad_tag(tag: &Tag, line: usize) -> Finding {
    let what = format!("the tag {tag} is unknown, or does not fit the value");
    Finding::error(line, what).advice("remove the tag, or put quotes around the text")
}
