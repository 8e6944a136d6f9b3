//! Builds trees from the events of the parser, within limits.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::error::YamlError;
use crate::scalar;
use crate::value::{Key, Node, Value};

/// The largest file in bytes.
const BYTES_MAX: usize = 1 << 20;
/// The deepest nesting.
const DEPTH_MAX: usize = 64;
/// The largest number of values, including each copy that an alias makes.
const VALUES_MAX: usize = 100_000;
/// The most bytes of texts, including those in copies that aliases make.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Parses the only document of a text.
///
/// # Errors
/// It is not valid YAML, has several documents, or is over a limit.
pub fn parse(text: &str) -> Result<Node, YamlError> {
    let mut documents = documents(text)?.into_iter();
    match (documents.next(), documents.next()) {
        (_, Some(second)) => {
            Err(YamlError::new(second.line, "the file has more than one document")
                .advice("remove the line --- between them"))
        }
        (only, None) => Ok(only.unwrap_or(Node { line: 1, value: Value::Null })),
    }
}

/// Parses all documents of a text. The limits are those of the whole text.
///
/// # Errors
/// It is not valid YAML, or is over a limit.
pub fn documents(text: &str) -> Result<Vec<Node>, YamlError> {
    if text.len() > BYTES_MAX {
        let what = format!("the file has {} bytes; the limit is {BYTES_MAX}", text.len());
        return Err(YamlError::new(1, what));
    }
    let mut tree = Tree::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|error| {
            let what = format!("this is not valid YAML: {}", error.info());
            YamlError::new(error.marker().line(), what)
                .advice("check the indentation of this line and of the one before")
        })?;
        tree.take(event, span.start.line())?;
    }
    Ok(tree.roots)
}

/// A list or mapping whose end is still to come.
struct Open {
    line: usize,
    anchor: usize,
    shape: OpenShape,
}

/// The number of values of a tree, and the bytes of its texts.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    n_values: usize,
    n_bytes: usize,
}

impl Size {
    fn of(node: &Node) -> Self {
        let mut size = Self { n_values: 1, n_bytes: 0 };
        let mut add = |below: Self| {
            size.n_values += below.n_values;
            size.n_bytes += below.n_bytes;
        };
        match &node.value {
            Value::List(items) => items.iter().for_each(|item| add(Self::of(item))),
            Value::Map(entries) => {
                for (key, item) in entries {
                    add(Self { n_values: 1, n_bytes: key.text.len() });
                    add(Self::of(item));
                }
            }
            Value::Text(text) | Value::Date(text) => {
                add(Self { n_values: 0, n_bytes: text.len() });
            }
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
        }
        size
    }
}

enum OpenShape {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, merged: Vec<Node>, key: Option<Key> },
}

#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    /// The documents in order.
    roots: Vec<Node>,
    /// Values with an anchor, and their size.
    anchors: HashMap<usize, (Node, Size)>,
    size: Size,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), YamlError> {
        match event {
            // An alias of another document would be an error in YAML.
            Event::DocumentStart(_) => self.anchors.clear(),
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref(), line)?;
                let n_bytes = text.len();
                self.add_node(Node { line, value }, anchor, Size { n_values: 1, n_bytes })?;
            }
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(YamlError::new(line, "an alias stands inside its own anchor"));
                };
                self.add_node(node, 0, size)?;
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
                    let size = Size { n_values: 1, n_bytes: 0 };
                    self.add_node(Node { line: open.line, value }, open.anchor, size)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, anchor: usize, shape: OpenShape) -> Result<(), YamlError> {
        if self.open.len() >= DEPTH_MAX {
            let what = format!("lists and mappings are nested more than {DEPTH_MAX} deep");
            return Err(YamlError::new(line, what));
        }
        self.open.push(Open { line, anchor, shape });
        Ok(())
    }

    /// Adds a complete value to the list or mapping around it.
    fn add_node(&mut self, node: Node, anchor: usize, size: Size) -> Result<(), YamlError> {
        self.size.n_values += size.n_values;
        self.size.n_bytes += size.n_bytes;
        let is_large = self.size.n_values > VALUES_MAX;
        if is_large || self.size.n_bytes > TEXT_BYTES_MAX {
            let what = match is_large {
                true => format!("the file has more than {VALUES_MAX} values"),
                false => format!("the file has texts of more than {TEXT_BYTES_MAX} bytes"),
            };
            return Err(YamlError::new(node.line, what)
                .advice("use fewer aliases (*NAME): each makes a copy of its anchor"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), Size::of(&node)));
        }
        match self.open.last_mut().map(|open| &mut open.shape) {
            None => self.roots.push(node),
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

fn key_of(node: &Node) -> Result<Key, YamlError> {
    let (text, is_text) = match &node.value {
        Value::Text(text) => (text.clone(), true),
        Value::List(_) | Value::Map(_) => {
            let what = format!("{} is used as a key", node.value.kind());
            return Err(YamlError::new(node.line, what)
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
fn with_merged(own: Vec<(Key, Node)>, merged: Vec<Node>) -> Result<Vec<(Key, Node)>, YamlError> {
    let mut all = Vec::new();
    for node in merged {
        for map in node.one_or_more().iter().rev() {
            let Value::Map(entries) = &map.value else {
                return Err(YamlError::new(map.line, "<< needs a mapping").advice("<<: *NAME"));
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
) -> Result<Value, YamlError> {
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
fn check_tag(tag: Option<&Tag>, suffix: &str, line: usize) -> Result<(), YamlError> {
    match tag {
        Some(tag) if !tag.is_yaml_core_schema() || tag.suffix != suffix => Err(bad_tag(tag, line)),
        _ => Ok(()),
    }
}

fn bad_tag(tag: &Tag, line: usize) -> YamlError {
    let what = format!("the tag {tag} is unknown, or does not fit the value");
    YamlError::new(line, what).advice("remove the tag, or put quotes around the text")
}
