//! The keys that detach from a console. Pure.

use gpool_verbs::console::keys::{DetachKeys, DetachMatcher};

#[test]
fn keys_are_read_as_people_write_them() {
    let read = |text: &str| text.parse::<DetachKeys>();
    assert_eq!(read("ctrl-\\,d"), Ok(DetachKeys::default()));
    assert_eq!(read("Ctrl-P,ctrl-q"), Ok(DetachKeys(vec![0x10, 0x11])));
    assert_eq!(read("none"), Ok(DetachKeys(Vec::new())));
    for text in ["", "ctrl-", "ctrl-ab", "ab", "ctrl-1", "a,", "é"] {
        assert!(read(text).is_err(), "{text}");
    }
    assert_eq!(DetachKeys::default().to_string(), "Ctrl-\\ d");
}

#[test]
fn only_all_keys_in_a_row_leave() {
    let mut watch = DetachMatcher::new(&DetachKeys::default());
    assert_eq!(watch.take(b"ls\r"), (b"ls\r".to_vec(), false));
    assert_eq!(watch.take(b"a\x1c"), (b"a".to_vec(), false));
    assert_eq!(watch.take(b"x"), (b"\x1cx".to_vec(), false));
    assert_eq!(watch.take(b"\x1c\x1c"), (b"\x1c".to_vec(), false));
    assert_eq!(watch.take(b"d!"), (Vec::new(), true));
    let mut none = DetachMatcher::new(&DetachKeys(Vec::new()));
    assert_eq!(none.take(b"\x1cd"), (b"\x1cd".to_vec(), false));
}
