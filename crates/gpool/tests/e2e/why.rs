//! Answers of `gpool why` in special situations, and of verbs about their jobs.

use crate::harness::{Cluster, until, until_so};

const LONG: &str = "sleep 1000";

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

/// A job that has all GPUs of this request.
fn runs(cluster: &Cluster, gpus: &str, name: &str) -> String {
    let id = cluster.sh(&["--gpus", gpus, "--time", "1h", "-J", name], LONG);
    cluster.until_is(&id, "running");
    id
}

#[test]
fn reserved_gpus_are_not_usable() {
    let cluster = Cluster::new("sim:2xH100-80G");
    cluster.gpool(["reserve", "create", "--gpus", "2", "--user", "nobody", "--for", "4h"]).ok();
    let id = cluster.submit(["--gpus", "1", "--time", "1h", "--", "true"]);
    let page = cluster.why(&id);
    says(&page, &["2 GPUs of lab1 are reserved for nobody until ", " (r1)."]);
    let why = cluster.gpool(["why", &id, "--json"]).json()["items"][0].clone();
    assert_eq!(why["nodes"][0]["devices"][0]["reserved"]["by"], "r1", "{why}");
    assert_eq!(why["nodes"][0]["n_free"], 0, "{why}");
    cluster.gpool(["cancel", &id]).ok();
    cluster.gpool(["policy", "set", "--preset", "static"]).ok();
    let id = cluster.submit(["--gpus", "1", "--", "true"]);
    let page = cluster.why(&id);
    says(&page, &["Only reserved GPUs are used here", "gpool reserve create"]);
}

#[test]
fn why_explains_an_element_and_not_its_array() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let holder = runs(&cluster, "1", "holder");
    let array = cluster.submit(["--gpus", "1", "--time", "10m", "--array", "1-60", "--", "true"]);
    let element = format!("{array}.50");
    let page = cluster.why(&element);
    says(
        &page,
        &[&format!("Job {element} "), "49 jobs are before it", &format!("{array}.49 (you")],
    );
    let whole = cluster.why(&array);
    says(&whole, &[&format!("Job {array} "), &format!("your job {holder} uses GPU 0 until ")]);
    assert!(!whole.contains("before it"), "{whole}");
    // Its first element starts sooner than the fiftieth.
    let start = |id: &str| {
        let why = cluster.gpool(["why", id, "--json"]).json()["items"][0].clone();
        why["eta"]["p50"].as_str().unwrap().to_owned()
    };
    assert!(start(&array) < start(&element), "{whole}\n{page}");
}

#[test]
fn a_begin_time_and_a_deadline_are_named() {
    let cluster = Cluster::new("sim:1xH100-80G");
    runs(&cluster, "1", "holder");
    let begin = ["--gpus", "1", "--time", "10m", "--begin", "now+3h", "--", "true"];
    let begin = cluster.submit(begin);
    let page = cluster.why(&begin);
    says(&page, &["It begins at ", ", its begin time"]);
    assert!(!page.contains("has ended"), "{page}");
    let asked = ["submit", "--gpus", "1", "--time", "30m", "--deadline", "now+31m", "--", "true"];
    let ran = cluster.gpool(asked);
    says(&ran.err, &["it must end by ", "the earliest start is "]);
    let page = cluster.why(ran.out.trim());
    says(
        &page,
        &["Expected start none: it must end by ", ", so it must start by ", "--deadline none"],
    );
}

#[test]
fn a_preempted_job_has_run_before() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let low = ["--gpus", "1", "--time", "1h", "--preemptible", "-J", "low"];
    let low = cluster.sh(&low, LONG);
    cluster.until_is(&low, "running");
    let high = cluster.sh(&["--gpus", "1", "--time", "1h", "--priority", "10"], LONG);
    cluster.until_is(&high, "running");
    cluster.until_is(&low, "pending");
    let page = cluster.why(&low);
    says(&page, &["Run 1 ran ", &format!("preempted for job {high}, which has a higher priority")]);
    says(&cluster.gpool(["queue"]).ok(), &["run 2: needs 1 GPU, and none is free"]);
}

#[test]
fn a_paused_job_is_resumed_and_not_released() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = runs(&cluster, "1", "paused");
    cluster.gpool(["pause", &id]).ok();
    // Until its GPU is free, another text says that it is being paused.
    until_so("it is paused", || cluster.why(&id).contains("paused by you"));
    let page = cluster.why(&id);
    says(&page, &[" has been paused since ", "paused by you", &format!("gpool resume {id}")]);
    assert!(!page.contains("released") && !page.contains("not started"), "{page}");
    let other = runs(&cluster, "1", "other");
    let waits = format!("job {id} continues when its GPUs are free (gpool why {id})\n");
    assert_eq!(cluster.gpool(["resume", &id]).ok(), waits);
    let page = cluster.why(&id);
    says(
        &page,
        &[
            "It does not continue because",
            "Expected start ",
            &format!("your job {other} has ended"),
        ],
    );
    says(&cluster.gpool(["show", &id]).ok(), &["paused     since "]);
    let row = until("there is a forecast", || {
        let table = cluster.gpool(["queue"]).ok();
        let row = table.lines().find(|line| line.contains("paused"))?.to_owned();
        row.contains("  by ").then_some(row)
    });
    says(&row, &["needs its own GPU"]);
}

#[test]
fn verbs_show_their_changes() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let array = ["--gpus", "1", "--time", "1h", "--array", "1-4", "-J", "sweep"];
    let array = cluster.sh(&array, LONG);
    // Both have an end from then on.
    cluster.until_is(&format!("{array}.1"), "running");
    cluster.until_is(&format!("{array}.2"), "running");
    let gpus = cluster.gpool(["gpus"]).ok();
    says(&gpus, &["(limit)"]);
    assert!(!gpus.contains("unknown"), "{gpus}");
    let longer = cluster.gpool(["extend", &array, "+30m"]).ok();
    assert_eq!(longer, format!("job {array} time limit +30m\n"));
    let named = cluster.gpool(["edit", &array, "--name", "other"]);
    says(&named.err, &[&format!("job {array} name \"other\"")]);
    assert!(!named.err.contains("priority"), "{}", named.err);
    assert_eq!(cluster.gpool(["cancel", &array]).ok(), format!("job {array} stopping\n"));
    cluster.until_ended(&array);
    let ran = cluster.gpool(["cancel", "other"]);
    ran.refused(6, &["there is no job named \"other\" that has not ended", "cancelled"]);
    says(&ran.err, &[&format!("gpool show {array}")]);
    says(&cluster.why("other"), &[" was cancelled at "]);
}
