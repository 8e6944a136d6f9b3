//! Marks of changed rows.

use gpool_cli::marks::Marks;
use gpool_wire::Time;

#[test]
fn new_and_changed_rows_are_marked_for_a_while() {
    let at = |second: u32| -> Time { format!("2026-11-20T15:30:{second:02}Z").parse().unwrap() };
    let mut marks = Marks::default();
    let mut note = |rows: &[(&str, &str)], second| {
        let rows = rows.iter().map(|(name, contents)| ((*name).to_owned(), (*contents).to_owned()));
        marks.note(rows, at(second)).into_iter().collect::<Vec<_>>()
    };
    assert!(note(&[("1", "running"), ("2", "pending")], 0).is_empty(), "nothing is known before");
    assert_eq!(note(&[("1", "running"), ("2", "running"), ("3", "held")], 2), ["2", "3"]);
    assert_eq!(note(&[("1", "running"), ("2", "running"), ("3", "held")], 5), ["2", "3"]);
    assert_eq!(note(&[("1", "stopping"), ("2", "running")], 6), ["1"], "and 3 is gone");
    assert!(note(&[("1", "stopping"), ("2", "running")], 20).is_empty());
}
