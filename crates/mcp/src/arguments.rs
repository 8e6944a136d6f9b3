//! The arguments of a call, checked against the fields of its tool.

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_wire::catalogue;
use serde_json::{Map, Value};

use crate::field::{Field, FieldKind};

/// The arguments of a call.
#[derive(Debug, Clone, Default)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Checks the arguments of a tool: names, types and required ones.
    ///
    /// # Errors
    /// A name is unknown, a value has another type, or one is missing.
    pub fn of(tool: &str, fields: &[Field], arguments: Map<String, Value>) -> Result<Self> {
        let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
        for (name, value) in &arguments {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                let what = format!("tool {tool} has no argument {name:?}");
                let failure = Failure::new(errors::USAGE, what);
                return Err(match names.is_empty() {
                    true => failure.why("it has no arguments"),
                    false => failure.why(format!("it has {}", names.join(", "))),
                });
            };
            if !value.is_null() && !field.kind.fits(value) {
                let what = format!("argument {name} of tool {tool} is no {}", field.kind.noun());
                return Err(
                    Failure::new(catalogue::INVALID, what).why(format!("it is {}", brief(value)))
                );
            }
        }
        let missing = fields.iter().find(|field| {
            field.is_required && arguments.get(field.name).is_none_or(Value::is_null)
        });
        match missing {
            None => Ok(Self(arguments)),
            Some(field) => {
                let what = format!("tool {tool} needs the argument {}", field.name);
                Err(Failure::new(errors::USAGE, what).why(field.about))
            }
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let items = self.0.get(name).and_then(Value::as_array);
        let texts = items.into_iter().flatten().filter_map(|item| match item {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        texts.collect()
    }

    /// All arguments that are not null, as one object.
    pub(crate) fn object(&self) -> Value {
        let given = self.0.iter().filter(|(_, value)| !value.is_null());
        Value::Object(given.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

impl FieldKind {
    /// Whether a value has this type.
    fn fits(self, value: &Value) -> bool {
        let is_text = |value: &Value| value.is_string() || value.is_u64();
        match self {
            Self::Text => is_text(value),
            Self::Number => value.is_u64(),
            Self::Flag => value.is_boolean(),
            Self::Texts => value.as_array().is_some_and(|items| items.iter().all(is_text)),
            Self::Map => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
        }
    }

    /// The type, for messages.
    fn noun(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "whole number",
            Self::Flag => "boolean",
            Self::Texts => "list of texts",
            Self::Map => "object of texts",
        }
    }
}

/// The start of a value, for messages.
fn brief(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}
