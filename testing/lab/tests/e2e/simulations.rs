//! Packings and traces that are simulated or refused, without a server.

use crate::place::{Place, stderr, stdout};

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,65536,8,A\nn2,64000,65536,8,A\n";
const TASKS: &str = "cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,1,1,1000\n1000,1,1,460\n\
                     8000,1,8,1000\n";

#[test]
fn a_cluster_is_filled_by_one_policy_and_another() {
    let place = Place::new();
    place.file("nodes.csv", NODES.as_bytes());
    place.file("tasks.csv", TASKS.as_bytes());
    let files = ["simulate", "packing", "--nodes", "nodes.csv", "--tasks", "tasks.csv"];
    let packing = |words: &[&str]| place.run(&[&files, words].concat());
    let table = packing(&["--seeds", "1..3"]);
    assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
    let lines = stdout(&table);
    let policies: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(policies[..3], ["POLICY", "fgd", "rollout"]);
    let filled = packing(&["--seeds", "1..3", "--policy", "best-fit", "-o", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&filled.stdout).unwrap();
    let items = document["items"].as_array().unwrap();
    assert_eq!((items.len(), &document["gpus"]), (15, &serde_json::json!(16)));
    for item in items {
        assert_eq!(item["policy"], "best-fit");
        let part = |key: &str| item[key].as_f64().unwrap();
        assert!(part("allocated") > 0.3 && part("allocated") <= 1.0, "{item}");
        assert!([0.9, 0.95, 1.0, 1.1, 1.3].contains(&part("arrived")), "{item}");
    }
    let churned = packing(&["--churn", "0.9", "--moves", "2", "--seeds", "4", "-o", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&churned.stdout).unwrap();
    assert_eq!(document["items"].as_array().unwrap().len(), 2);
    assert!(document["items"][0]["arrivals"].as_u64().unwrap() > 0);
}

#[test]
fn what_can_not_be_filled_is_refused_and_says_what_there_is() {
    let place = Place::new();
    place.file("nodes.csv", NODES.as_bytes());
    place.file("tasks.csv", TASKS.as_bytes());
    place.file("bad.csv", TASKS.replace("1,460", "2,460").as_bytes());
    place.file("none.csv", b"cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,1,0,0\n");
    for (tasks, words, said) in [
        ("tasks.csv", &["--policy", "best"][..], "rules are random, best-fit, fgd, rollout"),
        ("tasks.csv", &["--policy", "fgd:x=1"], "its settings are margin"),
        ("tasks.csv", &["--seeds", "3..1"], "LOW..HIGH"),
        ("tasks.csv", &["--churn", "NaN"], "write e.g. 0.95"),
        ("tasks.csv", &["--moves", "3"], "--churn"),
        ("bad.csv", &[], "bad.csv:3, column gpu_milli: \"460\" is not"),
        ("none.csv", &[], "no task requests GPUs"),
        ("missing.csv", &[], "missing.csv"),
    ] {
        let files = ["simulate", "packing", "--nodes", "nodes.csv", "--tasks", tasks];
        let output = place.run(&[&files[..], words].concat());
        assert_eq!(output.status.code(), Some(2), "{tasks} {words:?}");
        assert!(stderr(&output).contains(said), "{said}: {}", stderr(&output));
    }
}

const JOBS: &str = "id,submit_s,duration_s,gpus\n0,0,7200,8\n1,60,3600,1\n2,120,60,16\n3,99,60,8\n";

#[test]
fn a_trace_is_played_by_one_policy_and_another() {
    let place = Place::new();
    place.file("jobs.csv", JOBS.replace("3,99", "3,130").as_bytes());
    place.file("wrong.csv", JOBS.as_bytes());
    let queue = |words: &[&str]| {
        let files = ["simulate", "queue", "--trace", "jobs.csv", "--cluster", "2x8"];
        place.run(&[&files, words].concat())
    };
    let table = queue(&[]);
    assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
    let text = stdout(&table);
    let policies: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(policies[..3], ["POLICY", "fifo", "fair"]);
    let document = queue(&["--policy", "fifo:planned_starts=0", "-o", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&document.stdout).unwrap();
    let item = &document["items"][0];
    // The third job waits for both nodes, the last one for the second.
    let used = (8.0 * 130.0 + 70.0) / (16.0 * 130.0);
    let expected = serde_json::json!({
        "policy": "fifo:planned_starts=0", "jobs": 4, "refused": 0, "stuck": 0, "cut": 0,
        "wait_mean_s": 2652.5,
        "wait_p50_s": 0, "wait_p99_s": 7080, "wait_max_s": 7080, "wait_p99_large_s": 7080,
        "wait_mean_light_s": null,
        "jct_mean_s": 5382.5, "utilization": used, "makespan_s": 7260, "preemptions": 0,
        "forecasts": null, "forecasts_by_p90": null, "forecasts_by_p50": null,
        "forecasts_wait_to_p50": null,
    });
    assert_eq!(*item, expected);
    // The second of two users has less GPU time, and waits for the first.
    place.file("users.csv", b"submit_s,duration_s,gpus,vc\n0,7200,8,a\n60,600,8,b\n");
    let words = ["simulate", "queue", "--trace", "users.csv", "--cluster", "1x8", "-o", "json"];
    let document = place.run(&words);
    let document: serde_json::Value = serde_json::from_slice(&document.stdout).unwrap();
    assert_eq!(document["items"][0]["wait_mean_light_s"], 7140.0, "{document}");
    let told = queue(&["--policy", "fifo", "--known-times", "--forecast-every", "10m"]);
    assert!(stdout(&told).contains("FORECASTS  BY P90"), "{}", stdout(&told));
    let told =
        queue(&["--policy", "fifo", "--known-times", "--forecast-every", "10m", "-o", "json"]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["items"][0]["forecasts"], 2, "{told}");
    let small = ["simulate", "queue", "--trace", "jobs.csv", "--cluster", "1x8"];
    for policy in ["fifo", "easy", "tiresias"] {
        let small = place.run(&[&small[..], &["--policy", policy]].concat());
        assert!(stderr(&small).contains("1 job was refused"), "{}", stderr(&small));
    }
    // The third job preempts the others; then the first waits for the last one, and repeats a
    // minute.
    let document = queue(&["--policy", "greedy", "--policy", "srsf", "-o", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&document.stdout).unwrap();
    let waits = |n: usize| document["items"][n]["wait_max_s"].as_u64();
    assert_eq!([waits(0), waits(1)], [Some(7_080), Some(180)], "{document}");
    // With las jobs are always preemptible, with fair only if requested.
    let las = queue(&["--policy", "las", "-o", "json"]);
    let asked = queue(&["--policy", "las", "--preemptible", "-o", "json"]);
    let [las, asked] =
        [las, asked].map(|it| serde_json::from_slice::<serde_json::Value>(&it.stdout).unwrap());
    assert_eq!((&las["items"], &las["figures"]), (&asked["items"], &asked["figures"]));
    assert!(las["items"][0]["preemptions"].as_u64().unwrap() > 0, "{las}");
    for (trace, words, said) in [
        ("jobs.csv", &["--cluster", "8"][..], "NODESxGPUS, e.g. 80x8"),
        ("jobs.csv", &["--cluster", "2x8", "--policy", "best"], "las; baselines are fifo-"),
        ("jobs.csv", &["--cluster", "2x8", "--policy", "easy:x=1"], "easy has no settings"),
        ("jobs.csv", &["--cluster", "2x8", "--policy", "fair:x=1"], "x"),
        ("wrong.csv", &["--cluster", "2x8"], "wrong.csv:5, column submit_s: \"99\" is not 120"),
        ("none.csv", &["--cluster", "2x8"], "none.csv"),
        ("jobs.csv", &[], "needs the size of a cluster"),
        ("jobs.csv", &["--cluster", "2x8", "--since", "3d"], "--since needs a store"),
        ("jobs.csv", &["--cluster", "2x8", "--if", "drain n3"], "--if needs a store"),
        ("jobs.csv", &["--cluster", "2x8", "--policy", "as-is"], "as-is needs a store"),
    ] {
        let output = place.run(&[&["simulate", "queue", "--trace", trace], words].concat());
        assert_eq!(output.status.code(), Some(2), "{trace} {words:?}");
        assert!(stderr(&output).contains(said), "{said}: {}", stderr(&output));
    }
}

/// A public scenario by its ID, with one device and a job that requests it.
const CASE: &str = r#"{"scenarios": [{
    "id": "ID", "name": "a job gets what is free",
    "nodes": [{"name": "node0", "gpus": 1}],
    "queues": [{"name": "red", "deserved_gpus": 1}],
    "jobs": [{"name": "pending_job0", "queue": "red", "gpus": 1,
              "tasks": [{"name": "a-0", "state": "Pending"}]}]
}]}"#;

#[test]
fn cases_are_played_and_counted() {
    let place = Place::new();
    let known = "kai/allocate/allocateElastic/0daf83d1e2";
    place.file("known.json", CASE.replace("ID", known).as_bytes());
    place.file("own.json", CASE.replace("ID", "own").as_bytes());
    let both = place.run(&["simulate", "scenarios", "known.json", "own.json"]);
    assert_eq!(both.status.code(), Some(0), "{}", stderr(&both));
    let expected = "same        kai/allocate/allocateElastic/0daf83d1e2\n\
                    not played  own\n            no recorded answer\n\
                    1 same, 0 differ with an explanation, 1 not run\n";
    assert_eq!(stdout(&both), expected);
    // KAI runs the job, and here no node has as many cores.
    let too_large =
        CASE.replace("ID", known).replace(r#""gpus": 1,"#, r#""gpus": 1, "cpus": 99999,"#);
    place.file("fault.json", too_large.as_bytes());
    let fault = place.run(&["simulate", "scenarios", "fault.json"]);
    assert_eq!(fault.status.code(), Some(1), "{}", stdout(&fault));
    assert!(stdout(&fault).contains("no explanation"), "{}", stdout(&fault));
    place.file("none.json", b"{\"scenarios\": 7}");
    let none = place.run(&["simulate", "scenarios", "none.json"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("GP0255"), "{}", stderr(&none));
}
