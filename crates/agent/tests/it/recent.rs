//! The values of the last hour.

use gpool_agent::testing::Recent;
use gpool_model::{Bytes, Timestamp};

fn at(second: u64) -> Timestamp {
    Timestamp::new(1_000_000_000 + second * 1000)
}

#[test]
fn recent_values_have_one_point_a_second_and_end_after_an_hour() {
    let mut recent = Recent::<&str, 1>::new(Bytes::from_mib(1));
    for second in 0..3_700_u16 {
        recent.add("a", at(second.into()), [f32::from(second)]);
    }
    recent.add("a", Timestamp::new(at(3_699).get() + 500), [7.0]);
    let all = recent.of(&"a", Timestamp::ZERO);
    assert_eq!(all.last(), Some(&(at(3_699), [7.0])), "the last of a second counts");
    let first = all[0].0;
    assert!(first >= at(0) && first <= at(100), "an hour, with at most a minute more: {first:?}");
    assert!(all.len() >= 3_600 && all.len() <= 3_661, "{}", all.len());
    assert_eq!(recent.of(&"a", at(3_698)).len(), 2);
    // A series without values for an hour is forgotten.
    recent.add("b", at(8_000), [1.0]);
    assert_eq!(recent.of(&"a", Timestamp::ZERO), Vec::new());
    assert_eq!(recent.all(Timestamp::ZERO).count(), 1);
}

#[test]
fn recent_values_take_bounded_memory() {
    // 1024 points of 8 bytes, and each series counts as 16.
    let mut recent = Recent::<u64, 1>::new(Bytes::new(8 << 10));
    for second in 0..100_000 {
        recent.add(second, at(second / 1000), [1.0]);
        let n: usize = recent.all(Timestamp::ZERO).map(|(_, points)| 16 + points.len()).sum();
        assert!(n <= 1024 + 17, "{n}");
    }
    let mut recent = Recent::<u64, 1>::new(Bytes::new(8 << 10));
    (0..3000).for_each(|second| recent.add(0, at(second), [1.0]));
    let kept = recent.of(&0, Timestamp::ZERO);
    assert!(kept.len() > 256, "the newest stay");
    assert_eq!(kept.last(), Some(&(at(2_999), [1.0])));
}
