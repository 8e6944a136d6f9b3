//! Tests of `parameter`.

use gpool_sweep::parameter::{Domain, Range};

#[test]
fn ranges_are_read() {
    let range = |text| Range::parse(text).expect(text).expect(text);
    let log = range("1e-5..1e-1:log");
    assert_eq!((log.low, log.high, log.is_log, log.is_int), (1e-5, 0.1, true, false));
    let ints = range("2..8");
    assert_eq!((ints.low, ints.high, ints.is_int, ints.step), (2.0, 8.0, true, None));
    let steps = range("0..1:0.25");
    assert_eq!((steps.is_int, steps.step), (false, Some(0.25)));
    assert!(range("-3..-1").is_int);
    assert!(!range("1..8.0").is_int);
    assert!(range("16..256:log").is_int);
}

#[test]
fn texts_that_are_no_ranges_are_values() {
    for text in ["16", "../data", "a..b", "v1.0", "", ".."] {
        assert_eq!(Range::parse(text), Ok(None), "{text}");
    }
    let values = vec!["1..2".to_owned(), "3".to_owned()];
    assert_eq!(Domain::parse(values.clone()), Ok(Domain::Choice(values)));
}

#[test]
fn ranges_without_values_are_refused() {
    let wrong = [
        ("1..", "no number"),
        ("..5", "no number"),
        ("1..x", "no number"),
        ("5..1", "does not ascend"),
        ("1..1", "does not ascend"),
        ("0..1:log", "does not begin above 0"),
        ("-1..1:log", "does not begin above 0"),
        ("1..9:log:2", "a step and a logarithmic scale"),
        ("0..1:2", "does not fit in"),
        ("0..1:0", "does not fit in"),
        ("0..1:-1", "does not fit in"),
        ("0..1:lin", "neither log nor a step"),
        ("0..1e300", ""),
        ("1..nan", "no number"),
        ("1..99999999999999999999", "too large"),
    ];
    for (text, why) in wrong {
        match Range::parse(text) {
            Err(fault) => assert!(fault.what.contains(why), "{text}: {}", fault.what),
            Ok(found) => assert!(why.is_empty(), "{text}: {found:?}"),
        }
    }
}

#[test]
fn a_grid_has_both_ends() {
    let values = |text: &str| Domain::parse(vec![text.to_owned()]).expect(text).values();
    let texts = |list: &[&str]| Some(list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    assert_eq!(values("0..0.5:0.1"), texts(&["0", "0.1", "0.2", "0.3", "0.4", "0.5"]));
    assert_eq!(values("1..4"), texts(&["1", "2", "3", "4"]));
    assert_eq!(values("64..256:64"), texts(&["64", "128", "192", "256"]));
    assert_eq!(values("0..1:0.3"), texts(&["0", "0.3", "0.6", "0.9"]));
    assert_eq!(values("0.0..1.0"), None);
    assert_eq!(values("1..64:log"), None);
    assert_eq!(values("0..1:1e-9"), None);
}
