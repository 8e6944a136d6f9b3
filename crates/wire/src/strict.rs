//! Strict reading of data: objects only from objects, and each name at most once.
//!
//! The readers that serde derives also accept an array for a struct, with its fields in order, and
//! duplicate names in a map. A layer around the format's reader refuses both for every type and at
//! every depth. It also records the place and expected shape of the first invalid value, so that an
//! error message needs no Rust type name.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

/// The expected shape of a value, in terms of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonShape {
    /// `"text"`
    Text,
    /// `true`
    Flag,
    /// `5`, within limits.
    Whole(i128, i128),
    /// `0.5`
    Number,
    /// `null`
    Null,
    /// `[…]`
    Array,
    /// `{…}` with names from the request.
    Map,
    /// `{…}` with the field names of a type.
    Object,
    /// One of several strings, or an object with one of several names.
    OneOf(&'static [&'static str]),
}

impl JsonShape {
    const fn signed(bits: u32) -> Self {
        Self::Whole(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    }

    const fn unsigned(bits: u32) -> Self {
        Self::Whole(0, (1 << bits) - 1)
    }
}

impl fmt::Display for JsonShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a string"),
            Self::Flag => f.write_str("true or false"),
            Self::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Number => f.write_str("a number"),
            Self::Null => f.write_str("null"),
            Self::Array => f.write_str("an array"),
            Self::Map | Self::Object => f.write_str("an object"),
            Self::OneOf(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                write!(f, "one of {}", names.join(", "))
            }
        }
    }
}

/// The place of the first invalid value, and the expected shape.
#[derive(Debug, Clone, Default)]
pub struct ErrorLocation {
    /// Innermost step first.
    steps: Vec<PathStep>,
    expected: Option<JsonShape>,
    is_noted: bool,
}

#[derive(Debug, Clone)]
enum PathStep {
    Name(String),
    Index(usize),
}

impl ErrorLocation {
    /// Returns the path: `table.rows[2]`. Empty for the document itself.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            match step {
                PathStep::Name(name) if path.is_empty() => path.push_str(name),
                PathStep::Name(name) => path.extend([".", name]),
                PathStep::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// Returns the expected shape; `None` if the type accepts several.
    #[must_use]
    pub fn expected(&self) -> Option<JsonShape> {
        self.expected
    }

    fn note(&mut self, expected: Option<JsonShape>) {
        if !self.is_noted {
            (self.is_noted, self.expected) = (true, expected);
        }
    }

    fn step(&mut self, step: PathStep) {
        self.note(None);
        self.steps.push(step);
    }
}

/// Reads a value from a format.
///
/// # Errors
/// The format's own error, and its place.
pub fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    format: D,
) -> Result<T, (D::Error, ErrorLocation)> {
    let place = RefCell::default();
    let read = T::deserialize(Strict { inner: format, place: &place });
    read.map_err(|error| (error, place.into_inner()))
}

/// The layer around a reader.
struct Strict<'p, D> {
    inner: D,
    place: &'p RefCell<ErrorLocation>,
}

