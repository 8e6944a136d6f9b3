//! Reads the query string of a request: names and text, which a type may read as numbers or flags.

use serde::de::value::{Error, MapDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::json;
use crate::problem::Problem;
use crate::strict;

/// Reads query parameters.
///
/// # Errors
/// A [`Problem`] with the name of the parameter, or the nearest name for an unknown one.
pub fn read<T: DeserializeOwned>(
    pairs: impl IntoIterator<Item = (String, String)>,
) -> Result<T, Problem> {
    let pairs = pairs.into_iter().map(|(name, text)| (name, Word(text)));
    strict::read(MapDeserializer::<_, Error>::new(pairs)).map_err(|(error, place)| {
        json::misfit(&place, &error.to_string(), "the query", " in the query")
    })
}

/// The text of a parameter.
struct Word(String);

impl IntoDeserializer<'_, Error> for Word {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(Error::invalid_value(Unexpected::Str(&self.0), &visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Word {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    parsed! {
        deserialize_bool visit_bool;
        deserialize_i8 visit_i64;
        deserialize_i16 visit_i64;
        deserialize_i32 visit_i64;
        deserialize_i64 visit_i64;
        deserialize_u8 visit_u64;
        deserialize_u16 visit_u64;
        deserialize_u32 visit_u64;
        deserialize_u64 visit_u64;
        deserialize_f32 visit_f64;
        deserialize_f64 visit_f64;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(StrDeserializer::new(&self.0))
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier ignored_any
    }
}
