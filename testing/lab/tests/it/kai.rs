//! Translates KAI's cases for the scheduler, and reports cases that can't be played.

use gpool_lab::kai::{Answer, CaseResult, Explanation, Missing, Scenario, compare, lines, read};
use insta::assert_snapshot;

/// Plays a case, and compares the result with such an answer of KAI.
fn with_answer(scenario: &Scenario, answer: &str) -> CaseResult {
    compare(scenario, Answer::read(answer.lines())).unwrap()
}

/// A case of two nodes and one project, with these jobs.
fn case(jobs: &str) -> Scenario {
    switched("null", jobs)
}

/// The same case with this configuration.
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
fn victims_come_back_or_not() {
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
    assert_eq!(with_answer(&case(jobs), "  a  n1\n  c  n2"), CaseResult::Same);
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
    assert_eq!(with_answer(&case(jobs), "  a  n1 n1"), CaseResult::Same);
}

#[test]
fn what_there_is_of_a_gang_leaves_and_waits_again_if_none_of_it_is_lost() {
    let gang = |states: [&str; 2]| {
        let [one, two] = states;
        format!(
            r#"{{"name": "a", "queue": "red", "gpus": 1, "tasks": [
                {{"name": "a-0", "state": "{one}", "node": "n1"}},
                {{"name": "a-1", "state": "{two}", "node": "n2"}}
            ]}}"#
        )
    };
    assert_snapshot!(written(&gang(["Running", "Pending"])), @"
    job a.left  1  stopping n1[0] 60s  project red  cpus 1  mem 1000000000B
    job a  1 tasks 2  pending 0s  project red  cpus 1  mem 1000000000B
    ");
    assert_snapshot!(written(&gang(["Releasing", "Running"])), @"
    job a.left  1 tasks 2  stopping n1[0] n2[0] 60s  project red  cpus 1  mem 1000000000B
    job a  1 tasks 2  pending 0s  project red  cpus 1  mem 1000000000B
    ");
    assert_snapshot!(written(&gang(["Running", "Failed"])), @"
    job a.left  1  stopping n1[0] 60s  project red  cpus 1  mem 1000000000B
    ");
    assert_snapshot!(written(&gang(["Pending", "Failed"])), @"");
    assert_eq!(lines_of(&gang(["Pending", "Gated"])), Err(Missing::Gated));
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
    let spread_out = with_answer(&switched(spread, &one(1)), "  a  n1\n  b  n2");
    assert_eq!(spread_out, CaseResult::Differs(elsewhere));
    // Without quotas the project exceeds its guarantee.
    let beyond = with_answer(&switched(spread, &one(2)), "  a  n1\n  b  n2");
    assert_eq!(beyond, CaseResult::NotPlayed(Missing::Switches));
    assert_eq!(with_answer(&case(&one(2)), "  a  n1"), CaseResult::Same);
}

#[test]
fn gang_tasks_may_run_on_any_nodes() {
    let gang = |ask: &str| {
        format!(
            r#"{{"name": "a", "queue": "red", {ask}, "tasks": [
                {{"name": "a-0", "state": "Pending"}}, {{"name": "a-1", "state": "Pending"}}
            ]}}"#
        )
    };
    let asks = [r#""gpus": 1"#, r#""gpus": 0.7, "fraction_devices": 2"#];
    let of_memory = r#""gpu_memory_mb": 51, "fraction_devices": 2"#;
    let lines = asks.into_iter().chain([of_memory]).map(|ask| written(&gang(ask)));
    assert_snapshot!(lines.collect::<String>(), @r"
    job a  1 tasks 2  pending 0s  project red  cpus 1  mem 1000000000B
    job a  2@0.7 tasks 2  pending 0s  project red  cpus 1  mem 1000000000B
    job a  2@51000000B tasks 2  pending 0s  project red  cpus 1  mem 1000000000B
    ");
}

/// Tasks of several sets with equal requests; each set needs one or two.
fn in_sets(states: [&str; 4]) -> String {
    let [one, two, three, four] = states;
    format!(
        r#"{{"name": "a", "queue": "red", "gpus": 1, "tasks": [
            {{"name": "a-0", "pod_set": "x", "state": "{one}", "node": "n1"}},
            {{"name": "a-1", "pod_set": "x", "state": "{two}", "node": "n2"}},
            {{"name": "a-2", "pod_set": "y", "state": "{three}", "node": "n1"}},
            {{"name": "a-3", "pod_set": "y", "state": "{four}", "node": "n2"}}
        ], "sub_groups": {{"name": "root", "pod_sets": [{{"name": "x", "min": 1}}],
            "groups": [{{"name": "in", "pod_sets": [{{"name": "y", "min": 2}}], "groups": []}}]
        }}}}"#
    )
}

#[test]
fn sets_of_tasks_that_ask_the_same_are_one() {
    let all = "Pending";
    assert_snapshot!(written(&in_sets([all; 4])), @"
    job a  1 tasks 3  pending 0s  project red  cpus 1  mem 1000000000B
    ");
    assert_snapshot!(written(&in_sets(["Running"; 4])), @"
    job a  1 tasks 3  running n1[0] n1[1] n2[0] 60s  project red  cpus 1  mem 1000000000B
    job a.1  1  running n2[1] 60s  project red  cpus 1  mem 1000000000B  joins a
    ");
    // The minimum of all sets together runs, but not of each set.
    assert_snapshot!(written(&in_sets(["Running", "Running", "Running", "Pending"])), @"
    job a.left  1 tasks 3  stopping n1[0] n1[1] n2[0] 60s  project red  cpus 1  mem 1000000000B
    job a  1 tasks 3  pending 0s  project red  cpus 1  mem 1000000000B
    ");
    assert_snapshot!(written(&in_sets(["Pending", "Pending", "Pending", "Failed"])), @"");
}
