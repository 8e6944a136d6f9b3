//! Forecasts of starts, reasons for waiting, and reports of ended jobs.

use serde_json::Value;

use crate::harness::{Cluster, Gate, until, until_so};

/// A job that holds the only GPU until its gate opens.
fn holder(cluster: &Cluster, gate: &Gate) -> String {
    let id = cluster.sh(&["--gpus", "1", "--time", "2h", "-J", "holder"], &gate.line());
    cluster.until_is(&id, "running");
    id
}

fn eta_of(cluster: &Cluster, id: &str) -> Value {
    until("there is a forecast", || {
        let rows = cluster.gpool(["queue", "-o", "json"]).json();
        let rows = rows["items"].as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["id"] == *id)?;
        Some(row["forecast"]["eta"].clone()).filter(|eta| !eta.is_null())
    })
}

#[test]
fn a_pending_job_has_a_forecast_of_its_start() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let holder = holder(&cluster, &gate);
    let asked = ["submit", "--gpus", "1", "--time", "1h", "-J", "next", "--", "true"];
    let ran = cluster.gpool(asked);
    let next = ran.out.trim().to_owned();
    assert!(ran.err.contains(&format!("note: job {next} waits. Expected start")), "{ran:?}");
    assert!(ran.err.contains(&format!("gpool why {next}")), "{ran:?}");
    let eta = eta_of(&cluster, &next);
    assert_eq!(eta["basis"], "limit");
    let moments = ["p10", "p50", "p90"].map(|key| eta[key].as_str().unwrap().to_owned());
    assert!(moments.is_sorted() && moments[0] < moments[2], "{eta}");
    let table = cluster.gpool(["queue"]).ok();
    let line = table.lines().find(|line| line.contains("next")).unwrap();
    assert!(eta["planned_at"].is_string() && line.contains(" by "), "{eta} {table}");
    let why = cluster.gpool(["why", &next]).ok();
    assert!(why.contains("Planned start") && why.contains("Expected start"), "{why}");
    // Only the first job has a planned start; the others have a forecast.
    let other = cluster.submit(["--gpus", "1", "--time", "1h", "-J", "other", "--", "true"]);
    let forecast = eta_of(&cluster, &other);
    assert!(forecast["p90"].is_string() && forecast["planned_at"].is_null(), "{forecast}");
    let show = cluster.gpool(["show", &next]).ok();
    assert!(show.contains("starts"), "{show}");
    // A job that depends on it starts later.
    let last = cluster.submit(["--gpus", "1", "-J", "last", "--after", &next, "--", "true"]);
    let after = eta_of(&cluster, &last);
    assert!(after["p50"].as_str() > eta["p50"].as_str(), "{after} {eta}");
    assert!(cluster.gpool(["queue"]).ok().contains('~'));
    gate.open();
    cluster.until_ended(&holder);
    cluster.until_ended(&last);
    assert!(cluster.job(&next).forecast.eta.is_none());
}

#[test]
fn why_shows_the_holders_their_ends_and_alternatives() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let holder = holder(&cluster, &gate);
    let big = cluster.submit(["--gpus", "2", "--time", "1h", "-J", "big", "--", "true"]);
    let page = cluster.why(&big);
    for words in [
        "It needs 2 GPUs, and 1 is free.",
        &format!("your job {holder} uses GPU 0 until "),
        "Expected start",
        &format!(", when your job {holder} has ended"),
        "What would help",
        &format!("gpool edit {big} --gpus 1 starts now "),
    ] {
        assert!(page.contains(words), "{words:?} is not in\n{page}");
    }
    let why = cluster.gpool(["why", &big, "--json"]).json()["items"][0].clone();
    let fewer = why["alternatives"].as_array().unwrap().iter().find(|it| it["change"] == "gpus");
    let fewer = fewer.unwrap();
    assert_eq!((fewer["flags"].as_str(), fewer["helps"].as_bool()), (Some("--gpus 1"), Some(true)));
    // The forecast is right.
    let small = cluster.submit(["--gpus", "1", "--time", "1h", "--", "true"]);
    assert_eq!(cluster.until_ended(&small).run.exit_code, Some(0));
    cluster.gpool(["hold", &big]).ok();
    let held = cluster.why(&big);
    assert!(held.contains(&format!("gpool release {big}")), "{held}");
    gate.open();
    cluster.gpool(["release", &big]).ok();
    cluster.until_ended(&big);
    let told = cluster.why(&big);
    for words in [" succeeded at ".to_owned(), format!("gpool events {big}")] {
        assert!(told.contains(&words), "{words:?} is not in\n{told}");
    }
    let events = cluster.gpool(["events", &big]).ok();
    for words in ["submitted", "held by you", "released", "starts on lab1:0,1"] {
        assert!(events.contains(words), "{words:?} is not in\n{events}");
    }
}

