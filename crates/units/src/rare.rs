//! A box for values that are usually the default. The default takes one word, which matters in a
//! hundred thousand jobs.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Types with a static default, which can be borrowed without creating one.
pub trait Usual: Default + PartialEq + 'static {
    /// The same as [`Default::default`].
    const USUAL: &'static Self;
}

impl<T: PartialEq + 'static> Usual for Vec<T> {
    const USUAL: &'static Self = &Self::new();
}

impl<T: PartialEq + 'static> Usual for Option<T> {
    const USUAL: &'static Self = &None;
}

impl<T: Ord + 'static> Usual for BTreeSet<T> {
    const USUAL: &'static Self = &Self::new();
}

/// A value that is boxed unless it is the default. Serialized like its content.
#[derive(Debug, Clone)]
pub struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Usual> Rare<T> {
    /// Whether it is the default.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        **self == *T::USUAL
    }
}

impl<T: Usual> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        Self((value != *T::USUAL).then(|| Box::new(value)))
    }
}

impl<T: Usual> Rare<T> {
    /// The value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0.map_or_else(T::default, |value| *value)
    }
}

impl<T: Usual> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::USUAL)
    }
}

impl<T: Usual> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Usual + IntoIterator<Item = I>, I> FromIterator<I> for Rare<T>
where
    T: FromIterator<I>,
{
    fn from_iter<A: IntoIterator<Item = I>>(items: A) -> Self {
        Self::from(T::from_iter(items))
    }
}

impl<'a, T: Usual> IntoIterator for &'a Rare<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<T: Usual> PartialEq for Rare<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Usual + Eq> Eq for Rare<T> {}

impl<T: Usual + Serialize> Serialize for Rare<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Usual + Deserialize<'de>> Deserialize<'de> for Rare<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(T::deserialize(deserializer)?))
    }
}

/// Whether a flag is off, for fields that are then not serialized.
pub fn is_false(flag: &bool) -> bool {
    !flag
}
