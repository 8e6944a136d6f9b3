//! Output of several tasks, elements or jobs: each line has a label, the rank of its task or the id
//! of its job, and lines are never mixed.

use std::io::Write as _;

use gpool_cli::labelled::{LINE_MAX, Labelled};

#[test]
fn each_line_comes_whole_with_its_rank() {
    let mut shown = Vec::new();
    let mut it = Labelled::new("3: ".to_owned(), &mut shown);
    for part in ["on", "e\ntwo\n\nth", "ree"] {
        it.write_all(part.as_bytes()).expect("memory");
    }
    it.finish().expect("memory");
    assert_eq!(String::from_utf8_lossy(&shown), "3: one\n3: two\n3: \n3: three\n");
}

#[test]
fn a_line_without_end_is_cut() {
    let mut shown = Vec::new();
    let mut it = Labelled::new("0: ".to_owned(), &mut shown);
    for _ in 0..3 {
        it.write_all(&[b'x'; LINE_MAX]).expect("memory");
    }
    it.finish().expect("memory");
    assert_eq!(shown.iter().filter(|byte| **byte == b'\n').count(), 2);
}