#[test]
fn a_dry_run_shows_the_start_and_the_delayed_jobs() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    holder(&cluster, &gate);
    let other = cluster.submit(["--gpus", "1", "--time", "1h", "-J", "other", "--", "true"]);
    let asked = ["--gpus", "1", "--time", "3h", "--dry-run", "--", "true"];
    let after = cluster.gpool(std::iter::once("submit").chain(asked)).ok();
    assert!(after.starts_with("would wait\n") && after.contains("Expected start"), "{after}");
    assert!(!after.contains("would delay"), "{after}");
    let first = ["submit", "--priority", "5"].into_iter().chain(asked);
    let before = cluster.gpool(first).ok();
    assert!(before.contains("would delay 1 job"), "{before}");
    assert!(before.contains(&format!("job {other} (you) by ")), "{before}");
    assert_eq!(cluster.all_ids().len(), 2, "nothing was submitted");
    gate.open();
    // A delay after the start of a job that has ended.
    cluster.until_ended(&other);
    let after = format!("start:{other}+5m");
    let delayed = cluster.gpool(["submit", "--after", &after, "--dry-run", "--", "true"]).ok();
    assert!(delayed.contains("Expected start") && !delayed.contains("start now"), "{delayed}");
}

#[test]
fn ended_jobs_are_listed_summed_up_and_reported() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let good = cluster.submit(["--gpus", "1", "-J", "good", "--", "true"]);
    cluster.until_ended(&good);
    let bad = cluster.sh(&["-J", "bad", "--cpus", "2", "--mem", "1G", "--time", "1h"], "exit 3");
    cluster.until_ended(&bad);
    let list = cluster.gpool(["history"]).ok();
    assert!(list.contains("good") && list.contains("exit 3"), "{list}");
    assert!(list.contains("2 jobs · 1 succeeded · 0.00 GPU-hours"), "{list}");
    assert_eq!(cluster.gpool(["history", "-s", "failed", "-o", "name"]).ok(), format!("{bad}\n"));
    assert_eq!(cluster.gpool(["history", "-n", "1", "-o", "name"]).ok(), format!("{bad}\n"));
    assert_eq!(cluster.gpool(["history", "--until", "1h ago", "-o", "name"]).ok(), "");
    let since = cluster.gpool(["history", "--since", "1h", "--name", "good", "-o", "name"]).ok();
    assert_eq!(since, format!("{good}\n"));
    cluster.gpool(["history", "-s", "running"]).refused(2, &["has not ended"]);
    let report = cluster.gpool(["report", &bad]).ok();
    for words in ["failed, exit 3", "ran ", " of 1h00", "CPU", "2 CPUs"] {
        assert!(report.contains(words), "{words:?} is not in\n{report}");
    }
    let json = cluster.gpool(["report", &good, "--json"]).json()["items"][0].clone();
    assert_eq!(
        (json["n_gpus"].as_u64(), json["hints"].as_array().map(Vec::len)),
        (Some(1), Some(0))
    );
    cluster.gpool(["report", "99"]).refused(6, &["99"]);
}

