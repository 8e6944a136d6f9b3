//! The keys of a type's JSON, for columns, filters and sorting.

use std::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Returns the keys of a struct's JSON in alphabetical order. They are those that its derived
/// `Deserialize` reads, so there are none for a struct with a flattened field.
#[must_use]
pub fn keys<T: DeserializeOwned>() -> Vec<String> {
    let mut keys: &[&str] = &[];
    // It always fails, since there is no struct to return.
    drop(T::deserialize(Fields(&mut keys)));
    let mut keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    keys.sort();
    keys
}

/// A deserializer without data. It notes the fields that a struct requests.
struct Fields<'a>(&'a mut &'static [&'static str]);

/// That there is no data.
#[derive(Debug)]
struct NoData;

impl fmt::Display for NoData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no data")
    }
}

impl std::error::Error for NoData {}

impl de::Error for NoData {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = NoData;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoData> {
        Err(NoData)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NoData> {
        *self.0 = fields;
        Err(NoData)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 i128 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
