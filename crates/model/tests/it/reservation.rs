//! Occurrences of reservations and overlaps between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::reservation::{Beneficiary, Reservation, Reserved, Window};
use gpool_model::*;

fn window(from: u64, until: Option<u64>) -> Window {
    Window { from: Timestamp::new(from), until: until.map(Timestamp::new) }
}

fn reservation(from: u64, until: Option<u64>, every: Option<u64>) -> Reservation {
    Reservation {
        name: ReservationName::new("r1"),
        beneficiary: Beneficiary::Nobody,
        what: Reserved { nodes: BTreeSet::from([NodeName::new("n1")]), ..Reserved::default() },
        window: window(from, until),
        every: every.map(Millis::new),
        at_begin: Displace::LetFinish,
        reason: Arc::from(""),
        made_by: Arc::from("root"),
        made_at: Timestamp::ZERO,
    }
}

#[test]
fn a_recurring_window_returns_after_its_period() {
    let weekly = reservation(100, Some(110), Some(50));
    for (at, from) in [(0, 100), (99, 100), (109, 100), (110, 150), (155, 150), (160, 200)] {
        let found = weekly.occurrence(Timestamp::new(at));
        assert_eq!(found, Some(window(from, Some(from + 10))), "at {at}");
    }
    assert!(weekly.is_active(Timestamp::new(159)));
    assert!(!weekly.is_active(Timestamp::new(160)));
    assert_eq!(weekly.next_change(Timestamp::new(155)), Some(Timestamp::new(160)));
    assert_eq!(weekly.next_change(Timestamp::new(160)), Some(Timestamp::new(200)));
}

#[test]
fn reservations_without_an_end_never_end() {
    let once = reservation(100, Some(110), None);
    assert!(!once.is_over(Timestamp::new(109)));
    assert!(once.is_over(Timestamp::new(110)));
    assert_eq!(once.next_change(Timestamp::new(110)), None);
    let open = reservation(100, None, None);
    assert!(open.is_active(Timestamp::new(u64::MAX)));
    assert_eq!(open.next_change(Timestamp::new(100)), None);
}

/// Whether they overlap, found by comparing enough occurrences of both.
fn meets_by_enumeration(one: &Reservation, other: &Reservation) -> bool {
    let of = |it: &Reservation| -> Vec<Window> {
        let every = it.every.map_or(1_000_000, Millis::get);
        let n = if it.every.is_some() { 80 } else { 1 };
        let Window { from, until } = it.window;
        let later = |at: Timestamp, i: u64| at.after(Millis::new(i * every));
        let nth = |i| Window { from: later(from, i), until: until.map(|until| later(until, i)) };
        (0..n).map(nth).collect()
    };
    of(one).iter().any(|a| of(other).iter().any(|b| a.meets(*b)))
}

#[test]
fn series_meet_exactly_if_two_occurrences_overlap() {
    let mut n_meeting = 0;
    for from in 0..14 {
        for (length, every) in [(1, 4), (2, 6), (3, 9), (1, 7), (5, 5), (2, 12)] {
            for (other_from, other_length, other_every) in
                [(0, 1, Some(4)), (3, 2, Some(6)), (5, 2, None), (0, 3, Some(10)), (7, 1, Some(9))]
            {
                let one = reservation(from, Some(from + length), Some(every));
                let other = reservation(other_from, Some(other_from + other_length), other_every);
                let expected = meets_by_enumeration(&one, &other);
                assert_eq!(one.meets(&other), expected, "{one:?} {other:?}");
                assert_eq!(other.meets(&one), expected, "{other:?} {one:?}");
                n_meeting += u32::from(expected);
            }
        }
    }
    assert!((50..350).contains(&n_meeting), "{n_meeting} of 420 meet");
}

#[test]
fn a_series_meets_a_window_without_an_end() {
    let daily = reservation(10, Some(12), Some(24));
    assert!(daily.meets(&reservation(1_000_000, None, None)));
    assert!(reservation(0, None, None).meets(&daily));
    assert!(!daily.meets(&reservation(12, Some(34), None)));
    assert!(daily.meets(&reservation(12, Some(35), None)));
}

#[test]
fn common_finds_shared_devices_and_nodes() {
    let devices = |node: &str, uuids: &[&str]| Reserved {
        devices: BTreeMap::from([(
            NodeName::new(node),
            uuids.iter().map(DeviceUuid::new).collect(),
        )]),
        ..Reserved::default()
    };
    let whole = Reserved { nodes: BTreeSet::from([NodeName::new("a")]), ..Reserved::default() };
    let (ab, bc, d) = (devices("a", &["0", "1"]), devices("a", &["1", "2"]), devices("a", &["3"]));
    assert_eq!(ab.common(&bc), Some((&NodeName::new("a"), Some(&DeviceUuid::new("1")))));
    assert_eq!(ab.common(&d), None);
    assert_eq!(whole.common(&d), Some((&NodeName::new("a"), None)));
    assert!(d.common(&whole).is_some());
    assert!(devices("b", &["1"]).common(&whole).is_none());
}
