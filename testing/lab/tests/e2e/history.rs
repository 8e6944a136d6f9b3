//! `gpool simulate queue` on the store of a real server: the waits of its jobs under another
//! policy, or on another cluster.

use serde_json::Value;

use crate::harness::{Cluster, Gate};

fn simulate(cluster: &Cluster, words: &[&str]) -> String {
    let state = cluster.state().display().to_string();
    let asked = ["simulate", "queue", "-o", "json", "--trace", &state];
    cluster.gpool([&asked, words].concat()).ok()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A gang of red has all GPUs for at least three seconds while jobs of blue arrive; two others
/// never ran, and one has not ended.
fn lived() -> Cluster {
    let cluster = Cluster::new("2x(sim:2xH100-80G)");
    cluster.gpool(["project", "edit", "default", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "red", "--gpus", "4"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "0"]).ok();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("{}; sleep 3", gate.line());
    let gang = cluster.sh(&["--project", "red", "--nodes", "2", "--gpus", "2"], &line);
    cluster.until_is(&gang, "running");
    let of_blue = ["--project", "blue", "--preemptible"];
    let blue = |flags: &[&str]| cluster.sh(&[&of_blue, flags].concat(), "true");
    let part = blue(&["--gpus", "0.5"]);
    let array = blue(&["--gpus", "h100:1", "--array", "1-3"]);
    let follows = blue(&["--gpus", "1", "--after", &part]);
    for held in [blue(&["--gpus", "1", "--hold"]), blue(&["--hold", "--array", "1-2"])] {
        cluster.gpool(["cancel", &held]).ok();
    }
    blue(&["--gpus", "1", "--hold"]);
    // Once for each of its tasks.
    gate.open();
    gate.open();
    for id in [&gang, &part, &array, &follows] {
        assert_eq!(cluster.until_ended(id).state.as_str(), "succeeded", "{id}");
    }
    cluster
}

#[test]
fn the_jobs_of_a_store_come_again_to_its_own_cluster() {
    let mut cluster = lived();
    let while_up = simulate(&cluster, &[]);
    cluster.gpool(["backup", "copy.backup"]).ok();
    cluster.down(&[]);
    let text = simulate(&cluster, &[]);
    assert_eq!(text, while_up, "a server that is up changes nothing");
    let copy = ["simulate", "queue", "-o", "json", "--trace", "copy.backup"];
    assert_eq!(cluster.gpool(copy).ok(), text, "nor does it matter whether it is a copy");
    let made = read(&text);
    // The gang, a fraction of a GPU, three elements, and one that waited for another job.
    assert_eq!(made["jobs"], 6, "{made}");
    let left_out = serde_json::json!({"never_ran": 3, "not_ended": 1, "before": 0});
    assert_eq!(made["left_out"], left_out, "{made}");
    for (item, policy) in made["items"].as_array().unwrap().iter().zip(["as-is", "fair"]) {
        assert_eq!((&item["policy"], &item["jobs"]), (&policy.into(), &6.into()), "{made}");
        let n = ["refused", "stuck", "cut", "preemptions"].map(|key| item[key].as_u64());
        assert_eq!(n, [Some(0); 4], "{made}");
        // All except the gang and the last one: waiting for another job is not a wait for GPUs.
        let wait = |key: &str| item[key].as_f64().unwrap();
        assert!(wait("wait_max_s") >= 1.0 && wait("wait_p50_s") >= 1.0, "{made}");
        assert!(wait("wait_mean_s") < wait("makespan_s"), "{made}");
        assert!(wait("utilization") > 0.0 && wait("utilization") <= 1.0, "{made}");
    }
    let asked = ["simulate", "queue", "--trace", "copy.backup", "--policy", "fifo"];
    let said = cluster.gpool(asked);
    let words = "4 jobs are left out: 3 never ran, 1 not ended yet";
    assert!(said.err.contains(words), "{said:?}");
    assert_eq!((&made["nodes"], &made["gpus"]), (&2.into(), &4.into()), "{made}");
    assert_eq!(made["figures"]["owners"][0]["policy"], "as-is", "{made}");
    let owners = made["figures"]["owners"][0]["jobs"].as_array().unwrap();
    assert_eq!(owners.iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), 6, "{made}");
}

#[test]
fn another_cluster_is_supposed_and_what_makes_no_sense_of_a_history_is_refused() {
    let mut cluster = lived();
    let nodes = cluster.gpool(["nodes", "--json"]).json();
    let drain = format!("drain {}", nodes["items"][0]["name"].as_str().unwrap());
    cluster.down(&[]);
    let item = |words: &[&str]| {
        let made = read(&simulate(&cluster, &[&["--policy", "as-is"], words].concat()));
        assert_eq!(made["items"].as_array().unwrap().len(), 1, "{made}");
        made["items"][0].clone()
    };
    let more = item(&["--if", "add 2 nodes x 2 h100"]);
    assert_eq!((&more["wait_max_s"], &more["jobs"]), (&0.into(), &6.into()), "{more}");
    let less = item(&["--if", &drain, "--if", "add 1 node x 2 h100"]);
    assert_eq!(less["jobs"], 6, "{less}");
    // The gang does not fit on one node, and the elements request a model that exists.
    let other = item(&["--cluster", "1x8"]);
    assert_eq!((&other["refused"], &other["jobs"]), (&1.into(), &5.into()), "{other}");
    let other = item(&["--if", "project blue limit=0"]);
    assert_eq!((&other["refused"], &other["jobs"]), (&5.into(), &1.into()), "{other}");
    let late = read(&simulate(&cluster, &["--since", "0s"]));
    let before = late["left_out"]["before"].as_u64().unwrap();
    assert!(before >= 1 && before + late["jobs"].as_u64().unwrap() == 6, "{late}");
    let refused = |words: &[&str], code: i32, said: &[&str]| {
        let state = cluster.state().display().to_string();
        let asked = ["simulate", "queue", "--trace", &state];
        cluster.gpool([&asked, words].concat()).refused(code, said);
    };
    refused(&["--policy", "easy"], 2, &["GP0212", "neither projects nor GPU models"]);
    refused(&["--if", "cancel 1"], 2, &["add, project, policy, drain"]);
    refused(&["--if", "project rde limit=1"], 6, &["GP0602", "rde"]);
    refused(&["--if", "policy ordr=age"], 2, &["ordr"]);
    refused(&["--since", "soon"], 2, &["--since", "is not a time"]);
    refused(&["--since", "now+1h"], 2, &["GP0257", "no job that was submitted since then"]);
    let path = |name: &str| cluster.work().join(name).display().to_string();
    std::fs::create_dir(cluster.work().join("empty")).unwrap();
    cluster
        .gpool(["simulate", "queue", "--trace", &path("empty")])
        .refused(1, &["GP0224", "no store in"]);
    let none = Cluster::new("sim:1xH100-80G");
    let state = none.state().display().to_string();
    none.gpool(["simulate", "queue", "--trace", &state])
        .refused(2, &["GP0257", "has no job that ran and has ended"]);
}
