//! `squeue`: lists jobs that have not ended.

use gpool_compat::testing::{Cell, LONG, Part, START, USUAL, by_letters, by_names};

#[test]
fn formats_are_read() {
    let parts = by_letters("%.18i|%j%%").expect("known");
    assert_eq!(
        parts,
        [
            Part::Cell { head: "JOBID", cell: Cell::Id, width: Some(18), is_right: true },
            Part::Text("|".to_owned()),
            Part::Cell { head: "NAME", cell: Cell::Name, width: None, is_right: false },
            Part::Text("%".to_owned()),
        ]
    );
    for format in [USUAL, LONG, START] {
        assert!(by_letters(format).is_ok(), "{format}");
    }
    assert!(by_letters("%!").is_err() && by_letters("%").is_err());
    assert!(by_names("JobID:10,username").is_ok() && by_names("Shoes").is_err());
}
