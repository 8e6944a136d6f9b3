//! The table: a row for each field of [`crate::JobCreate`].

use super::Field;

mod place;
mod program;
mod when;

/// A field that no single flag says and that nothing follows from by itself.
macro_rules! field {
    ($key:literal, $field:ident) => {
        $crate::field::Field {
            key: $key,
            flag: None,
            group: $crate::field::Group::Own,
            is_said: |job: &$crate::JobCreate| $crate::field::value::is_said(&job.$field),
            take: |to: &mut $crate::JobCreate, from: &$crate::JobCreate| {
                to.$field.clone_from(&from.$field)
            },
            join: None,
            slot: |job: &mut $crate::JobCreate| (&mut job.$field).into(),
            clears: false,
            apply: |_, _| Ok(()),
            is_private: false,
            show: |_, _, _| (),
        }
    };
}

/// Puts the list of a layer below first.
macro_rules! join {
    ($field:ident) => {
        Some(|to: &mut $crate::JobCreate, from: &$crate::JobCreate| {
            to.$field = from.$field.iter().chain(&to.$field).cloned().collect();
        })
    };
}

use field;
use join;

/// Returns every field of a job request, in the order in which requests are checked.
pub fn fields() -> impl Iterator<Item = &'static Field> + Clone {
    place::PLACE.iter().chain(when::WHEN).chain(program::PROGRAM)
}
