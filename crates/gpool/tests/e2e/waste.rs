//! GPU time that jobs hold and do not use.

use crate::harness::{Cluster, until_so};
use crate::notify::Endpoint;

#[test]
fn idle_jobs_are_ranked_with_the_jobs_that_would_start_without_them() {
    let cluster = Cluster::new("sim:2xH100-80G");
    cluster.gpool(["project", "create", "nlp", "--gpus", "1.5"]).ok();
    let idle = cluster.sh(&["--gpus", "1", "--time", "9h", "--name", "idle"], "sleep 1000");
    cluster.until_is(&idle, "running");
    let endpoint = Endpoint::new(|_| Some(204));
    let rule = format!("cancel@{}", endpoint.url);
    let flags = ["--gpus", "1", "--time", "8h", "--name", "<b>x", "--notify", &rule];
    let busy = cluster.sh(&flags, "sleep 1000");
    cluster.until_is(&busy, "running");
    for (device, percent) in [("0", "5"), ("1", "90")] {
        cluster.gpool(["sim", "utilize", device, percent]).ok();
    }
    let waits = cluster.sh(&["--gpus", "1", "--time", "1h"], "true");
    assert!(cluster.gpool(["waste"]).ok().contains("No job with measured utilization"));

    until_so("a minute is recorded", || cluster.state().join("usage/history.db").exists());
    until_so("both jobs have a recorded minute", || {
        cluster.gpool(["waste", "-o", "name"]).ok().lines().count() == 2
    });
    let rows = cluster.gpool(["waste", "--sooner", "--json"]).json();
    let [first, second] = &rows["items"].as_array().unwrap()[..] else { panic!("{rows}") };
    assert_eq!((&first["job"]["id"], &second["job"]["id"]), (&idle.into(), &busy.clone().into()));
    let figure = |row: &serde_json::Value, key: &str| row[key].as_f64().unwrap();
    // The first looks may have come before the devices were in use.
    assert!(figure(first, "gpu_utilization") <= 0.05 && figure(first, "idle_gpu_hours") > 0.0);
    assert!(figure(second, "gpu_utilization") > 0.2, "{second}");
    assert_eq!(first["sooner"], serde_json::json!([waits]), "{first}");

    cluster.gpool(["cancel", "--yes", "all"]).ok();
    for id in [first, second].map(|row| row["job"]["id"].as_str().unwrap()) {
        cluster.until_ended(id);
    }
    let message = endpoint.until_got(1)[0].json();
    let used = &message["data"]["gpu_use"][0];
    assert_eq!(used["node"], "lab1", "{message}");
    assert!(figure(used, "gpu_utilization") > 0.2, "{message}");
    // Ended jobs keep what their agents measured.
    let table = cluster.gpool(["waste"]).ok();
    let lines: Vec<&str> = table.lines().filter(|line| line.contains("cancelled")).collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(lines[0].contains("idle"), "{table}");
    let usage = cluster.gpool(["usage", "--json"]).json();
    let mut usage = usage["items"].as_array().unwrap().iter();
    let nlp = usage.find(|row| row["project"] == "nlp").expect("it has a guarantee");
    let recorded = figure(nlp, "guaranteed_gpu_hours");
    assert!(recorded > 0.0 && figure(nlp, "gpu_hours") == 0.0, "{nlp}");
    let report = cluster.gpool(["report", &busy, "--json"]).json();
    let node = &report["items"][0]["nodes"][0];
    assert_eq!(node["node"], "lab1", "{report}");
    assert!(figure(node, "gpu_utilization") > 0.2, "{report}");
    for (words, title) in [
        (&["waste"][..], "Idle GPU time of jobs since 7d"),
        (&["usage", "--by", "user", "--since", "1d"], "GPU time by user since 1d"),
        (&["cost"], "Cost by project since 7d"),
        (&["report", &busy], "Use of jobs"),
    ] {
        let page = cluster.gpool([words, &["-o", "html"]].concat()).ok();
        assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</html>\n"), "{page}");
        assert!(page.contains(&format!("<h1>{title}</h1>")), "{page}");
        assert!(
            page.contains("<svg") && !page.contains("<b>x") && !page.contains("<link"),
            "{page}"
        );
    }
    let page = cluster.gpool(["waste", "-o", "html", "--format", "id,name"]).ok();
    assert!(page.contains(&format!("<td>{busy}</td><td>&#60;b&#62;x</td>")), "{page}");
    cluster.gpool(["waste", "--since", "yesterweek"]).refused(2, &["yesterweek"]);
}
