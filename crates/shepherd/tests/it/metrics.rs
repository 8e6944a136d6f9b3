//! Metrics in the output of a program.

use std::collections::BTreeMap;

use gpool_shepherd::testing::Metrics;

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
fn a_program_says_whether_it_is_busy_with_or_without_metrics() {
    let mut metrics = Metrics::default();
    assert_eq!(metrics.next_message_at(), None);
    metrics.read(b"{\"gpool\": {\"busy\": true}}\n", 0);
    assert!(metrics.next_message_at().is_some());
    assert_eq!(metrics.take_busy(), Some(true));
    assert_eq!((metrics.take_busy(), metrics.next_message_at()), (None, None));
    metrics.read(b"{\"gpool\": {\"busy\": false, \"metrics\": {\"loss\": 1}}}\n", 0);
    assert_eq!((metrics.take_busy(), metrics.take(0)), (Some(false), map(&[("loss", 1.0)])));
    metrics.read(b"{\"gpool\": {\"busy\": 1}}\n{\"busy\": true}\n", 0);
    assert_eq!(metrics.take_busy(), None, "neither line says it");
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
fn jobs_with_valohais_variables_report_each_json_object() {
    let found = |output: &[u8]| {
        let mut metrics = Metrics::new(true, None);
        metrics.read(output, 0);
        metrics.take(0)
    };
    let output =
        b"epoch 1\n{\"loss\": 0.5, \"note\": \"x\"}\n{\"gpool\":{\"metrics\":{\"a\":1}}}\n";
    assert_eq!(found(output), map(&[("a", 1.0), ("loss", 0.5)]));
    for line in ["[1]\n", "{\"loss\"\n", "{}\n", "{loss: 1}\n", "{\"a b\": 1}\n", "{\"loss\": 0.5}"]
    {
        assert_eq!(found(line.as_bytes()), BTreeMap::new(), "{line}");
    }
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
    assert_eq!(metrics.next_message_at(), None);
    metrics.read(b"{\"gpool\":{\"metrics\":{\"a\":1}}}\n", 5_000);
    assert_eq!(metrics.next_message_at(), Some(0), "the first at once");
    metrics.take(5_000);
    assert_eq!(metrics.next_message_at(), None);
    metrics.read(b"{\"gpool\":{\"metrics\":{\"a\":2}}}\n", 5_100);
    assert_eq!(metrics.next_message_at(), Some(6_000));
}

#[test]
fn the_last_value_of_the_objective_is_kept_for_the_end() {
    let mut metrics = Metrics::new(false, Some("loss"));
    assert_eq!(metrics.objective(), None);
    for line in [
        r#"{"gpool": {"metrics": {"loss": 0.5, "other": 1}}}"#,
        r#"{"gpool": {"metrics": {"loss": 0.25}}}"#,
        r#"{"gpool": {"metrics": {"other": 3}}}"#,
        r#"{"gpool": {"metrics": {"loss": 1e300}}}"#,
        r#"{"gpool": {"metrics": {"loss": "low"}}}"#,
    ] {
        metrics.read(format!("{line}\n").as_bytes(), 0);
        metrics.take(0);
    }
    assert_eq!(metrics.objective().map(|value| value.to_string()).as_deref(), Some("250000e-6"));
    let none = Metrics::new(false, None);
    assert_eq!(none.objective(), None);
}
