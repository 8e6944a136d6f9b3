//! Reservations, maintenance windows and drains.

use gpool_listen::testing::{target_word, targets_of};

#[test]
fn targets_are_nodes_or_devices_of_them() {
    let words = |text: &str| -> Vec<String> {
        targets_of(text).expect(text).iter().map(target_word).collect()
    };
    assert_eq!(words("lab2"), ["lab2"]);
    assert_eq!(words("lab1:0,2-3"), ["lab1:0", "lab1:2", "lab1:3"]);
    for wrong in ["", ":0", "lab1:", "lab1:0,,1", "lab1:all", "lab1:3-1"] {
        assert!(targets_of(wrong).is_err(), "{wrong}");
    }
}
