//! An invalid part of a file of scenarios is refused with its name, and no input causes a panic.

use gpool_lab::kai::{Answer, CaseError, Scenario, build, compare, read};
use serde_json::{Value, json};

/// A scenario with every valid key.
fn everything() -> Value {
    json!({
        "id": "all", "name": "all words", "action": "cycle",
        "nodes": [
            {"name": "n0", "gpus": 4, "gpu_memory_mb": 80000, "cpus": 64, "memory_bytes": 2e11,
             "max_pods": 20},
            {"name": "n1", "gpus": 0, "gpu_memory_mb": 80000, "mig_strategy": "mixed",
             "mig_instances": {"nvidia.com/mig-1g.10gb": 2}},
            {"name": "n2", "gpus": 1, "gpu_memory_unknown": true},
            {"name": "n3", "gpus": 1, "gpu_memory_mb": 80000, "mig_strategy": "single"}
        ],
        "queues": [
            {"name": "top", "deserved_gpus": null, "limit_gpus": 9, "over_quota_weight": 1,
             "order": 0},
            {"name": "a", "parent": "top", "priority": 100, "deserved_gpus": 1.5,
             "over_quota_weight": 2, "order": 1, "deserved_cpus_milli": 64000,
             "deserved_memory_mb": 100000, "limit_cpus_milli": 64000, "limit_memory_mb": 100000},
            {"name": "none", "parent": "top", "no_resources": true}
        ],
        "jobs": [
            {"name": "run", "queue": "a", "priority": 50, "preemptible": true, "age_minutes": 5,
             "gpus": 0.5, "fraction_devices": 2, "min_available": 1, "stale_seconds": 10,
             "delete_when_releasing": true,
             "tasks": [{"name": "run-0", "state": "Running", "node": "n0",
                        "gpu_groups": ["x", "y"]}]},
            {"name": "memory", "queue": "a", "gpu_memory_mb": 1000, "cpus": 2,
             "memory_bytes": 1000000,
             "tasks": [{"name": "memory-0", "state": "Pending", "allowed_nodes": ["n0", "n2"],
                        "task_priority": 3}]},
            {"name": "cut", "queue": "a", "best_effort": false,
             "tasks": [{"name": "cut-0", "state": "Pending", "mig": {"nvidia.com/mig-1g.10gb": 1}},
                       {"name": "cut-1", "state": "Pending", "legacy_mig": true}],
             "min_available": 1},
            {"name": "parts", "queue": "a", "gpus": 1, "preemptible": true,
             "sub_groups": {"name": "root", "pod_sets": [{"name": "p", "min": 1}],
                            "groups": [{"name": "g", "pod_sets": [{"name": "q", "min": 1}]}]},
             "tasks": [{"name": "parts-0", "state": "Pending", "pod_set": "p"},
                       {"name": "parts-1", "state": "Pending", "pod_set": "q", "gpus": 1}]}
        ]
    })
}

fn scenario(value: &Value) -> Result<Scenario, String> {
    let text = json!({ "scenarios": [value] }).to_string();
    let mut file = read(&text).map_err(|error| error.to_string())?;
    file.scenarios.pop().ok_or_else(|| "no scenario".to_owned())
}

#[test]
fn every_valid_word_is_accepted() {
    build(&scenario(&everything()).unwrap()).unwrap();
}

#[test]
fn what_is_no_amount_no_word_and_no_count_is_named() {
    let refused = |path: &str, to: Value| {
        let mut value = everything();
        *value.pointer_mut(path).unwrap() = to;
        build(&scenario(&value).unwrap()).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(refused("/jobs/0/gpus", json!(-0.5)), "run-0: -0.5 is not an amount");
    assert_eq!(refused("/jobs/0/gpus", json!(1.5)), "run-0: 1500 is not an amount");
    assert_eq!(refused("/nodes/0/gpus", json!(-1)), "n0: -1 is not a count from 0 to 10000");
    assert_eq!(
        refused("/jobs/0/tasks/0/state", json!("Sleeping")),
        "run-0: \"Sleeping\" is unknown"
    );
    let mut value = everything();
    value["nodes"][1]["name"] = json!("n0");
    let error = build(&scenario(&value).unwrap()).map(|_| ()).unwrap_err();
    assert_eq!(error, CaseError::Twice { what: "node", name: "n0".to_owned() });
}

/// Every place in a value, as a path.
fn places(value: &Value, path: &str, into: &mut Vec<String>) {
    into.push(path.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{path}/{name}"), into);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{path}/{index}"), into);
            }
        }
        _ => {}
    }
}

#[test]
fn nothing_that_is_written_ends_in_a_panic() {
    let whole = everything();
    let mut paths = Vec::new();
    places(&whole, "", &mut paths);
    let (mut refused, mut played) = (0, 0);
    for path in &paths {
        for other in [
            Value::Null,
            json!(-1),
            json!(0),
            json!(0.0001),
            json!(1_000_000_000_000_i64),
            json!(i64::MAX),
            json!(i64::MIN),
            json!(1e300),
            json!(""),
            json!("n0"),
            json!([]),
            json!({}),
        ] {
            let mut value = whole.clone();
            *value.pointer_mut(path).unwrap() = other;
            match scenario(&value).map(|it| compare(&it, Answer::default())) {
                Ok(Ok(_)) => played += 1,
                Ok(Err(_)) | Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1000 && played > 200, "{refused} refused, {played} played");
}
