//! Maps: workers that load something once handle the items of a list.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gpool_client::JobsQuery;
use serde_json::{Value, json};

use crate::harness::{Cluster, kill_9, until, until_so};

/// A program that squares numbers. It fails for `bad`, dies of `kill`, and waits for the file `go`
/// at `wait`. It writes each item to a file when it begins it.
const SQUARES: &str = r#"
import json, os, sys, time
print("loaded", flush=True)
for line in sys.stdin:
    it = json.loads(line)
    item, number = it["item"], it["id"]
    with open("begun", "a") as begun:
        begun.write(f"{number}\n")
    answer = {"done": number}
    if item == "bad":
        answer = {"failed": number, "why": "no number"}
    elif item == "kill":
        os.kill(os.getpid(), 9)
    elif item == "wait":
        while not os.path.exists("go"):
            time.sleep(0.02)
    else:
        answer["result"] = int(item) ** 2
    print(json.dumps({"gpool": answer}), flush=True)
"#;

pub fn file(cluster: &Cluster, name: &str, text: &str) -> String {
    let path = cluster.work().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The folder of a map.
fn folder(cluster: &Cluster, name: &str) -> PathBuf {
    let shown = cluster.gpool(["map", "--show", name, "--json"]).json();
    PathBuf::from(shown["records"].as_str().unwrap()).parent().unwrap().to_owned()
}

/// The records of a map: how often each item is done, the results, and the items set aside.
pub fn records(
    cluster: &Cluster,
    name: &str,
) -> (BTreeMap<u64, u32>, BTreeMap<u64, Value>, Vec<u64>) {
    let text = std::fs::read_to_string(folder(cluster, name).join("records.jsonl")).unwrap();
    let (mut done, mut results, mut aside) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let id = record["id"].as_u64().unwrap();
        match record["state"].as_str().unwrap() {
            "done" => {
                *done.entry(id).or_default() += 1;
                results.insert(id, record["result"].clone());
            }
            "set_aside" => aside.push(id),
            _ => {}
        }
    }
    (done, results, aside)
}

#[test]
fn items_are_handled_by_workers_that_load_once() {
    let cluster = Cluster::new("sim:2xA100-40G");
    let program = file(&cluster, "squares.py", SQUARES);
    let lines: String = (0..200).map(|n| format!("{n}\n")).collect();
    let items = file(&cluster, "items.txt", &lines);
    let words = ["map", &items, "--name", "squares", "--workers-per-gpu", "2", "--ahead", "4"];
    let ran = cluster.gpool([&words[..], &["--", "python3", &program]].concat());
    assert!(ran.err.contains("map squares: 200 items"), "{}", ran.err);
    // A change of the list has no effect.
    std::fs::write(&items, "other\n").unwrap();
    let id = ran.ok().trim().to_owned();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    let (done, results, aside) = records(&cluster, "squares");
    assert_eq!((done.len(), aside.len()), (200, 0));
    assert!(done.values().all(|n| *n == 1));
    assert!(results.iter().all(|(id, result)| *result == json!(id * id)), "{results:?}");
    let shown = cluster.gpool(["map", "--show", "squares"]).ok();
    assert!(shown.contains("map squares: 200 of 200 items done"), "{shown}");
    // Four workers, with half a GPU each; the model is loaded once in each.
    let query = JobsQuery {
        group: Some("squares".into()),
        state: Some("all".into()),
        ..Default::default()
    };
    let jobs = cluster.client().jobs(&query).unwrap().items;
    let workers = jobs.iter().find(|job| job.array.is_some()).expect("the workers").id.clone();
    let ended = cluster.until_ended(&workers);
    assert_eq!(ended.array.as_ref().unwrap().n_elements, 4);
    assert_eq!(ended.request.gpus_text(), "0.5");
    let loaded: usize = (0..4)
        .map(|n| cluster.gpool(["logs", &format!("{workers}.{n}")]).out.matches("loaded").count())
        .sum();
    assert!((1..=4).contains(&loaded), "{loaded}");
    let taken = ["map", &items, "--name", "squares", "--", "cat"];
    cluster.gpool(taken).refused(2, &["there is a map squares already", "--resume squares"]);
    let note = cluster.gpool(["map", "--resume", "squares"]);
    assert!(note.err.contains("all items of squares are done"), "{}", note.err);
}

