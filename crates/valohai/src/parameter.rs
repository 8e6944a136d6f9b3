//! The parameters of a step, and the arguments that they become.

use gpool_yaml::scalar;
use gpool_yaml::{Node, Value};

/// The type of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    Text,
    Integer,
    Float,
    Flag,
}

/// How a parameter with several values becomes arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Multiple {
    /// The argument is repeated for each value.
    Repeat,
    /// The values are joined with this text.
    Separate(String),
}

/// A parameter of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub line: usize,
    pub name: String,
    pub kind: ParameterType,
    pub default: Option<Value>,
    pub is_optional: bool,
    pub choices: Vec<Value>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub pass_as: Option<String>,
    pub pass_true_as: Option<String>,
    pub pass_false_as: Option<String>,
    pub multiple: Option<Multiple>,
}

impl Parameter {
    /// Reads a parameter that passed the checks of its schema.
    #[must_use]
    pub fn read(node: &Node) -> Self {
        let text = |key| node.text_of(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let kind = match node.text_of("type") {
            Some("integer") => ParameterType::Integer,
            Some("float") => ParameterType::Float,
            Some("flag") => ParameterType::Flag,
            _ => ParameterType::Text,
        };
        let multiple = match node.text_of("multiple") {
            Some("repeat") => Some(Multiple::Repeat),
            Some("separate") => {
                Some(Multiple::Separate(text("multiple-separator").unwrap_or(",".to_owned())))
            }
            _ => None,
        };
        let choices = node.get("choices").map(Node::items).unwrap_or_default();
        let mut choices: Vec<Value> = choices.iter().map(|item| item.value.clone()).collect();
        let is_flag = kind == ParameterType::Flag;
        if is_flag {
            choices = vec![Value::Bool(true), Value::Bool(false)];
        }
        let is_optional = node.get("optional").is_some_and(|it| it.value == Value::Bool(true));
        Self {
            line: node.line,
            name: node.text_of("name").unwrap_or_default().to_owned(),
            kind,
            default: default(node, multiple.is_some()),
            is_optional: is_flag || is_optional,
            choices,
            min: limit(node.get("min")),
            max: limit(node.get("max")),
            pass_as: text("pass-as"),
            pass_true_as: text("pass-true-as").filter(|_| is_flag),
            pass_false_as: text("pass-false-as").filter(|_| is_flag),
            multiple,
        }
    }

    /// The arguments for a value, without quotes.
    #[must_use]
    pub fn arguments(&self, value: &Value) -> Vec<String> {
        let Some(template) = self.template(value) else { return Vec::new() };
        let one = |text: &str| -> Vec<String> {
            template.split_whitespace().map(|word| self.filled(word, text)).collect()
        };
        let atoms = match value {
            Value::List(items) => items.iter().map(|item| scalar::text(&item.value)).collect(),
            other => vec![scalar::text(other)],
        };
        match &self.multiple {
            Some(Multiple::Repeat) => atoms.iter().flat_map(|atom| one(atom)).collect(),
            Some(Multiple::Separate(_)) if atoms.is_empty() => Vec::new(),
            Some(Multiple::Separate(separator)) => one(&atoms.join(separator)),
            None => one(&scalar::text(value)),
        }
    }

    fn template(&self, value: &Value) -> Option<&str> {
        if *value == Value::Null {
            return None;
        }
        if self.kind != ParameterType::Flag {
            return Some(self.pass_as.as_deref().unwrap_or("--{name}={value}"));
        }
        if self.pass_true_as.is_some() || self.pass_false_as.is_some() {
            let template = if truth(value) { &self.pass_true_as } else { &self.pass_false_as };
            return template.as_deref();
        }
        truth(value).then(|| self.pass_as.as_deref().unwrap_or("--{name}"))
    }

    fn filled(&self, word: &str, value: &str) -> String {
        let (mut filled, mut rest) = (String::new(), word);
        let places =
            [("{{", "{"), ("}}", "}"), ("{name}", &self.name), ("{value}", value), ("{v}", value)];
        while let Some(first) = rest.chars().next() {
            match places.iter().find_map(|(from, to)| Some((rest.strip_prefix(from)?, to))) {
                Some((after, to)) => {
                    filled.push_str(to);
                    rest = after;
                }
                None => {
                    filled.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        filled
    }

    /// Reads a value from a command line. Several texts make several values.
    ///
    /// # Errors
    /// The value is not allowed; the text says why.
    pub fn value(&self, texts: &[String]) -> Result<Value, String> {
        if self.multiple.is_none() && texts.len() > 1 {
            return Err(format!("it has one value, not {}", texts.len()));
        }
        let mut values = Vec::new();
        for text in texts {
            let value = self.typed(&Value::Text(text.clone()))?;
            if let Some(why) = self.refusal(&value) {
                return Err(why);
            }
            values.push(value);
        }
        match &self.multiple {
            None => values.pop().ok_or_else(|| "it has no value".to_owned()),
            Some(_) => {
                let line = self.line;
                Ok(Value::List(values.into_iter().map(|value| Node { line, value }).collect()))
            }
        }
    }

    /// The value in the parameter's type.
    ///
    /// # Errors
    /// It has another type; the text says so.
    pub fn typed(&self, value: &Value) -> Result<Value, String> {
        let text = scalar::text(value);
        let trimmed = text.trim().replace('_', "");
        match self.kind {
            ParameterType::Text => Ok(value.clone()),
            ParameterType::Integer => match trimmed.parse() {
                Ok(whole) => Ok(Value::Int(whole)),
                Err(_) => Err(format!("{text:?} is not a whole number")),
            },
            ParameterType::Float => match trimmed.parse() {
                Ok(number) => Ok(Value::Float(number)),
                Err(_) => Err(format!("{text:?} is not a number")),
            },
            ParameterType::Flag => match (value, text.to_lowercase().as_str()) {
                (Value::Bool(_), _) => Ok(value.clone()),
                (_, "true" | "yes" | "on" | "1") => Ok(Value::Bool(true)),
                (_, "false" | "no" | "off" | "0") => Ok(Value::Bool(false)),
                _ => Err(format!("{text:?} is neither true nor false")),
            },
        }
    }

    /// Why a typed value is not allowed.
    #[must_use]
    pub fn refusal(&self, value: &Value) -> Option<String> {
        let number = as_number(value);
        let shown = scalar::text(value);
        if let (Some(min), Some(number)) = (self.min, number)
            && number < min
        {
            return Some(format!("{shown} is less than the minimum {}", shortest(min)));
        }
        if let (Some(max), Some(number)) = (self.max, number)
            && number > max
        {
            return Some(format!("{shown} is greater than the maximum {}", shortest(max)));
        }
        if self.choices.is_empty() || self.choices.iter().any(|choice| equal(choice, value)) {
            return None;
        }
        let choices: Vec<String> = self.choices.iter().map(scalar::text).collect();
        Some(format!("{shown} is none of the choices {}", choices.join(", ")))
    }
}

fn default(node: &Node, is_multiple: bool) -> Option<Value> {
    let node = node.get("default")?;
    match &node.value {
        Value::Null if is_multiple => Some(Value::List(Vec::new())),
        Value::Null => None,
        Value::List(_) => Some(node.value.clone()),
        _ if is_multiple => Some(Value::List(vec![node.clone()])),
        value => Some(value.clone()),
    }
}

fn limit(node: Option<&Node>) -> Option<f64> {
    node.and_then(|node| as_number(&node.value))
}

/// A number without `.0`.
fn shortest(number: f64) -> String {
    format!("{number}")
}

/// The number that Python compares.
fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(whole) => Some(*whole as f64),
        Value::Float(number) => Some(*number),
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        _ => None,
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    match (as_number(a), as_number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq() || a == b,
        _ => a == b,
    }
}

/// Whether Python takes the value as true.
#[must_use]
pub fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Int(whole) => *whole != 0,
        Value::Float(number) => *number != 0.0,
        Value::Date(text) | Value::Text(text) => !text.is_empty(),
        Value::List(items) => !items.is_empty(),
        Value::Map(entries) => !entries.is_empty(),
    }
}
