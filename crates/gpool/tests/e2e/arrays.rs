//! Arrays as users see them: one submission, many elements, each run once with its own values.

use std::collections::BTreeMap;

use crate::harness::{Cluster, Gate, until, until_so};

/// A shell line that notes its element and attempt.
fn noted(cluster: &Cluster) -> String {
    let trace = cluster.path("trace").display().to_string();
    format!("echo $GPOOL_ARRAY_INDEX $GPOOL_ATTEMPT >> {trace}")
}

/// How often each element was started.
fn starts(cluster: &Cluster) -> BTreeMap<u32, usize> {
    let text = std::fs::read_to_string(cluster.path("trace")).unwrap_or_default();
    let mut starts = BTreeMap::new();
    for line in text.lines() {
        let index = line.split(' ').next().unwrap().parse().unwrap();
        *starts.entry(index).or_default() += 1;
    }
    starts
}

fn n_in(cluster: &Cluster, id: &str, state: &str) -> u64 {
    let array = cluster.job(id).array.expect("an array");
    array.n_by_state.get(state).copied().unwrap_or(0)
}

fn until_n(cluster: &Cluster, id: &str, n: u64, state: &str) {
    until_so(&format!("{n} of {id} are {state}"), || n_in(cluster, id, state) == n);
}

#[test]
fn each_element_runs_once_with_its_index_and_output() {
    let cluster = Cluster::new("none");
    let line = format!("{}; echo $GPOOL_JOB_ID of $GPOOL_ARRAY_COUNT", noted(&cluster));
    let id = cluster.sh(&["--array", "0-9%3"], &line);
    assert_eq!(id, "1");
    cluster.gpool(["wait", &id]).ok();
    assert_eq!(starts(&cluster), (0..10).map(|index| (index, 1)).collect());
    for index in 0..10 {
        let element = format!("{id}.{index}");
        assert_eq!(cluster.stdout_of(&element), format!("{element} of 10\n"));
        assert_eq!(cluster.job(&element).state.as_str(), "succeeded");
    }
    let job = cluster.job(&id);
    let array = job.array.expect("an array");
    assert_eq!((array.indexes.as_str(), array.n_elements), ("0-9", 10));
    assert_eq!((array.max_parallel, job.state.as_str()), (Some(3), "succeeded"));
    assert_eq!(array.n_by_state, BTreeMap::from([("succeeded".to_owned(), 10)]));
    cluster.gpool(["show", "1.10"]).refused(6, &["1.10"]);
}

#[test]
fn no_more_elements_run_at_once_than_the_limit() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--array", "1-4%2"], &gate.line());
    until_n(&cluster, &id, 2, "running");
    assert_eq!(n_in(&cluster, &id, "pending"), 2);
    cluster.gpool(["edit", &id, "--max-parallel", "4"]).ok();
    until_n(&cluster, &id, 4, "running");
    (0..4).for_each(|_| gate.open());
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
}

#[test]
fn parameters_make_every_combination() {
    let cluster = Cluster::new("none");
    let words =
        ["--param", "a=1,2", "--param", "b=x,y", "--", "sh", "-c", "echo $0 $GPOOL_PARAM_B", "{a}"];
    let id = cluster.submit(words);
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    let outs: Vec<String> = (0..4).map(|at| cluster.stdout_of(&format!("{id}.{at}"))).collect();
    assert_eq!(outs, ["1 x\n", "1 y\n", "2 x\n", "2 y\n"]);
    let element = cluster.job(&format!("{id}.2")).element.expect("an element");
    let param = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(element.params, [param("a", "2"), param("b", "x")]);
}

