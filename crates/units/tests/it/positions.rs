//! Tests of `positions`.

use gpool_units::positions::Positions;

#[test]
fn sets_stay_ranges() {
    let mut set = Positions::first_n(100_000);
    assert_eq!(set.next_after(None), Some(0));
    for position in 0..99_998 {
        assert!(set.remove(position));
    }
    assert!(!set.remove(5));
    assert_eq!(set.to_string(), "99998-99999");
    for position in [3, 1, 2] {
        assert!(set.insert(position));
    }
    assert!(!set.insert(2));
    assert_eq!(set.to_string(), "1-3,99998-99999");
    assert_eq!((set.len(), set.n_before(99_999)), (5, 4));
    assert_eq!(set.next_after(Some(3)), Some(99_998));
    assert_eq!(set.next_after(Some(99_999)), None);
    set.remove(2);
    assert_eq!(set.iter().collect::<Vec<_>>(), [1, 3, 99_998, 99_999]);
    assert_eq!(set.to_string().parse(), Ok(set));
    assert_eq!("".parse(), Ok(Positions::default()));
    for bad in ["3,1", "1-2,3", "0-4:2", "x", "4-3", "1,", "4294967295"] {
        assert!(bad.parse::<Positions>().is_err(), "{bad}");
    }
    let mut all = Positions::first_n(6);
    all.subtract(&[1, 3].into_iter().collect());
    assert_eq!(all.iter().collect::<Vec<_>>(), [0, 2, 4, 5]);
    all.extend(&[1].into_iter().collect());
    assert_eq!(all.iter().collect::<Vec<_>>(), [0, 1, 2, 4, 5]);
}