macro_rules! layered {
    ($($method:ident($($argument:ident: $kind:ty),*) $shape:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(
            self,
            $($argument: $kind,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            let (place, shape) = (self.place, $shape);
            let read = self.inner.$method($($argument,)* Watched { visitor, place, shape });
            read.inspect_err(|_| place.borrow_mut().note(shape))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    layered! {
        deserialize_any() None;
        deserialize_bool() Some(JsonShape::Flag);
        deserialize_i8() Some(JsonShape::signed(8));
        deserialize_i16() Some(JsonShape::signed(16));
        deserialize_i32() Some(JsonShape::signed(32));
        deserialize_i64() Some(JsonShape::signed(64));
        deserialize_u8() Some(JsonShape::unsigned(8));
        deserialize_u16() Some(JsonShape::unsigned(16));
        deserialize_u32() Some(JsonShape::unsigned(32));
        deserialize_u64() Some(JsonShape::unsigned(64));
        deserialize_f32() Some(JsonShape::Number);
        deserialize_f64() Some(JsonShape::Number);
        deserialize_char() Some(JsonShape::Text);
        deserialize_str() Some(JsonShape::Text);
        deserialize_string() Some(JsonShape::Text);
        deserialize_bytes() Some(JsonShape::Text);
        deserialize_byte_buf() Some(JsonShape::Text);
        deserialize_unit() Some(JsonShape::Null);
        deserialize_unit_struct(name: &'static str) Some(JsonShape::Null);
        deserialize_seq() Some(JsonShape::Array);
        deserialize_tuple(len: usize) Some(JsonShape::Array);
        deserialize_tuple_struct(name: &'static str, len: usize) Some(JsonShape::Array);
        deserialize_map() Some(JsonShape::Map);
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
            Some(JsonShape::Object);
        deserialize_identifier() Some(JsonShape::Text);
        deserialize_ignored_any() None;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let place = self.place;
        self.inner.deserialize_option(Watched { visitor, place, shape: None })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let place = self.place;
        self.inner.deserialize_newtype_struct(name, Watched { visitor, place, shape: None })
    }

    /// A variant without content is a string: serde would also accept `{"name": null}`.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let place = self.place;
        let read = self.inner.deserialize_any(Named { visitor, place });
        read.inspect_err(|_| place.borrow_mut().note(Some(JsonShape::OneOf(names))))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A type's visitor, inside the layer.
struct Watched<'p, V> {
    visitor: V,
    place: &'p RefCell<ErrorLocation>,
    shape: Option<JsonShape>,
}

macro_rules! passed_on {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watched<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }
    passed_on! {
        visit_bool(bool);
        visit_i64(i64);
        visit_u64(u64);
        visit_f64(f64);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict { inner, place: self.place })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict { inner, place: self.place })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        if self.shape == Some(JsonShape::Object) {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.visitor.visit_seq(Items { inner, place: self.place, index: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        // Derived readers detect duplicate fields themselves.
        let past_keys = (self.shape != Some(JsonShape::Object)).then(HashSet::new);
        self.visitor.visit_map(Entries {
            inner,
            place: self.place,
            key: Cow::Borrowed(""),
            past_keys,
        })
    }
}

/// The elements of an array.
struct Items<'p, A> {
    inner: A,
    place: &'p RefCell<ErrorLocation>,
    index: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let (place, index) = (self.place, self.index);
        self.index += 1;
        // The format's own errors occur before the element begins; their place is not shown.
        let read = self.inner.next_element_seed(Seed { seed, place });
        read.inspect_err(|_| place.borrow_mut().step(PathStep::Index(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The entries of an object.
struct Entries<'p, 'de, A> {
    inner: A,
    place: &'p RefCell<ErrorLocation>,
    /// Name of the next value.
    key: Cow<'de, str>,
    /// Names so far, if the type does not detect duplicates.
    past_keys: Option<HashSet<Cow<'de, str>>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, 'de, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let (key, past_keys) = (&mut self.key, self.past_keys.as_mut());
        self.inner.next_key_seed(KeySeed { seed, key, past_keys })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let place = self.place;
        let read = self.inner.next_value_seed(Seed { seed, place });
        read.inspect_err(|_| place.borrow_mut().step(PathStep::Name(self.key.to_string())))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// Reads a name inside the format's own reader, so that an error has the name's position.
struct KeySeed<'k, 'de, S> {
    seed: S,
    key: &'k mut Cow<'de, str>,
    past_keys: Option<&'k mut HashSet<Cow<'de, str>>>,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<'_, 'de, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let Name(key) = Name::deserialize(inner)?;
        if self.past_keys.is_some_and(|seen| !seen.insert(key.clone())) {
            return Err(D::Error::custom(format_args!("duplicate field `{key}`")));
        }
        *self.key = key;
        match &*self.key {
            Cow::Borrowed(key) => self.seed.deserialize(BorrowedStrDeserializer::new(key)),
            Cow::Owned(key) => self.seed.deserialize(StrDeserializer::new(key)),
        }
    }
}

struct Seed<'p, S> {
    seed: S,
    place: &'p RefCell<ErrorLocation>,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(Strict { inner, place: self.place })
    }
}

/// A name in an object, borrowed from the document unless it contains escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}

/// One of several variants: a string without content, an object with content.
struct Named<'p, V> {
    visitor: V,
    place: &'p RefCell<ErrorLocation>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Named<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        self.visitor.visit_enum(StrDeserializer::new(name))
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let entries = Entries {
            inner,
            place: self.place,
            key: Cow::Borrowed(""),
            past_keys: Some(HashSet::new()),
        };
        self.visitor.visit_enum(Only(entries))
    }
}

/// The single entry of an object.
struct Only<A>(A);

impl<'de, A: MapAccess<'de>> EnumAccess<'de> for Only<A> {
    type Error = A::Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(
        mut self,
        seed: S,
    ) -> Result<(S::Value, Self), A::Error> {
        match self.0.next_key_seed(seed)? {
            Some(name) => Ok((name, self)),
            None => Err(A::Error::invalid_value(Unexpected::Map, &"an object with a name")),
        }
    }
}

impl<'de, A: MapAccess<'de>> VariantAccess<'de> for Only<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        Err(A::Error::invalid_type(Unexpected::Map, &"a string"))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(
        mut self,
        seed: S,
    ) -> Result<S::Value, A::Error> {
        let value = self.0.next_value_seed(seed)?;
        match self.0.next_key::<Name<'de>>()? {
            None => Ok(value),
            Some(_) => Err(A::Error::custom("it has more than one name")),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.newtype_variant_seed(Fields { visitor, of: VariantShape::Tuple(len) })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.newtype_variant_seed(Fields { visitor, of: VariantShape::Struct(fields) })
    }
}

/// The fields of a variant with several fields.
struct Fields<V> {
    visitor: V,
    of: VariantShape,
}

enum VariantShape {
    Tuple(usize),
    Struct(&'static [&'static str]),
}

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Fields<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        match self.of {
            VariantShape::Tuple(len) => inner.deserialize_tuple(len, self.visitor),
            VariantShape::Struct(fields) => inner.deserialize_struct("", fields, self.visitor),
        }
    }
}