#[test]
fn files_give_each_element_its_line_or_row() {
    let cluster = Cluster::new("none");
    std::fs::write(cluster.work().join("lines"), "one two\n'three'\n").unwrap();
    std::fs::write(cluster.work().join("rows.csv"), "lr,seed\n0.1,1\n0.2,\"2,3\"\n").unwrap();
    std::fs::write(cluster.work().join("items.json"), "[{\"n\": 7}, {\"n\": 8}]").unwrap();
    let line = ["--", "sh", "-c", "echo \"$GPOOL_ITEM\""];
    let id = cluster.submit(["--each-line", "lines"].into_iter().chain(line));
    cluster.until_ended(&id);
    assert_eq!(cluster.stdout_of(&format!("{id}.0")), "one two\n");
    assert_eq!(cluster.stdout_of(&format!("{id}.1")), "'three'\n");
    let id = cluster.submit(["--param-file", "rows.csv", "--", "echo", "{lr}", "{seed}"]);
    cluster.until_ended(&id);
    assert_eq!(cluster.stdout_of(&format!("{id}.1")), "0.2 2,3\n");
    let id = cluster.submit(["--array-from", "items.json", "--", "echo", "{n}"]);
    cluster.until_ended(&id);
    assert_eq!(cluster.stdout_of(&format!("{id}.1")), "8\n");
}

#[test]
fn too_many_failures_cancel_the_rest_and_a_retry_runs_them() {
    let cluster = Cluster::new("none");
    let fails = cluster.path("fails");
    std::fs::write(&fails, "").unwrap();
    let line = format!("{}; test ! -e {}", noted(&cluster), fails.display());
    let id = cluster.sh(&["--array", "0-9%1", "--max-fails", "1"], &line);
    let job = cluster.until_ended(&id);
    assert_eq!(job.state.as_str(), "failed");
    let counts = job.array.expect("an array").n_by_state;
    assert_eq!((counts["failed"], counts["cancelled"]), (2, 8));
    assert_eq!(starts(&cluster), BTreeMap::from([(0, 1), (1, 1)]));
    std::fs::remove_file(&fails).unwrap();
    let out = cluster.gpool(["retry", &id, "--failed", "--json"]).json();
    let again = out["items"][0]["id"].as_str().expect("an id").to_owned();
    assert_ne!(again, id, "an ended array does not change");
    assert_eq!(cluster.until_ended(&again).state.as_str(), "succeeded");
    assert_eq!(starts(&cluster).values().sum::<usize>(), 12);
    assert_eq!(cluster.job(&again).retry_of.as_deref(), Some(id.as_str()));
    cluster.gpool(["retry", &again]).refused(2, &["without success"]);
}

#[test]
fn a_failed_element_of_a_living_array_runs_again_in_place() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let line = format!(
        "{}; case $GPOOL_ARRAY_INDEX.$GPOOL_ATTEMPT in 0.1) exit 3;; 1.*) {};; esac",
        noted(&cluster),
        gate.line()
    );
    let id = cluster.sh(&["--array", "0-1"], &line);
    until_n(&cluster, &id, 1, "failed");
    let out = cluster.gpool(["retry", &format!("{id}.0"), "--json"]).json();
    assert_eq!(out["items"][0]["is_new"], false);
    until_n(&cluster, &id, 1, "succeeded");
    gate.open();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    assert_eq!(starts(&cluster), BTreeMap::from([(0, 2), (1, 1)]));
    assert_eq!(cluster.job(&format!("{id}.0")).run.attempt, 2);
}

