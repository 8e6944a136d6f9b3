//! How a case is written down for the scheduler that runs jobs, and what is said of one that is
//! not played.

use gpool_scenario::cycles::beside::lines;
use gpool_scenario::cycles::{Beside, Explanation, Missing, Scenario, beside, read};
use insta::assert_snapshot;

/// A case of two nodes and one project, with these jobs.
fn case(jobs: &str) -> Scenario {
    switched("null", jobs)
}

/// The same with nothing switched on but that.
fn switched(config: &str, jobs: &str) -> Scenario {
    let text = format!(
        r#"{{"scenarios": [{{
            "id": "own", "action": "cycle", "config": {config},
            "nodes": [{{"name": "n1", "gpus": 2}}, {{"name": "n2", "gpus": 2}}],
            "queues": [
                {{"name": "lab", "over_quota_weight": 0, "limit_cpus_milli": 16000}},
                {{"name": "red", "parent": "lab", "deserved_gpus": 2, "over_quota_weight": 1,
                  "deserved_memory_mb": 1500}}
            ],
            "jobs": [{jobs}]
        }}]}}"#
    );
    read(&text).unwrap().scenarios.remove(0)
}

fn lines_of(jobs: &str) -> Result<String, Missing> {
    lines(&case(jobs)).unwrap()
}

fn written(jobs: &str) -> String {
    let lines = lines_of(jobs).unwrap();
    let jobs = lines.lines().filter(|line| line.starts_with("job"));
    jobs.map(|line| format!("{line}\n")).collect()
}

#[test]
fn quotas_of_cores_and_memory_are_written_to_the_byte() {
    assert_snapshot!(lines_of("").unwrap(), @r"
    project lab  gpus unlimited  weight 0  cpus-limit 16  priority 100
    project red  in lab  gpus 2  weight 1  mem 1500000000B  priority 100
    node n1  2 x gpu@100000000B  cpus 20000  mem 20000000000B  tasks 500
    node n2  2 x gpu@100000000B  cpus 20000  mem 20000000000B  tasks 500
    ");
}

#[test]
fn who_leaves_comes_back_or_not() {
    let jobs = r#"
        {"name": "a", "queue": "red", "gpus": 1, "preemptible": true,
         "tasks": [{"name": "a-0", "state": "Releasing", "node": "n1"}]},
        {"name": "b", "queue": "red", "gpus": 0.5, "delete_when_releasing": true,
         "tasks": [{"name": "b-0", "state": "Releasing", "node": "n2", "gpu_groups": ["x"]}]},
        {"name": "c", "queue": "red", "gpus": 2,
         "tasks": [{"name": "c-0", "state": "Pipelined", "node": "n1"}]}
    "#;
    assert_snapshot!(written(jobs), @r"
    job a  1  requeuing n1[0] 60s  project red  cpus 1  mem 1000000000B  preemptible
    job b  0.5  stopping n2[0] 60s  project red  cpus 1  mem 1000000000B
    job c  2  pending 0s  project red  cpus 1  mem 1000000000B
    ");
    assert_eq!(beside(&case(jobs)).unwrap(), Beside::Same);
}

#[test]
fn what_has_ended_is_no_part_of_a_job_any_more() {
    let jobs = r#"
        {"name": "a", "queue": "red", "gpus": 1, "min_available": 1, "tasks": [
            {"name": "a-0", "state": "Running", "node": "n1"},
            {"name": "a-1", "state": "Failed"},
            {"name": "a-2", "state": "Running", "node": "n1"}
        ]}
    "#;
    assert_snapshot!(written(jobs), @r"
    job a  1  running n1[0] 60s  project red  cpus 1  mem 1000000000B
    job a.1  1  running n1[1] 60s  project red  cpus 1  mem 1000000000B  joins a
    ");
    assert_eq!(beside(&case(jobs)).unwrap(), Beside::Same);
}

#[test]
fn a_gang_of_which_a_part_runs_or_leaves_is_not_played() {
    for states in [["Running", "Pending"], ["Running", "Failed"], ["Releasing", "Running"]] {
        let [one, two] = states;
        let jobs = format!(
            r#"{{"name": "a", "queue": "red", "gpus": 1, "tasks": [
                {{"name": "a-0", "state": "{one}", "node": "n1"}},
                {{"name": "a-1", "state": "{two}", "node": "n2"}}
            ]}}"#
        );
        let came = beside(&case(&jobs)).unwrap();
        assert_eq!(came, Beside::NotPlayed(Missing::Midway), "{states:?}");
    }
}

#[test]
fn a_case_that_switches_rules_off_is_played_if_no_more_than_places_differ() {
    let spread = r#"{"plugins": [{"name": "nodeplacement", "args": {"gpu": "spread"}}]}"#;
    let one = |gpus: u32| {
        format!(
            r#"{{"name": "a", "queue": "red", "gpus": 1, "memory_bytes": 1,
                 "tasks": [{{"name": "a-0", "state": "Running", "node": "n1"}}]}},
               {{"name": "b", "queue": "red", "gpus": {gpus}, "memory_bytes": 1,
                 "tasks": [{{"name": "b-0", "state": "Pending"}}]}}"#
        )
    };
    let elsewhere = [("b".to_owned(), Explanation::Elsewhere)].into();
    assert_eq!(beside(&switched(spread, &one(1))).unwrap(), Beside::Differs(elsewhere));
    // Without quotas it gets more than its project is guaranteed.
    let came = beside(&switched(spread, &one(2))).unwrap();
    assert_eq!(came, Beside::NotPlayed(Missing::Switches));
    assert_eq!(beside(&case(&one(2))).unwrap(), Beside::Same);
}

#[test]
fn tasks_that_must_run_at_once_are_on_as_many_nodes_where_no_two_fit_together() {
    let gang = |ask: &str| {
        format!(
            r#"{{"name": "a", "queue": "red", {ask}, "tasks": [
                {{"name": "a-0", "state": "Pending"}}, {{"name": "a-1", "state": "Pending"}}
            ]}}"#
        )
    };
    let asks = [r#""gpus": 2"#, r#""gpus": 0.7, "fraction_devices": 2"#];
    let of_memory = r#""gpu_memory_mb": 51, "fraction_devices": 2"#;
    let lines = asks.into_iter().chain([of_memory]).map(|ask| written(&gang(ask)));
    assert_snapshot!(lines.collect::<String>(), @r"
    job a  2 nodes 2  pending 0s  project red  cpus 1  mem 1000000000B
    job a  2@0.7 nodes 2  pending 0s  project red  cpus 1  mem 1000000000B
    job a  2@51000000B nodes 2  pending 0s  project red  cpus 1  mem 1000000000B
    ");
    for ask in [r#""gpus": 1"#, r#""gpus": 0.7"#, r#""gpus": 0.5, "fraction_devices": 2"#] {
        assert_eq!(lines_of(&gang(ask)), Err(Missing::Gang), "{ask}");
    }
}
