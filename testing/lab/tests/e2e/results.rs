//! The results of a simulation, as CSV and as a page.

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
fn a_page_says_what_was_asked_and_is_the_same_each_time() {
    let files = Files::new();
    for (words, said) in [
        (&["queue"][..], "Waiting times: fifo and fair"),
        (&["queue", "--policy", "las", "--preemptible"], "they continue later and repeat"),
        (&["packing"], "Cluster utilization: fgd and rollout"),
        (&["packing", "--churn", "0.9"], "of the requested GPUs are rejected"),
    ] {
        let words = [words, &["-o", "html"]].concat();
        let page = files.simulate(&words);
        assert_eq!(page, files.simulate(&words));
        assert!(page.starts_with("<!DOCTYPE html>\n") && page.contains(said), "{page}");
        assert!(page.contains("<code>gpool simulate "), "{page}");
        for word in ["http://", "https://", "<script", "<link", "src=", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }
}

#[test]
fn a_page_has_what_the_table_has() {
    let files = Files::new();
    let page = files.simulate(&["queue", "-o", "html"]);
    let table = files.simulate(&["queue"]);
    for word in table.lines().take(3).flat_map(|line| line.split("  ")) {
        assert!(page.contains(&format!(">{}<", word.trim())) || word.trim().is_empty(), "{word}");
    }
    assert!(
        page.contains("&#60;script&#62;alert(1)") && page.contains("red, &#38; blue"),
        "{page}"
    );
    assert!(page.contains("The trace is too short"), "{page}");
}
