//! Values of fields, unchecked.

use std::collections::BTreeMap;

use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer, Serialize};

use crate::amount::Quantity;
use crate::array::{Param, ParamTable};
use crate::course::RetryPolicy;
use crate::create::{Origin, ScriptText};
use crate::launch::{Activate, Setup, Window};
use crate::time::Time;

/// A mutable reference to a field's value in a [`crate::JobCreate`], by type.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Slot<'a> {
    /// Text.
    Text(&'a mut Option<String>),
    /// A number or text.
    Amount(&'a mut Option<Quantity>),
    /// A whole number.
    Count(&'a mut Option<u32>),
    /// An integer.
    Number(&'a mut Option<i32>),
    /// True, false or unset.
    Choice(&'a mut Option<bool>),
    /// True or false.
    Switch(&'a mut bool),
    /// A list of strings.
    List(&'a mut Vec<String>),
    /// Texts by name.
    Variables(&'a mut BTreeMap<String, String>),
    /// A timestamp.
    Moment(&'a mut Option<Time>),
    /// Retries.
    Retry(&'a mut Option<RetryPolicy>),
    /// A script.
    Script(&'a mut Option<ScriptText>),
    /// A value without a flag that no edit changes.
    Fixed,
}

/// A value as a job's page shows it; `None` if it is not set.
pub(super) fn text(value: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(false) | Value::Object(_) => None,
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().filter_map(text).collect();
            Some(texts.join(", ")).filter(|text| !text.is_empty())
        }
    }
}

/// Whether a value is set.
pub(super) fn is_said<T: Default + PartialEq>(value: &T) -> bool {
    *value != T::default()
}

macro_rules! slots {
    ($($type:ty => $slot:ident),* $(,)?) => {$(
        impl<'a> From<&'a mut $type> for Slot<'a> {
            fn from(value: &'a mut $type) -> Self {
                Self::$slot(value)
            }
        }
    )*};
}

macro_rules! fixed {
    ($($type:ty),*) => {$(
        impl From<&mut $type> for Slot<'_> {
            fn from(_: &mut $type) -> Self {
                Self::Fixed
            }
        }
    )*};
}

slots! {
    Option<String> => Text,
    Option<Quantity> => Amount,
    Option<u32> => Count,
    Option<i32> => Number,
    Option<bool> => Choice,
    bool => Switch,
    Vec<String> => List,
    BTreeMap<String, String> => Variables,
    Option<Time> => Moment,
    Option<RetryPolicy> => Retry,
    Option<ScriptText> => Script,
}

fixed!(
    Option<Window>,
    Vec<Activate>,
    Option<Setup>,
    Vec<Param>,
    Option<ParamTable>,
    Option<Vec<serde_json::Value>>,
    Option<Origin>
);

impl Slot<'_> {
    /// Stores the checked values of a flag.
    pub fn read(self, mut values: Vec<String>) {
        match self {
            Self::Text(to) => *to = values.pop(),
            Self::Amount(to) => *to = values.pop().map(Quantity::Text),
            Self::Count(to) => *to = values.pop().and_then(|word| word.parse().ok()),
            Self::Number(to) => *to = values.pop().and_then(|word| word.parse().ok()),
            Self::Choice(to) => *to = values.pop().and_then(|word| word.parse().ok()),
            Self::Switch(to) => *to = true,
            Self::List(to) => to.extend(values),
            Self::Variables(_)
            | Self::Moment(_)
            | Self::Retry(_)
            | Self::Script(_)
            | Self::Fixed => {}
        }
    }
}

/// Reads the value from JSON, and returns whether it is not `null`.
impl<'de> DeserializeSeed<'de> for Slot<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
            to: &mut Option<T>,
            json: D,
        ) -> Result<bool, D::Error> {
            *to = Option::deserialize(json)?;
            Ok(to.is_some())
        }
        match self {
            Self::Text(to) => read(to, json),
            Self::Amount(to) => read(to, json),
            Self::Count(to) => read(to, json),
            Self::Number(to) => read(to, json),
            Self::Choice(to) => read(to, json),
            Self::Moment(to) => read(to, json),
            Self::Retry(to) => read(to, json),
            Self::Script(to) => read(to, json),
            Self::Switch(to) => {
                let said = Option::deserialize(json)?;
                *to = said.unwrap_or_default();
                Ok(said.is_some())
            }
            Self::List(to) => {
                let said = Option::deserialize(json)?;
                let is_said = said.is_some();
                *to = said.unwrap_or_default();
                Ok(is_said)
            }
            Self::Variables(to) => {
                let said = Option::deserialize(json)?;
                let is_said = said.is_some();
                *to = said.unwrap_or_default();
                Ok(is_said)
            }
            Self::Fixed => serde::de::IgnoredAny::deserialize(json).map(|_| false),
        }
    }
}
