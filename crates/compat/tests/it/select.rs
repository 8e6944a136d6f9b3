//! Selects jobs by id, user, name and state. Slurm's ids are `7`, `7_4`, `7_[1-3]`, and a plain
//! number for an element of an array (`1073748996`).

use gpool_compat::testing::ids;

#[test]
fn ids_are_read_as_slurm_writes_them() {
    let read = |text: &str| ids(std::iter::once(text.to_owned()));
    assert_eq!(read("7,8_2").as_deref(), Ok(&["7".to_owned(), "8.2".to_owned()][..]));
    assert_eq!(read("7_[1-3,5]").map(|ids| ids.join(" ")).as_deref(), Ok("7.1 7.2 7.3 7.5"));
    assert_eq!(read("1073748996").as_deref(), Ok(&["7.4".to_owned()][..]));
    assert_eq!(read("7.batch").as_deref(), Ok(&["7".to_owned()][..]));
    for text in ["x", "7_x", "7_[3-1]", "0", "-1", "7_[0-99999999999]", "7__"] {
        assert!(read(text).is_err(), "{text}");
    }
}
