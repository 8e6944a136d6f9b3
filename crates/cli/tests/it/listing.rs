//! Shared parts of all lists: printing them once, or repeatedly with `--watch`.

use std::collections::BTreeMap;

use gpool_cli::listing::changes;
use gpool_cli::render::list::Row;
use gpool_cli::render::nodes::NODES;

#[test]
fn only_changes_are_written_to_a_pipe() {
    let node = |name: &str, tasks_used: u64| {
        let json = serde_json::json!({
            "name": name, "pool": "default", "connected": true, "version": "0.1.0",
            "system": "", "devices_from": "", "n_gpus": 0, "n_gpus_free": 0, "cpus": 1.0,
            "cpus_used": 0.0, "memory": 1, "memory_used": 0, "tasks": 9,
            "tasks_used": tasks_used,
        });
        Row { item: serde_json::from_value(json.clone()).expect("a node"), json }
    };
    let mut seen = BTreeMap::new();
    let first = changes(&NODES, &[node("a", 0), node("b", 0)], &mut seen);
    assert_eq!(first.lines().count(), 2);
    let second = changes(&NODES, &[node("a", 1)], &mut seen);
    let lines: Vec<&str> = second.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains("\"tasks_used\":1"));
    assert_eq!(lines[1], r#"{"gone":"b"}"#);
    assert_eq!(changes(&NODES, &[node("a", 1)], &mut seen), "");
}
