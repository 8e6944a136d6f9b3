//! An amount as users write it: a number in the API's unit, or text with a unit.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An amount: a number, or text with a unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// A whole number in the API's unit: bytes, seconds, cores.
    Whole(u64),
    /// A number with decimals.
    Decimal(f64),
    /// Text with a unit: `20G`, `1h30m`, `0.5`.
    Text(String),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Decimal(number) => number.fmt(f),
            Self::Text(text) => f.pad(text),
        }
    }
}

impl From<&str> for Written {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Written {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Written {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(number) => serializer.serialize_u64(*number),
            Self::Decimal(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

struct WrittenVisitor;

impl de::Visitor<'_> for WrittenVisitor {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of at least 0, or a string with a unit")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Written, E> {
        Ok(Written::Whole(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Written, E> {
        let number = u64::try_from(number)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))?;
        Ok(Written::Whole(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Written, E> {
        if !number.is_finite() || number < 0.0 {
            return Err(E::invalid_value(de::Unexpected::Float(number), &self));
        }
        Ok(Written::Decimal(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Written, E> {
        Ok(Written::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenVisitor)
    }
}
