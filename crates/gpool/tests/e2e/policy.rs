//! The scheduler's policy is shown, changed while jobs wait, and compared.

use serde_json::Value;

use crate::harness::{Cluster, Gate, until_so};
use crate::here::Here;

fn setting(cluster: &Cluster, key: &str) -> String {
    let policy = cluster.gpool(["policy", "show", "--json"]).json();
    policy["settings"][key].as_str().unwrap().to_owned()
}

/// Two jobs wait for the only GPU; the later one has the higher priority.
fn two_that_wait(cluster: &Cluster, gate: &Gate) -> [String; 3] {
    let holder = cluster.sh(&["--gpus", "1", "--time", "2h"], &gate.line());
    cluster.until_is(&holder, "running");
    let older = cluster.submit(["--gpus", "1", "--time", "1h", "--", "sleep", "0.02"]);
    let flags = ["--gpus", "1", "--time", "1h", "--priority", "-5", "--", "true"];
    let lower = cluster.submit(flags);
    cluster.gpool(["prio", "-10", &older]).ok();
    [holder, older, lower]
}

fn started_at(cluster: &Cluster, id: &str) -> Value {
    serde_json::to_value(cluster.job(id)).unwrap()["run"]["started_at"].clone()
}

#[test]
fn a_change_applies_from_the_next_decision_on_and_is_journaled() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let [_, older, lower] = two_that_wait(&cluster, &gate);
    let before = cluster.gpool(["why", &older]).ok();
    assert!(before.contains(&format!(" {lower} (")), "{before}");
    // By age alone the older one goes first.
    let ran = cluster.gpool(["policy", "set", "order=age"]).ok();
    assert_eq!(ran, "order              priority,escalated,gpus,age → age\n");
    let after = cluster.gpool(["why", &older]).ok();
    assert!(!after.contains(&format!(" {lower} (")), "{after}");
    gate.open();
    cluster.until_ended(&lower);
    let [first, second] = [&older, &lower].map(|id| started_at(&cluster, id).to_string());
    assert!(first < second, "{first} {second}");
}

#[test]
fn a_change_survives_a_kill_and_a_restart() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    cluster.gpool(["policy", "set", "escalate_after=90m", "planned_starts=all"]).ok();
    cluster.kill();
    cluster.up();
    assert_eq!(setting(&cluster, "escalate_after"), "90m");
    assert_eq!(setting(&cluster, "planned_starts"), "all");
    let differs = cluster.gpool(["policy", "diff"]).ok();
    assert!(differs.contains("escalate_after     32h → 90m"), "{differs}");
    assert!(differs.contains("planned_starts     1 → all"), "{differs}");
    // The journal has the change and the user.
    let dump = cluster.gpool(["debug", "dump", "-o", "-"]).ok();
    let words = "asked: policy as it is: escalate_after=90m, planned_starts=all";
    assert!(dump.contains(words), "{dump}");
}

#[test]
fn invalid_settings_are_refused_and_change_nothing() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let here = Here::of(cluster.socket().to_str().unwrap());
    let shown = || cluster.client().policy().unwrap();
    let before = shown();
    let refused = |words: &[&str], says: &[&str]| {
        let all = [&["policy", "set"][..], words].concat();
        here.refused(&all, 2, says);
        assert_eq!(shown(), before, "{words:?}");
    };
    refused(&["escalate_aftr=2h"], &["escalate_aftr", "escalate_after=24h"]);
    refused(&["colour=red"], &["colour", "order", "planned_starts"]);
    refused(&["escalate_after"], &["sets nothing", "KEY=VALUE"]);
    refused(&["escalate_after=soon"], &["escalate_after", "write, for example, 24h"]);
    refused(&["planned_starts=-1"], &["planned_starts", "write, for example, 1"]);
    refused(&["order=age,size"], &["size", "priority", "for example, priority,escalated"]);
    refused(&["device_strategy=best"], &["best", "sequential"]);
    refused(&["--preset", "best"], &["best", "fair", "valohai", "fifo", "priority"]);
    // All settings or none.
    refused(&["planned_starts=2", "user_priority_max=5000"], &["user_priority_max", "1000"]);
    refused(&["--dry-run", "planned_starts=many"], &["planned_starts"]);
}

