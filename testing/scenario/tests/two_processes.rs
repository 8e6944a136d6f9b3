//! scheduling.md E8: two processes make the same plans from the same input, byte for byte. The
//! second process is this test binary, started again to run the same test as a child.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

use std::fs;
use std::process::Command;

use gpool_scenario::{Cluster, cases};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// The variable with the path that the child writes to.
const WRITE_TO: &str = "GPOOL_TEST_WRITE_PLANS_TO";

/// Returns the plans of fixed streams as JSON, one per line.
fn plans() -> String {
    let mut runner = TestRunner::deterministic();
    let mut lines = String::new();
    for _ in 0..150 {
        let case = cases(40).new_tree(&mut runner).unwrap().current();
        let mut cluster = Cluster::of(&case.start);
        for step in &case.steps {
            cluster.apply(step);
            lines.push_str(&serde_json::to_string(&cluster.cycle()).unwrap());
            lines.push('\n');
        }
    }
    lines
}

#[test]
fn two_processes_make_the_same_plans() {
    if let Some(path) = std::env::var_os(WRITE_TO) {
        fs::write(path, plans()).unwrap();
        return;
    }
    let path = std::env::temp_dir().join(format!("gpool-plans-{}.jsonl", std::process::id()));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "two_processes_make_the_same_plans"])
        .env(WRITE_TO, &path)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let of_child = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let own = plans();
    assert!(own.matches("\"start\":{").count() > 200, "the streams start too little");
    let differs = own.lines().zip(of_child.lines()).find(|(own, other)| own != other);
    assert_eq!(differs, None);
    assert_eq!(own.len(), of_child.len());
}
