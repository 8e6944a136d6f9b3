//! The figures: every part measures something and cleans up, with little work. A test can't judge
//! the values.

use serde_json::Value;

use crate::harness::{Cluster, Running, is_root, processes_of, until_so};

#[test]
fn every_part_measures_and_leaves_nothing_behind() {
    // Only for its folders: each part starts its own cluster.
    let cluster = Cluster::unstarted(&[]);
    let mut command = cluster.command();
    command.env("TMPDIR", cluster.path("run")).args(["bench", "--json", "--quick"]);
    command.args(["--starts", "2", "--jobs", "12", "--pending", "40", "--nodes", "2"]);
    command.args(["--submissions", "100", "--seconds", "1", "--floods", "3", "--agents", "5"]);
    command.env_remove("GPOOL_SOCKET").env_remove("GPOOL_STATE_DIR");
    let measured = Running::start(&mut command, None).end().json();
    let parts = measured["parts"].as_array().unwrap();
    let names: Vec<_> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    let mut expected = vec![
        "start", "submit", "drain", "idle", "pending", "flow", "cycle", "shares", "arrays",
        "crowd", "attack", "viewers", "gateway",
    ];
    // Only root can measure agents, on a machine that lets it add addresses.
    assert!(is_root() || !names.contains(&"agents"));
    expected.extend(names.contains(&"agents").then_some("agents"));
    assert_eq!(names, expected);
    for figure in parts.iter().flat_map(|part| part["figures"].as_array().unwrap()) {
        // A difference of two times may be below zero.
        assert!(figure["value"].as_f64().is_some_and(f64::is_finite), "{figure}");
        let goal = figure["goal"].as_object();
        assert_eq!(goal.is_some(), figure["reached"] != Value::Null, "{figure}");
    }
    let left: Vec<_> = std::fs::read_dir(cluster.path("run")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    until_so("no process is left", || processes_of(&cluster.path("run")).is_empty());
}