#[test]
fn a_preset_is_set_with_its_parameters_and_compared() {
    let cluster = Cluster::new("sim:1xH100-80G");
    cluster.gpool(["user", "limit", "all", "--running", "7"]).ok();
    let words = ["policy", "set", "--preset", "valohai:escalate_after=3h", "planned_starts=4"];
    let told = cluster.gpool(words).ok();
    assert!(told.contains("preset             users → valohai"), "{told}");
    let show = cluster.gpool(["policy", "show"]).ok();
    for line in [
        "preset             valohai",
        "order              escalated,gpus,age",
        "escalate_after     3h",
        "planned_starts     4",
    ] {
        assert!(show.lines().any(|shown| shown == line), "{line:?} is not in {show}");
    }
    let differs = cluster.gpool(["policy", "diff"]).ok();
    assert!(differs.contains("escalate_after     1h → 3h"), "{differs}");
    assert!(!differs.contains("order"), "{differs}");
    let same = cluster.gpool(["policy", "diff", "valohai:escalate_after=3h,planned_starts=4"]);
    assert_eq!(same.ok(), "nothing differs\n");
    // Caps of users are no part of a preset.
    assert!(cluster.gpool(["user", "limit", "all"]).ok().contains("of 7"));
    // To a file and back.
    let file = cluster.path("site.toml");
    std::fs::write(&file, cluster.gpool(["policy", "show", "--toml"]).ok()).unwrap();
    cluster.gpool(["policy", "set", "--preset", "fair"]).ok();
    assert_eq!(setting(&cluster, "escalate_after"), "24h");
    cluster.gpool(["policy", "set", "--file", file.to_str().unwrap()]).ok();
    assert_eq!(cluster.gpool(["policy", "show"]).ok(), show);
}

#[test]
fn a_dry_run_lists_jobs_with_changed_starts() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let [_, older, lower] = two_that_wait(&cluster, &gate);
    let told = cluster.gpool(["policy", "set", "--dry-run", "order=age"]).ok();
    let line = |id: &str, way: &str| {
        let begins = format!("job {id} (");
        let found = told.lines().find(|line| line.starts_with(&begins));
        found.is_some_and(|line| line.contains(way))
    };
    assert!(line(&older, "would start earlier: "), "{told}");
    assert!(line(&lower, "would start later: "), "{told}");
    assert_eq!(setting(&cluster, "order"), "priority,escalated,gpus,age");
    let json = cluster.gpool(["policy", "set", "--dry-run", "order=age", "--json"]).json();
    let starts = json["after"]["starts"].as_array().unwrap();
    assert_eq!(starts.len(), 2, "{json}");
    assert_eq!(starts[0]["job"], lower.as_str(), "later starts come first: {json}");
    // A change without effect on any job lists none.
    let told = cluster.gpool(["policy", "set", "--dry-run", "user_priority_max=7"]).ok();
    assert_eq!(told, "user_priority_max  0 → 7\n");
    gate.open();
    until_so("both ran", || cluster.job(&older).state.as_str() == "succeeded");
}

#[test]
fn jobs_rotate_by_gpu_time_and_attained_time_survives_a_kill() {
    let mut cluster = Cluster::new("sim:8xH100-80G");
    let set = ["policy", "set", "--preset", "las:attained_levels=0.008,min_run=1s"];
    cluster.gpool(set).ok();
    assert_eq!(setting(&cluster, "attained_levels"), "0.008");
    let gate = Gate::new(&cluster, "gate");
    let long = cluster.sh(&["--gpus", "8", "--preemptible"], "sleep 1000");
    cluster.until_is(&long, "running");
    let short = cluster.sh(&["--gpus", "1", "--preemptible"], &gate.line());
    // The only event is that the first job's attained GPU time grows, eight times as fast as the
    // second job's will.
    cluster.until_is(&short, "running");
    assert_eq!(cluster.job(&long).run.attempt, 2);
    let why = cluster.why(&long);
    let has_had = format!("Job {short} has used ");
    assert!(why.contains(&has_had) && why.contains("jobs with less go first"), "{why}");
    let shown = cluster.gpool(["events", &long]).ok();
    assert!(shown.contains("is preempted for job"), "{shown}");
    cluster.kill();
    cluster.up();
    let why = cluster.gpool(["why", &long, "--json"]).json();
    let reasons = why["items"][0]["reasons"].as_array().unwrap().clone();
    let had = reasons.iter().find(|it| it["code"] == "gpu_time_had");
    assert!(had.is_some_and(|it| it["job"].to_string().contains(&short)), "{why}");
    gate.open();
    cluster.until_ended(&short);
    cluster.until_is(&long, "running");
    cluster.gpool(["cancel", &long]).ok();
}
