//! Metrics in the output of a program, and the values of the last hour.

use std::collections::BTreeMap;

use gpool_agent::testing::{Metrics, Recent};
use gpool_model::{Bytes, Timestamp};

/// The metrics in an output that comes at once.
fn found(output: &[u8]) -> BTreeMap<String, f64> {
    let mut metrics = Metrics::default();
    metrics.read(output, 0);
    metrics.take(0)
}

fn map(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
    values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn metrics_are_lines_of_json_with_the_key_gpool() {
    let output = b"epoch 1\n{\"gpool\": {\"metrics\": {\"loss\": 0.5, \"train/acc@5\": 1}}}\n\
        {\"gpool\":{\"metrics\":{\"loss\":0.25},\"step\":120}}\r\n";
    let all = map(&[("loss", 0.25), ("step", 120.0), ("train/acc@5", 1.0)]);
    assert_eq!(found(output), all);
}

#[test]
fn other_output_is_no_metric() {
    for line in [
        "{\"loss\": 0.5}",
        "{\"metrics\": {\"loss\": 0.5}}",
        "{\"level\":\"info\",\"gpool\":{\"metrics\":{\"loss\":0.5}}}",
        " {\"gpool\":{\"metrics\":{\"loss\":0.5}}}",
        "{\"gpool\":{\"metrics\":{\"loss\":NaN}}}",
        "{\"gpool\":{\"metrics\":{\"loss\":1e999}}}",
        "{\"gpool\":{\"metrics\":{\"loss\":1e300}}}",
        "{\"gpool\":{\"metrics\":{\"loss\":\"0.5\",\"ok\":true,\"all\":[1]}}}",
        "{\"gpool\":{\"metrics\":{\"a b\":1,\"\":1,\"gr\u{fc}n\":1,\"\\u001b[2J\":1}}}",
        "{\"gpool\":{\"metrics\":[0.5]}}",
        "{\"gpool\":",
        "{\"gpool\"",
    ] {
        assert_eq!(found(format!("{line}\n").as_bytes()), BTreeMap::new(), "{line}");
    }
    // Without its end, a line may be half of one.
    assert_eq!(found(b"{\"gpool\":{\"metrics\":{\"loss\":0.5}}}"), BTreeMap::new());
}

#[test]
fn a_line_can_come_in_pieces() {
    let mut metrics = Metrics::default();
    for byte in b"x\n{\"gpool\":{\"metrics\":{\"loss\":0.5}}}\n" {
        metrics.read(&[*byte], 0);
    }
    assert_eq!(metrics.take(0), map(&[("loss", 0.5)]));
}

#[test]
fn hostile_output_changes_nothing_and_stays_small() {
    let mut metrics = Metrics::default();
    // Binary, a huge line, a huge line that begins well, and a million names.
    metrics.read(&(0..=255).cycle().take(1 << 20).collect::<Vec<u8>>(), 0);
    metrics.read(&vec![b'{'; 8 << 20], 0);
    metrics.read(b"\n{\"gpool\":{\"metrics\":{", 0);
    metrics.read(&b"\"a\":1,".repeat(1 << 20), 0);
    metrics.read(b"\"b\":1}}}\n", 0);
    assert_eq!(metrics.take(0), BTreeMap::new());
    for ix in 0..1_000_000_u64 {
        let line = format!("{{\"gpool\":{{\"metrics\":{{\"n{ix}\":{ix}}}}}}}\n");
        metrics.read(line.as_bytes(), ix);
    }
    let taken = metrics.take(0);
    assert_eq!(taken.len(), 32, "so many names can a job have");
    assert_eq!(taken.get("n0"), Some(&0.0));
    // The names that it has are still taken.
    metrics.read(b"{\"gpool\":{\"metrics\":{\"n0\":7,\"more\":1}}}\n", 2_000_000);
    assert_eq!(metrics.take(0), map(&[("n0", 7.0)]));
}

#[test]
fn only_some_lines_of_a_second_are_parsed() {
    let mut metrics = Metrics::default();
    let line = |value: u32| format!("{{\"gpool\":{{\"metrics\":{{\"a\":{value}}}}}}}\n");
    let lines: String = (1..=1000).map(line).collect();
    metrics.read(lines.as_bytes(), 5_999);
    assert_eq!(metrics.take(0), map(&[("a", 256.0)]));
    metrics.read(line(7).as_bytes(), 6_000);
    assert_eq!(metrics.take(0), map(&[("a", 7.0)]));
}

#[test]
fn the_agent_hears_of_metrics_once_a_second() {
    let mut metrics = Metrics::default();
    assert_eq!(metrics.due(), None);
    metrics.read(b"{\"gpool\":{\"metrics\":{\"a\":1}}}\n", 5_000);
    assert_eq!(metrics.due(), Some(0), "the first at once");
    metrics.take(5_000);
    assert_eq!(metrics.due(), None);
    metrics.read(b"{\"gpool\":{\"metrics\":{\"a\":2}}}\n", 5_100);
    assert_eq!(metrics.due(), Some(6_000));
}

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