#[test]
fn a_report_shows_the_measured_use_of_gpus() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let start = |flags: &[&str]| {
        let id = cluster.sh(flags, "echo $$; exec sleep 1000");
        until_so("it has printed", || cluster.stdout_of(&id).ends_with('\n'));
        id
    };
    let used = |id: &str| {
        cluster.gpool(["cancel", id]).ok();
        cluster.until_ended(id);
        cluster.job(id).usage.total.expect("it ran")
    };
    let whole = start(&["--gpus", "1"]);
    cluster.gpool(["sim", "use-memory", "0", "12G"]).ok();
    cluster.gpool(["sim", "utilize", "0", "40"]).ok();
    until_so("it was sampled", || {
        let gpu = cluster.gpu(0);
        (gpu.utilization, gpu.memory_used) == (Some(0.4), Some(12 << 30))
    });
    let usage = used(&whole);
    let peak = (usage.gpu_memory_peak, usage.gpu_memory_limit);
    assert_eq!(peak, (Some(12 << 30), Some(80 << 30)), "{usage:?}");
    let report = cluster.gpool(["report", &whole]).ok();
    assert!(report.contains("at most 12 GiB of 80 GiB of memory"), "{report}");
    cluster.gpool(["sim", "use-memory", "0", "0B"]).ok();
    let part = start(&["--gpu-memory", "20G:40G"]);
    let pid = cluster.stdout_of(&part);
    cluster.gpool(["sim", "add-process", "0", "--pid", pid.trim(), "--memory", "9G"]).ok();
    until_so("it was sampled", || cluster.gpu(0).memory_used == Some(9 << 30));
    let usage = used(&part);
    let measured = (usage.gpu_memory_peak, usage.gpu_memory_limit, usage.gpu_utilization);
    assert_eq!(measured, (Some(9 << 30), Some(40 << 30), None));
}

#[test]
fn the_events_of_a_job_come_from_the_journal_and_continue() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "1"], &gate.line());
    cluster.until_is(&id, "running");
    let told = cluster.gpool(["events", &id]).ok();
    for words in ["submitted with --gpus 1 by you", "starts on lab1:0, run 1", "run 1 has started"]
    {
        assert!(told.contains(words), "{words:?} is not in\n{told}");
    }
    // The events are in the store, not only in memory.
    cluster.kill();
    cluster.up();
    let follows = cluster.start(["events", "-f", &id]);
    follows.until_says("run 1 has started");
    gate.open();
    let ran = follows.end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains(&format!("job {id} succeeded")), "{ran:?}");
    let lines = cluster.gpool(["events", &id, "-o", "jsonl"]).ok();
    let kinds: Vec<String> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("submitted"), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("ended"), "{kinds:?}");
}

#[test]
fn forecast_accuracy_is_measured_and_survives_a_restart() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let page = cluster.gpool(["doctor", "eta"]).ok();
    assert!(page.contains("Too little history: 0 starts"), "{page}");
    let gate = Gate::new(&cluster, "gate");
    holder(&cluster, &gate);
    let next = cluster.submit(["--gpus", "1", "--", "true"]);
    eta_of(&cluster, &next);
    gate.open();
    cluster.until_ended(&next);
    let learnt = |cluster: &Cluster| {
        let state = cluster.gpool(["doctor", "eta", "--json"]).json();
        state["calibration"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["n"].as_u64().unwrap())
            .sum::<u64>()
    };
    until("the forecast was compared with the start", || (learnt(&cluster) == 1).then_some(()));
    cluster.down(&[]);
    cluster.up();
    assert_eq!(learnt(&cluster), 1);
}

#[test]
fn maintenance_and_drains_show_how_much_later_jobs_would_start() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let holder = holder(&cluster, &gate);
    let next = cluster.submit(["--gpus", "1", "--time", "2h", "--", "true"]);
    let later = |words: &[&str]| {
        let told = cluster.gpool([words, &["--dry-run", "--json"]].concat()).json();
        let waiting = told["affected"]["waiting"].as_array().unwrap().clone();
        assert_eq!(waiting[0]["id"], next.as_str(), "{told}");
        waiting[0]["later_s"].as_u64()
    };
    // The median end of the holder is in one hour; the window ends in five and a half.
    let maint = ["maint", "create", "--all", "--from", "30m", "--for", "5h"];
    let by = later(&maint).unwrap();
    assert!((15_000..=16_300).contains(&by), "{by}");
    let told = cluster.gpool([&maint[..], &["--dry-run"]].concat());
    assert!(format!("{}{}", told.out, told.err).contains("worst +4h"), "{told:?}");
    // The end of a drain is unknown.
    let node = cluster.gpool(["nodes", "-o", "name"]).ok().trim().to_owned();
    assert_eq!(later(&["drain", &node, "--reason", "new PSU"]), None);
    gate.open();
    cluster.until_ended(&holder);
    cluster.until_ended(&next);
}
