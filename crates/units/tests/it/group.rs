//! Tests of `group`.

use gpool_units::group::GroupPlace;

#[test]
fn a_place_is_written_as_it_is_read() {
    for text in
        ["tuning", "tuning/trial", "tuning/trial/0", "a.b-c_d/worker-1/18446744073709551615"]
    {
        let place = GroupPlace::parse(text).expect(text);
        assert_eq!(place.to_string(), text);
        let json = serde_json::to_string(&place).unwrap();
        assert_eq!(serde_json::from_str::<GroupPlace>(&json).unwrap(), place);
    }
    let place = GroupPlace::parse("tuning/trial/7").unwrap();
    assert_eq!((place.name.as_str(), place.role.as_deref()), ("tuning", Some("trial")));
    assert_eq!(place.index, Some(7));
}

#[test]
fn a_wrong_place_is_refused_with_the_position() {
    let long = "x".repeat(64);
    let wrong = [
        ("", 0),
        ("7", 0),
        ("a b", 0),
        ("/trial", 0),
        (&long, 0),
        ("tuning/", 7),
        ("tuning//3", 7),
        ("tuning/trial/", 13),
        ("tuning/trial/x", 13),
        ("tuning/trial/-1", 13),
        ("tuning/trial/01", 13),
        ("tuning/trial/1/2", 13),
        ("tuning/trial/18446744073709551616", 13),
    ];
    for (text, position) in wrong {
        let error = GroupPlace::parse(text).expect_err(text);
        assert_eq!(error.position, position, "{error}");
    }
}
