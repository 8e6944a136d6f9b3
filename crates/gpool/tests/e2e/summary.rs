//! Summaries in lists and pages: columns of elements, output files, usage, sums by user.

use crate::harness::Cluster;

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn elements_show_their_parameters_and_csv_has_the_columns_of_wide() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let sweep = ["submit", "--hold", "--param", "lr=0.1,0.2", "--", "echo", "{lr}"];
    let id = cluster.gpool(sweep).ok().trim().to_owned();
    assert!(!cluster.gpool(["queue"]).ok().contains("PARAMS"));
    let elements = cluster.gpool(["queue", "-a"]).ok();
    says(&elements, &["PARAMS", "lr=0.1", "lr=0.2", &format!("{id}.1")]);
    let csv = cluster.gpool(["queue", "-a", "-o", "csv"]).ok();
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let wide = cluster.gpool(["queue", "-a", "-o", "wide"]).ok();
    assert!(wide.lines().next().unwrap().split_whitespace().count() > 10, "{wide}");
    for column in ["params", "prio", "submitted", "waited", "time", "starts", "reason", "note"] {
        assert!(head.contains(&column), "{column} is not in {head:?}");
    }
    // The keys of the API follow.
    assert!(head.starts_with(&["id", "name", "params"]) && head.contains(&"submitted_at"));
}

#[test]
fn an_ended_job_is_summed_up_with_its_request() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let flags = ["--gpus", "1", "--cpus", "2", "--mem", "1G", "--time", "1h", "-J", "sum"];
    let id = cluster.sh(&flags, "echo out; sleep 0.2");
    cluster.until_ended(&id);
    let show = cluster.gpool(["show", &id]).ok();
    let report = cluster.gpool(["report", &id]).ok();
    for page in [&show, &report] {
        says(page, &["1 GPU (lab1:0) · 0.00 GPU-hours of 1.00 asked for (0 %)"]);
        says(page, &[" of CPU time", "2 CPUs asked for)", "in one process (", " of 1 GiB)"]);
    }
    let log = cluster.state().join(format!("jobs/{id}/1/stdout")).display().to_string();
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "out\n");
    says(&show, &[&format!("log        {log}")]);
    let seff = cluster.gpool(["shim", "seff", &id]).ok();
    says(&seff, &["CPU Efficiency: ", "Memory Efficiency: ", "GPU Time Limit: 0% of 01:00:00"]);
}

#[test]
fn history_is_summed_up_by_user_project_and_name() {
    let cluster = Cluster::new("sim:1xH100-80G");
    for (name, line) in [("a", "true"), ("a", "exit 1"), ("b", "true")] {
        let id = cluster.sh(&["--gpus", "1", "-J", name], line);
        cluster.until_ended(&id);
    }
    let table = cluster.gpool(["history", "--by", "name"]).ok();
    says(&table, &["NAME", "GPU-H", "WAITED", "3 jobs · 2 succeeded"]);
    let rows = cluster.gpool(["history", "--by", "name", "--sort", "name", "--json"]).json();
    let rows = rows["items"].as_array().unwrap();
    let of = |row: &serde_json::Value| {
        let n = |key: &str| row[key].as_u64().unwrap();
        (row["name"].as_str().unwrap().to_owned(), n("n_jobs"), n("n_succeeded"))
    };
    let expected = [("a".to_owned(), 2, 1), ("b".to_owned(), 1, 1)];
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), expected);
    for by in ["user", "project"] {
        let rows = cluster.gpool(["history", "--by", by, "--json"]).json();
        assert_eq!(rows["items"][0]["n_jobs"], 3, "{rows}");
        assert_eq!(rows["items"].as_array().unwrap().len(), 1, "{rows}");
    }
}
