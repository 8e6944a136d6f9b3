//! The table: one row for each field of [`crate::JobCreate`].

use super::Field;

mod files;
mod place;
mod program;
mod when;

/// A row with defaults: a field without a flag and without checks.
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
            label: None,
            show: None,
        }
    };
}

/// Prepends the list of a lower layer.
macro_rules! join {
    ($field:ident) => {
        Some(|to: &mut $crate::JobCreate, from: &$crate::JobCreate| {
            to.$field = from.$field.iter().chain(&to.$field).cloned().collect();
        })
    };
}

use field;
use join;

/// Returns every field of a job request, in the order of the checks.
pub fn fields() -> impl Iterator<Item = &'static Field> + Clone {
    place::PLACE.iter().chain(when::WHEN).chain(program::PROGRAM).chain(files::FILES)
}
