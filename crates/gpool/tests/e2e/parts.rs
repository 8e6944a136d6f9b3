//! Quotas for one GPU model and for one pool, with the real program.

use std::fs;

use crate::harness::{Cluster, until_so};
use crate::http::Http;
use crate::recovery::says;

/// Two A100 and two H100. Project red is guaranteed the H100; blue is guaranteed two GPUs of any
/// model.
fn two() -> Cluster {
    let cluster = Cluster::new("sim:2xA100-80G,2xH100-80G");
    cluster.gpool(["project", "edit", "default", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "red", "--gpus-of", "H100=2"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "2"]).ok();
    cluster
}

fn of<'a>(project: &'a str, gpus: &'a str) -> Vec<&'a str> {
    vec!["-p", project, "--gpus", gpus]
}

#[test]
fn a_guaranteed_model_is_available_whenever_it_is_requested() {
    let cluster = two();
    let lent = [&of("blue", "h100:1")[..], &["--preemptible"]].concat();
    let borrowed: Vec<String> = (0..2).map(|_| cluster.sh(&lent, "sleep 1000")).collect();
    borrowed.iter().for_each(|id| drop(cluster.until_is(id, "running")));
    says(&cluster.gpool(["quota", "blue"]), &["blue of H100: 0 guaranteed · share 2 · 2 in use"]);
    // A100 are free, but red is guaranteed H100.
    let owner = cluster.sh(&of("red", "h100:2"), "sleep 1000");
    let job = cluster.until_is(&owner, "running");
    assert_eq!(job.placement[0].devices, [2, 3]);
    says(&cluster.gpool(["quota", "red"]), &["red of H100: 2 guaranteed · share 2 · 2 in use"]);
    let quota = cluster.gpool(["quota", "red", "--json"]).json();
    let part = &quota["items"][0]["parts"][0];
    assert_eq!((&part["model"], &part["held"]), (&"h100".into(), &2.0.into()), "{quota}");
    says(&cluster.gpool(["show", &borrowed[0]]), &[&format!("reclaimed for job {owner}")]);
    // A non-preemptible job never gets GPUs that other projects are guaranteed, but it may run on
    // others.
    cluster.gpool(["cancel", &owner]).ok();
    cluster.until_ended(&owner);
    let ran = cluster.gpool([&["submit"], &of("blue", "h100:1")[..], &["--", "true"]].concat());
    ran.refused(4, &["GP0415", "blue is guaranteed 0 H100 GPUs", "--preemptible"]);
    let any = cluster.sh(&of("blue", "1"), "sleep 1000");
    let job = cluster.until_is(&any, "running");
    assert!(job.placement[0].devices[0] < 2, "{:?}", job.placement);
}

