//! Values of fields as they are written.

use std::collections::BTreeMap;

use crate::amount::Written;
use crate::array::{Param, ParamTable};
use crate::course::RetryAsked;
use crate::create::ScriptText;
use crate::launch::{Activate, Setup, Window};
use crate::time::Time;

/// The type of a field of [`crate::JobCreate`].
pub trait FieldValue: Clone {
    /// Whether it says anything.
    fn is_said(&self) -> bool;

    /// Reads the values of a flag, which were checked.
    fn read(&mut self, values: Vec<String>);
}

/// A value that a flag may say in one word.
trait FromWord: Sized {
    /// Returns `None` where no single flag says such a value.
    fn from_word(_: String) -> Option<Self> {
        None
    }
}

impl FromWord for String {
    fn from_word(word: String) -> Option<Self> {
        Some(word)
    }
}

impl FromWord for Written {
    fn from_word(word: String) -> Option<Self> {
        Some(Self::Text(word))
    }
}

macro_rules! parsed {
    ($($type:ty),*) => {$(
        impl FromWord for $type {
            fn from_word(word: String) -> Option<Self> {
                word.parse().ok()
            }
        }
    )*};
}

macro_rules! composed {
    ($($type:ty),*) => {$(
        impl FromWord for $type {}
    )*};
}

parsed!(u32, i32, bool);
composed!(
    ScriptText,
    Window,
    Activate,
    Setup,
    RetryAsked,
    Time,
    Param,
    ParamTable,
    Vec<serde_json::Value>
);

impl<T: FromWord + Clone> FieldValue for Option<T> {
    fn is_said(&self) -> bool {
        self.is_some()
    }

    fn read(&mut self, mut values: Vec<String>) {
        *self = values.pop().and_then(T::from_word);
    }
}

impl<T: FromWord + Clone> FieldValue for Vec<T> {
    fn is_said(&self) -> bool {
        !self.is_empty()
    }

    fn read(&mut self, values: Vec<String>) {
        self.extend(values.into_iter().filter_map(T::from_word));
    }
}

impl FieldValue for bool {
    fn is_said(&self) -> bool {
        *self
    }

    fn read(&mut self, _: Vec<String>) {
        *self = true;
    }
}

impl FieldValue for BTreeMap<String, String> {
    fn is_said(&self) -> bool {
        !self.is_empty()
    }

    fn read(&mut self, _: Vec<String>) {}
}
