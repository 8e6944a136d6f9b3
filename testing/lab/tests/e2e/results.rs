//! The results of a simulation: as CSV, as JSON with figures, and as text.

use serde_json::Value;

use crate::place::{Place, stderr, stdout};

const JOBS: &str = "submit_s,duration_s,gpus,vc\n\
    0,7200,8,<script>alert(1)</script>\n60,3600,1,\"red, & blue\"\n120,60,16,red\n130,60,8,red\n";
const NODES: &str =
    "sn,cpu_milli,memory_mib,gpu,model\na,96000,393216,8,A100\nb,64000,262144,8,A100\n";
const TASKS: &str =
    "cpu_milli,memory_mib,num_gpu,gpu_milli\n8000,16384,1,1000\n12000,8192,2,1000\n";

struct Files {
    place: Place,
}

impl Files {
    fn new() -> Self {
        let place = Place::new();
        place.file("jobs.csv", JOBS.as_bytes());
        place.file("nodes.csv", NODES.as_bytes());
        place.file("tasks.csv", TASKS.as_bytes());
        Self { place }
    }

    fn simulate(&self, words: &[&str]) -> String {
        let mut all = vec!["simulate", words[0]];
        match words[0] {
            "queue" => all.extend(["--trace", "jobs.csv", "--cluster", "2x8"]),
            _ => all.extend(["--nodes", "nodes.csv", "--tasks", "tasks.csv", "--seeds", "1..3"]),
        }
        all.extend(&words[1..]);
        let output = self.place.run(&all);
        assert_eq!(output.status.code(), Some(0), "{all:?}: {}", stderr(&output));
        stdout(&output)
    }
}

#[test]
fn values_with_commas_are_those_of_json() {
    let files = Files::new();
    for (words, n, columns) in [
        (
            &["queue", "--policy", "fifo:planned_starts=0", "--policy", "fair"][..],
            2,
            "policy,jobs,refused",
        ),
        (&["packing"], 30, "policy,seed,arrived,allocated,fragment"),
        (&["packing", "--churn", "0.9", "--moves", "1"], 6, "policy,seed,load,allocated,rejected"),
    ] {
        let json: Value =
            serde_json::from_str(&files.simulate(&[words, &["--json"]].concat())).unwrap();
        let items = json["items"].as_array().unwrap();
        let text = files.simulate(&[words, &["-o", "csv"]].concat());
        assert!(text.starts_with(columns), "{text}");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!((rows.len(), items.len()), (n, n));
        for (row, item) in rows.iter().zip(items) {
            assert_eq!(item.as_object().unwrap().len(), names.len());
            for (name, cell) in names.iter().zip(row) {
                let text = match &item[name] {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                assert_eq!(cell, text, "{name}");
            }
        }
    }
}

#[test]
fn a_queue_document_has_the_comparison_and_the_figures_of_each_policy() {
    let files = Files::new();
    let words = ["queue", "--policy", "fifo", "--policy", "las", "--preemptible", "-o", "json"];
    let text = files.simulate(&words);
    assert_eq!(text, files.simulate(&words), "equal input gives equal output");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&document["jobs"], &document["interrupted"]), (&4.into(), &false.into()));
    assert_eq!((&document["nodes"], &document["gpus"]), (&2.into(), &16.into()));
    assert_eq!((&document["preemptible"], &document["restart_s"]), (&true.into(), &60.0.into()));
    let compared = &document["comparisons"][0];
    assert_eq!((&compared["policy"], &compared["compared_with"]), (&"las".into(), &"fifo".into()));
    assert_eq!((&compared["pairs"], &compared["days"]), (&4.into(), &1.into()), "{compared}");
    let mean = |key: &str| compared[key].as_f64().unwrap();
    let difference = mean("mean_s") - mean("mean_of_first_s");
    assert!((difference - mean("difference_s")).abs() < 1e-6, "{compared}");
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("confidence intervals of 1 day are unreliable"), "{warnings}");
    let figures = document["figures"].as_object().unwrap();
    let names: Vec<&str> = figures.keys().map(String::as_str).collect();
    assert_eq!(names, ["fairness", "gpus", "owners", "runs", "sizes", "times", "waits"]);
    for figure in figures.values() {
        let policies = figure.as_array().unwrap().iter().map(|it| &it["policy"]);
        assert_eq!(policies.collect::<Vec<_>>(), ["fifo", "las"], "{figure}");
    }
    let owners = &figures["owners"][0]["owner"];
    assert_eq!(*owners, serde_json::json!(["<script>alert(1)</script>", "red, & blue", "red"]));
}

#[test]
fn the_text_compares_each_policy_with_the_first() {
    let files = Files::new();
    let queue = files.simulate(&["queue"]);
    assert!(queue.contains("POLICY  DIFFERENCE  95% INTERVAL  DAYS  RESULT"), "{queue}");
    assert!(!files.simulate(&["queue", "--policy", "fifo"]).contains("DIFFERENCE"));
    let packing = files.simulate(&["packing"]);
    assert!(packing.contains("DIFFERENCE") && packing.contains("SEEDS"), "{packing}");
    let churned = files.simulate(&["packing", "--churn", "0.9", "-o", "json"]);
    let churned: Value = serde_json::from_str(&churned).unwrap();
    assert_eq!((&churned["tasks"], &churned["churn"]), (&2.into(), &0.9.into()), "{churned}");
    assert_eq!(churned["comparisons"][0]["seeds"], 3, "{churned}");
    assert!(churned["warnings"][0].as_str().unwrap().contains("3 seeds"), "{churned}");
}