#[test]
fn the_whole_and_single_elements_are_held_released_and_cancelled() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["--array", "0-5", "--hold"], &noted(&cluster));
    assert_eq!(n_in(&cluster, &id, "held"), 6);
    cluster.gpool(["cancel", &format!("{id}.3")]).ok();
    cluster.gpool(["release", &format!("{id}.1")]).ok();
    until_n(&cluster, &id, 1, "succeeded");
    assert_eq!(starts(&cluster), BTreeMap::from([(1, 1)]));
    cluster.gpool(["release", &id]).ok();
    let job = cluster.until_ended(&id);
    let counts = job.array.expect("an array").n_by_state;
    assert_eq!((counts["succeeded"], counts["cancelled"]), (5, 1));
    assert!(!starts(&cluster).contains_key(&3));
    assert_eq!(cluster.job(&format!("{id}.3")).state.as_str(), "cancelled");

    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--array", "0-9%2"], &gate.line());
    until_n(&cluster, &id, 2, "running");
    cluster.gpool(["hold", &format!("{id}.7-8")]).ok();
    assert_eq!(n_in(&cluster, &id, "held"), 2);
    cluster.gpool(["cancel", &id]).ok();
    let job = cluster.until_ended(&id);
    assert_eq!(job.state.as_str(), "cancelled");
    assert_eq!(job.array.expect("an array").n_by_state["cancelled"], 10);
}

#[test]
fn elements_wait_for_elements_of_the_same_index() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let line = format!("test $GPOOL_ARRAY_INDEX = 0 || {}", gate.line());
    let first = cluster.sh(&["--array", "0-1"], &line);
    let after = format!("each:{first}");
    let second = cluster.sh(&["--array", "0-1", "--after", &after], &noted(&cluster));
    until_n(&cluster, &second, 1, "succeeded");
    assert_eq!(starts(&cluster), BTreeMap::from([(0, 1)]));
    assert_eq!(n_in(&cluster, &second, "waiting"), 1);
    gate.open();
    assert_eq!(cluster.until_ended(&second).state.as_str(), "succeeded");
    assert_eq!(starts(&cluster), BTreeMap::from([(0, 1), (1, 1)]));
}

#[test]
fn ended_elements_decide_at_once_for_elements_of_the_same_index() {
    let mut cluster = Cluster::new("none");
    let line = "test $GPOOL_ARRAY_INDEX != 1";
    let first = cluster.sh(&["--array", "0-2"], line);
    assert_eq!(cluster.until_ended(&first).state.as_str(), "failed");
    let after = format!("each:{first}");
    // From memory, and from the archive alone.
    for is_restarted in [false, true] {
        if is_restarted {
            cluster.kill();
            cluster.up();
        }
        let id = cluster.sh(&["--array", "0-2", "--after", &after], &noted(&cluster));
        assert_eq!(cluster.until_ended(&id).state.as_str(), "cancelled");
        let counts = cluster.job(&id).array.expect("an array").n_by_state;
        assert_eq!((counts["succeeded"], counts["cancelled"]), (2, 1), "{is_restarted}");
        let other = ["submit", "--array", "0-3", "--after", &after, "--", "true"];
        cluster.gpool(other).refused(2, &["must be the same"]);
    }
    assert_eq!(starts(&cluster), BTreeMap::from([(0, 2), (2, 2)]));
    let none = cluster.sh(&["--array", "0-2"], "false");
    cluster.until_ended(&none);
    let never = ["submit", "--array", "0-2", "--after", &format!("each:{none}"), "--", "true"];
    cluster.gpool(never).refused(7, &[&format!("job {none}")]);
}

#[test]
fn a_retry_of_several_jobs_answers_for_each() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let failed = [(); 2].map(|()| cluster.sh(&[], "exit 3"));
    failed.iter().for_each(|id| drop(cluster.until_ended(id)));
    let runs = cluster.sh(&[], &gate.line());
    let ran = cluster.gpool(["retry", &runs, &failed[0], &failed[1], "--json"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.err.contains(&format!("can't retry job {runs}")), "{ran:?}");
    let document: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let items = document["items"].as_array().expect("a list");
    let again: Vec<&str> = items.iter().filter_map(|item| item["job"].as_str()).collect();
    assert_eq!(again, [&failed[0], &failed[1]]);
    cluster.gpool(["retry", &runs, &runs]).refused(7, &[&runs]);
    gate.open();
}

