//! Lists in every format: columns for people, JSON, JSON lines, CSV, names. A [`Noun`] describes
//! the items; filters and sort orders use the keys of the JSON, so they are the same for every
//! noun.

use gpool_cli::render::list::natural;

#[test]
fn numbers_in_text_are_compared_as_numbers() {
    let mut names = ["job10", "job9", "10", "9", "", "a", "job09"];
    names.sort_by(|a, b| natural(a, b));
    assert_eq!(names, ["", "9", "10", "a", "job9", "job09", "job10"]);
}
