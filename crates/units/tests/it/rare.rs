//! Tests of `rare`.

use std::ops::DerefMut as _;

use gpool_units::rare::{Rare, Usual};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Notes(Vec<String>);

impl Usual for Notes {
    const USUAL: &'static Self = &Self(Vec::new());
}

#[test]
fn defaults_take_one_word_and_values_round_trip() {
    let mut notes = Rare::<Notes>::default();
    assert_eq!(size_of_val(&notes), size_of::<usize>());
    assert_eq!(serde_json::to_string(&notes).unwrap(), "[]");
    notes.deref_mut().0.push("late".to_owned());
    let text = serde_json::to_string(&notes).unwrap();
    assert_eq!(text, r#"["late"]"#);
    assert_eq!(serde_json::from_str::<Rare<Notes>>(&text).unwrap(), notes);
}

#[test]
fn values_reset_to_the_default_equal_it() {
    let mut notes = Rare::<Notes>::default();
    notes.deref_mut().0.clear();
    assert_eq!(notes, Rare::default());
    assert!(Rare::from(Notes::default()).is_usual());
}