#[test]
fn a_killed_server_loses_no_element_and_runs_none_twice() {
    let mut cluster = Cluster::new("none");
    let id = cluster.sh(&["--array", "0-199%8"], &noted(&cluster));
    for least in [20, 60, 120] {
        until_so("more have started", || starts(&cluster).len() >= least);
        cluster.kill();
        cluster.up();
    }
    let job =
        until("the array has ended", || Some(cluster.job(&id)).filter(|job| job.state.is_end()));
    assert_eq!(job.array.expect("an array").n_by_state["succeeded"], 200);
    assert_eq!(starts(&cluster), (0..200).map(|index| (index, 1)).collect());
}

#[test]
fn the_queue_has_one_row_and_lists_elements_when_asked() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let line = format!("test $GPOOL_ARRAY_INDEX -lt 2 || {}", gate.line());
    let id = cluster.sh(&["--array", "0-3%1"], &line);
    until_n(&cluster, &id, 2, "succeeded");
    until_n(&cluster, &id, 1, "running");
    let out = cluster.gpool(["queue"]).ok();
    assert!(out.contains("▇▇▇▇▇▁▁▁▁▁ 2/4 done · 1 run · 1 wait · 0 failed"), "{out}");
    let out = cluster.gpool(["queue", "--ascii"]).ok();
    assert!(out.contains("#####..... 2/4 done | 1 run | 1 wait | 0 failed"), "{out}");
    let out = cluster.gpool(["queue", "--elements", "-o", "name"]).ok();
    assert_eq!(out, "1.2\n1.3\n");
    let out = cluster.gpool(["queue", "-a", "--state", "all", "-o", "name"]).ok();
    assert_eq!(out, "1.0\n1.1\n1.2\n1.3\n");
    let out = cluster.gpool(["show", &id]).ok();
    for words in ["elements", "0,1", "succeeded", "running", "pending"] {
        assert!(out.contains(words), "{words}: {out}");
    }
    gate.open();
    until_n(&cluster, &id, 3, "succeeded");
    gate.open();
    cluster.until_ended(&id);
}

#[test]
fn the_usage_of_an_array_is_the_sum_of_its_elements() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "1", "--array", "0-3%2", "--time", "1h"], &gate.line());
    until_n(&cluster, &id, 2, "running");
    gate.open();
    until_n(&cluster, &id, 1, "succeeded");
    let part = cluster.job(&id);
    assert!(part.usage.gpu_hours > 0.0 && part.array.is_some_and(|array| array.n_gpus >= 2));
    (0..3).for_each(|_| gate.open());
    cluster.until_ended(&id);
    let elements = (0..4).map(|at| cluster.job(&format!("{id}.{at}")).usage.gpu_hours);
    let sum: f64 = elements.sum();
    let near = |hours: f64| sum > 0.0 && (hours - sum).abs() < 1e-9;
    let report = &cluster.gpool(["report", &id, "-o", "json"]).json()["items"][0];
    assert_eq!(report["n_gpus"], 4, "{report}");
    assert!(near(report["gpu_hours"].as_f64().unwrap()), "{sum}: {report}");
    // The time limit applies to each element, so an array has no share of it.
    assert!(report["time_share"].is_null(), "{report}");
    let listed = &cluster.gpool(["history", "-o", "json"]).json()["items"][0];
    assert!(near(listed["usage"]["gpu_hours"].as_f64().unwrap()), "{sum}: {listed}");
    let totals = cluster.client().totals(&gpool_client::JobsQuery::default()).unwrap();
    assert!((totals.gpu_hours - sum).abs() < 1e-6, "{sum}: {totals:?}");
    // An array that never ran has used zero, not a negative amount.
    let held = cluster.sh(&["--gpus", "1", "--array", "0-1", "--hold"], "true");
    let text = cluster.gpool(["report", &held, "-o", "json"]).ok();
    assert!(text.contains("\"gpu_hours\": 0.0"), "{text}");
}