#[test]
fn a_limit_of_a_model_or_in_a_pool_is_kept_and_shown() {
    let cluster = two();
    cluster.gpool(["project", "edit", "blue", "--limit-of", "h100=1", "--gpus", "4"]).ok();
    let lent = [&of("blue", "h100:1")[..], &["--preemptible"]].concat();
    let first = cluster.sh(&lent, "sleep 1000");
    cluster.until_is(&first, "running");
    let second = cluster.sh(&lent, "sleep 1000");
    cluster.until_is(&second, "pending");
    let words = "Project blue uses 1 H100 GPU, its limit is 1 H100 GPU";
    until_so("the reason is shown", || cluster.why(&second).contains(words));
    let why = cluster.gpool(["why", &second, "--json"]).json();
    assert!(why.to_string().contains("gpus_of:h100"), "{why}");
    let large = [&["submit", "--preemptible"], &of("blue", "h100:2")[..], &["--", "true"]];
    cluster.gpool(large.concat()).refused(4, &["GP0415", "the limit of blue is 1 H100 GPU"]);
    // The same in a pool, where every model counts.
    cluster.gpool(["project", "edit", "blue", "--limit-of", "h100=none"]).ok();
    cluster.until_is(&second, "running");
    cluster.gpool(["project", "edit", "blue", "--limit-in", "default=2"]).ok();
    let third = cluster.sh(&[&of("blue", "1")[..], &["--preemptible"]].concat(), "sleep 1000");
    let words = "Project blue uses 2 GPUs in pool default, its limit is 2 GPUs in pool default";
    until_so("the reason is shown", || cluster.why(&third).contains(words));
    says(&cluster.gpool(["project", "show", "blue"]), &["GPUs in", "default: limit 2"]);
    // A limit for the pool bounds the sum; limits for models add up if models may be mixed.
    let submit = |gpus: &str| {
        let words = ["submit", "--preemptible", "-p", "blue", "--gpus", gpus, "--hold", "--"];
        cluster.gpool(words.into_iter().chain(["true"]))
    };
    submit("3").refused(4, &["GP0415", "2 GPUs in pool default"]);
    cluster.gpool(["project", "edit", "blue", "--limit-of", "h100=1,a100=1"]).ok();
    submit("a100|h100:2").refused(4, &["GP0415", "another model"]);
    submit("2").ok();
    cluster.gpool(["project", "edit", "blue", "--limit-of", "h100=none,a100=none"]).ok();
    // The node moves to another pool, and with it the allocated GPUs.
    let part = || {
        let quota = cluster.gpool(["quota", "blue", "--json"]).json();
        let parts = quota["items"][0]["parts"].as_array().unwrap();
        parts.iter().find(|part| part["pool"] == "default").unwrap()["held"].clone()
    };
    assert_eq!(part(), 2.0);
    let node = cluster.client().gpus().unwrap().items[0].node.clone();
    cluster.gpool(["pool", "move", &node, "batch"]).ok();
    assert_eq!(part(), 0.0);
    cluster.until_is(&third, "running");
}

#[test]
fn quotas_of_models_are_set_in_files_and_over_http_too() {
    let cluster = two();
    let file = cluster.work().join("projects.toml");
    let text = "[projects.red]\ngpus_of = { h100 = 1, a100 = 0.5 }\nlimit_in = { default = 3 }\n";
    fs::write(&file, text).unwrap();
    let looked = cluster.gpool(["project", "apply", "projects.toml", "--dry-run"]).ok();
    assert!(looked.contains("h100=2 → a100=0.5,h100=1"), "{looked}");
    assert!(looked.contains("none → default=3"), "{looked}");
    cluster.gpool(["project", "apply", "projects.toml", "--yes"]).ok();
    let shown = cluster.gpool(["project", "show", "red", "--json"]).json();
    assert_eq!(shown["items"][0]["gpus_of"]["a100"], 0.5, "{shown}");
    fs::write(&file, "[projects.red]\ngpus_of = { h100 = \"4x\" }\n").unwrap();
    let refused = cluster.gpool(["project", "apply", "projects.toml", "--yes"]);
    refused.refused(2, &["projects.toml:2: projects.red.gpus_of"]);
    let http = Http::new(&cluster);
    let kind = ("Content-Type", "application/json");
    let body = br#"{"gpus_of":{"h100":"none"},"gpus_in":{"nowhere":1}}"#;
    let done = http.send("PATCH", "/api/v1/projects/red", &[kind], body);
    assert_eq!(done.status, 200, "{done:?}");
    let shown = cluster.gpool(["project", "show", "red"]);
    says(&shown, &["a100: 0.5 guaranteed", "nowhere: 1 guaranteed", "the cluster has none"]);
    assert!(!shown.out.contains("h100:"), "{shown:?}");
    let ran = cluster.gpool(["project", "create", "x", "--gpus-of", "h10=1"]);
    says(&ran, &["x has a quota for H10 GPUs, and the cluster has none of that model"]);
}

#[test]
fn a_simulation_can_guarantee_a_model() {
    let cluster = two();
    let lent = [&of("blue", "h100:1")[..], &["--preemptible"]].concat();
    let running = cluster.sh(&lent, "sleep 1000");
    cluster.until_is(&running, "running");
    let suppose = |what: &str| cluster.gpool(["simulate", "--if", what]);
    says(&suppose("project blue limit-of=h100=1,a100=0"), &["blue"]);
    suppose("project blue gpus-of=h100").refused(2, &["gpus-of=NAME=4"]);
}