#[test]
fn bad_items_are_set_aside_and_tried_again_later() {
    let cluster = Cluster::new("none");
    let program = file(&cluster, "squares.py", SQUARES);
    let items = file(&cluster, "items.jsonl", "1\n\"bad\"\n2\n\"kill\"\n3\n4\n5\n6\n");
    let words = ["--name", "some", "--workers", "2", "--ahead", "3", "--tries", "2"];
    let command = ["--", "python3", &program];
    let id = cluster.gpool([&["map", &items][..], &words, &command].concat()).ok();
    let ended = cluster.until_ended(id.trim());
    assert_eq!((ended.state.as_str(), ended.run.exit_code), ("failed", Some(1)), "{ended:?}");
    let (done, results, mut aside) = records(&cluster, "some");
    aside.sort_unstable();
    assert_eq!(aside, [1, 3], "the items beside a killer are not blamed");
    assert_eq!(done.keys().copied().collect::<Vec<_>>(), [0, 2, 4, 5, 6, 7]);
    assert_eq!(results[&7], json!(36));
    let shown = cluster.gpool(["map", "--show", "some"]).ok();
    assert!(shown.contains("6 of 8 items done · 2 set aside"), "{shown}");
    assert!(shown.contains("gpool map --resume some"), "{shown}");
    // With a program that can handle them.
    let repaired = SQUARES.replace("item == \"bad\"", "False").replace("item == \"kill\"", "False");
    let repaired = repaired.replace("int(item) ** 2", "str(item)");
    file(&cluster, "squares.py", &repaired);
    let again = cluster.gpool(["map", "--resume", "some"]).ok();
    assert_eq!(cluster.until_ended(again.trim()).state.as_str(), "succeeded");
    let (done, results, _) = records(&cluster, "some");
    assert_eq!((done.len(), &results[&1], &results[&3]), (8, &json!("bad"), &json!("kill")));
}

#[test]
fn a_map_survives_kills_of_everything() {
    let mut cluster = Cluster::new("sim:2xA100-40G");
    let program = file(&cluster, "squares.py", SQUARES);
    let mut lines: String = (0..60).map(|n| format!("{n}\n")).collect();
    lines.push_str("wait\n");
    let items = file(&cluster, "items.txt", &lines);
    let words = ["--name", "hard", "--workers", "2", "--gpus", "1", "--retry", "3"];
    let command = ["--", "python3", &program];
    let id = cluster.gpool([&["map", &items][..], &words, &command].concat()).ok();
    let driver = id.trim();
    let begun = cluster.work().join("begun");
    until_so("items are begun", || {
        std::fs::read_to_string(&begun).is_ok_and(|it| it.lines().count() > 4)
    });
    kill_9(process(&cluster, "map-driver").expect("the driver"));
    if let Some(worker) = process(&cluster, "map-worker") {
        kill_9(worker);
    }
    cluster.kill();
    cluster.up();
    if let Some(program) = process(&cluster, "squares.py") {
        kill_9(program);
    }
    until_so("the rest waits", || {
        let (done, ..) = records(&cluster, "hard");
        done.len() == 60
    });
    std::fs::write(cluster.work().join("go"), "").unwrap();
    assert_eq!(cluster.until_ended(driver).state.as_str(), "succeeded");
    let (done, _, aside) = records(&cluster, "hard");
    assert_eq!((done.len(), aside.len()), (61, 0));
    assert!(done.values().all(|n| *n == 1), "an item is recorded twice: {done:?}");
}

