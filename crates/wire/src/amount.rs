//! An amount as users write it: a number in the API's unit, or text with a unit.

use std::fmt;

use gpool_model::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::seconds;

/// An amount: a number, or text with a unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// A whole number in the API's unit: bytes, seconds, cores.
    Whole(u64),
    /// A number with decimals.
    Decimal(f64),
    /// Text with a unit: `20G`, `1h30m`, `0.5`.
    Text(String),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Decimal(number) => number.fmt(f),
            Self::Text(text) => f.pad(text),
        }
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Quantity {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Quantity {
    /// The number in the API's unit. `None` for text; in answers only a range is text.
    #[must_use]
    pub const fn number(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "no amount needs more than 53 bits")]
            Self::Whole(number) => Some(*number as f64),
            Self::Decimal(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// The number if it is whole, as for bytes.
    #[must_use]
    pub const fn whole(&self) -> Option<u64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Decimal(_) | Self::Text(_) => None,
        }
    }
}

impl From<Millis> for Quantity {
    fn from(span: Millis) -> Self {
        Self::Decimal(seconds(span))
    }
}

impl From<u64> for Quantity {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(number) => serializer.serialize_u64(*number),
            Self::Decimal(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

struct QuantityVisitor;

impl de::Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of at least 0, or a string with a unit")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity::Whole(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        let number = u64::try_from(number)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))?;
        Ok(Quantity::Whole(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        if !number.is_finite() || number < 0.0 {
            return Err(E::invalid_value(de::Unexpected::Float(number), &self));
        }
        Ok(Quantity::Decimal(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}