/// A process of the cluster with a word in its command line.
fn process(cluster: &Cluster, word: &str) -> Option<u32> {
    let work = cluster.work();
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let cwd = std::fs::read_link(entry.path().join("cwd")).ok()?;
        let mut words = line.split('\0').take(2);
        (words.any(|own| own.ends_with(word)) && cwd == work).then_some(pid)
    })
}

#[test]
fn lists_come_from_standard_input_tables_and_files() {
    let cluster = Cluster::new("none");
    let upper =
        ["--answer", "line", "--", "sh", "-c", "while read -r line; do echo \"$line\"; done"];
    let table = file(&cluster, "table.csv", "name,age\nana,3\nbo,4\n");
    let id = cluster.gpool([&["map", &table, "--name", "table"][..], &upper].concat()).ok();
    cluster.until_ended(id.trim());
    let (_, results, _) = records(&cluster, "table");
    let row: Value = serde_json::from_str(results[&1].as_str().unwrap()).unwrap();
    assert_eq!(row, json!({"id": 1, "item": {"name": "bo", "age": "4"}}));
    for name in ["b.jpg", "a.jpg", "c.png"] {
        file(&cluster, name, "");
    }
    let id = cluster.gpool([&["map", "*.jpg", "--files", "--name", "files"][..], &upper].concat());
    cluster.until_ended(id.ok().trim());
    let (_, results, _) = records(&cluster, "files");
    let first: Value = serde_json::from_str(results[&0].as_str().unwrap()).unwrap();
    assert_eq!((results.len(), &first["item"]), (2, &json!("a.jpg")));
    let input =
        cluster.gpool_reading([&["map", "-", "--name", "input"][..], &upper].concat(), b"x\ny\n");
    cluster.until_ended(input.ok().trim());
    assert_eq!(records(&cluster, "input").0.len(), 2);
}

#[test]
fn a_map_that_cannot_run_is_refused_with_the_way_out() {
    let cluster = Cluster::new("none");
    let refused = |words: &[&str], texts: &[&str]| {
        cluster.gpool([&["map"][..], words].concat()).refused(2, texts);
    };
    let wrong = file(&cluster, "wrong.jsonl", "1\nx\n");
    let empty = file(&cluster, "empty.txt", "\n");
    refused(&["a.txt"], &["no command", "gpool map items.txt"]);
    refused(&["--", "cat"], &["which items?", "--files"]);
    refused(&["a.txt", "--", "cat"], &["a.txt: can't read it"]);
    refused(&[&wrong, "--", "cat"], &["wrong.jsonl: line 2: it is not JSON"]);
    refused(&[&empty, "--", "cat"], &["no items"]);
    refused(&["*.none", "--files", "--", "cat"], &["*.none: no file has such a name"]);
    refused(&[&empty, "--array", "0-3", "--", "cat"], &["array in a group of their own"]);
    let user = ["--image", "busybox", "--container-user", "root", "--", "cat"];
    refused(&[&[&*empty][..], &user].concat(), &["--container-user does not apply"]);
    refused(&[&empty, "--name", "a b", "--", "cat"], &["no name of a map"]);
    refused(&[&wrong, "--tries", "0", "--", "cat"], &["--tries"]);
    refused(&[&wrong, "--ahead", "0", "--", "cat"], &["--ahead"]);
    cluster.gpool(["map", "--show", "none"]).refused(6, &["there is no map none"]);
    cluster.gpool(["map", "--resume", "none"]).refused(6, &["there is no map none"]);
    // A program that never takes an item ends its worker, and the map.
    let items = file(&cluster, "items.txt", "1\n");
    let id = cluster.gpool(["map", &items, "--name", "broken", "--", "false"]).ok();
    let ended = cluster.until_ended(id.trim());
    assert_eq!(ended.state.as_str(), "failed");
    let log = cluster.gpool(["logs", id.trim()]).out;
    let said = until("the driver says why", || (!log.is_empty()).then_some(log.clone()));
    assert!(said.contains("1 items"), "{said}");
}
