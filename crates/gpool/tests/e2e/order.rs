//! The order of jobs, and the devices that they get.

use crate::harness::{Cluster, Gate, until_so};

#[test]
fn devices_go_lowest_index_first_and_to_one_job_each() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let jobs: Vec<String> =
        ["1", "2", "1"].iter().map(|n| cluster.sh(&["--gpus", n], "sleep 1000")).collect();
    for (id, devices) in jobs.iter().zip([&[0][..], &[1, 2], &[3]]) {
        cluster.until_is(id, "running");
        assert_eq!(cluster.devices_of(id), devices, "job {id}");
    }
    // A freed device in the middle is used again.
    cluster.gpool(["cancel", &jobs[0]]).ok();
    cluster.until_ended(&jobs[0]);
    let next = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&next, "running");
    assert_eq!(cluster.devices_of(&next), [0]);
}

#[test]
fn no_two_jobs_have_a_device_at_once() {
    let cluster = Cluster::new("sim:3xH100-80G");
    // Only one job at a time can make a folder with the name of a device.
    let held = cluster.path("held");
    std::fs::create_dir(&held).unwrap();
    let line = format!(
        "cd {} || exit 90; IFS=,; for u in $CUDA_VISIBLE_DEVICES; do mkdir $u || exit 91; done; \
         for u in $CUDA_VISIBLE_DEVICES; do rmdir $u || exit 92; done",
        held.display()
    );
    let mut text = String::new();
    for n in 0..60 {
        let job =
            serde_json::json!({"command": ["sh", "-c", line], "gpus": (n % 3 + 1).to_string()});
        text.push_str(&format!("{job}\n"));
    }
    cluster.gpool_reading(["submit", "--from-jsonl", "-"], text.as_bytes()).ok();
    let ran = cluster.gpool(["wait", "all"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_small_job_overtakes_a_big_one() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let holder = cluster.sh(&["--gpus", "1"], "sleep 1000");
    let big = cluster.sh(&["--gpus", "2"], "true");
    let small = cluster.sh(&["--gpus", "1"], "true");
    assert_eq!(cluster.until_ended(&small).run.exit_code, Some(0));
    assert_eq!(cluster.job(&big).state.as_str(), "pending");
    cluster.gpool(["cancel", &holder]).ok();
    assert_eq!(cluster.until_ended(&big).run.exit_code, Some(0));
}

/// Lets pending jobs of one GPU run one by one, and returns the order of their starts.
fn order_of(cluster: &Cluster, submit: impl Fn(&str)) -> Vec<String> {
    let gate = Gate::new(cluster, "gate");
    let holder = cluster.sh(&["--gpus", "1"], &gate.line());
    cluster.until_is(&holder, "running");
    let trace = cluster.path("trace");
    submit(&format!("echo $GPOOL_JOB_NAME >> {}", trace.display()));
    gate.open();
    assert_eq!(cluster.gpool(["wait", "all"]).code, 0);
    std::fs::read_to_string(trace).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn priority_goes_first_then_age() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let order = order_of(&cluster, |line| {
        for (name, priority) in [("a", "0"), ("low", "-5"), ("b", "0"), ("high", "7")] {
            // Only an admin may raise a priority; the user of the server is one.
            cluster.sh(&["--gpus", "1", "-J", name, "--priority", priority], line);
        }
        cluster.sh(&["--gpus", "1", "-J", "raised"], line);
        cluster.gpool(["prio", "9", "raised"]).ok();
    });
    assert_eq!(order, ["raised", "high", "a", "b", "low"]);
}

#[test]
fn dependent_jobs_wait_for_the_right_end() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let first = cluster.sh(&[], &format!("{}; exit 3", gate.line()));
    let ok = cluster.submit(["--after", &first, "--", "true"]);
    let fail = cluster.submit(["--after", &format!("fail:{first}"), "--", "true"]);
    let end = cluster.submit(["--after", &format!("end:{first}"), "--", "true"]);
    let of_two = cluster.submit(["--after", &format!("{fail},{end}"), "--", "true"]);
    cluster.until_is(&first, "running");
    for id in [&ok, &fail, &end, &of_two] {
        let job = cluster.job(id);
        assert_eq!(job.state.as_str(), "waiting");
        assert_eq!(serde_json::to_value(&job.wait.reasons[0]).unwrap()["code"], "waits_for_job");
    }
    gate.open();
    for id in [&fail, &end, &of_two] {
        assert_eq!(cluster.until_ended(id).run.exit_code, Some(0));
    }
    // The job can never start; it shows that instead of waiting silently.
    let why = cluster.gpool(["why", &ok, "-o", "json"]);
    let says = format!("{}{}", why.out, cluster.gpool(["show", &ok, "-o", "json"]).ok());
    assert!(says.contains("dependency_failed"), "{says}");
    let ran = cluster.gpool(["submit", "--after", &first, "--", "true"]);
    ran.refused(7, &[&first]);
    cluster.gpool(["submit", "--after", "99", "--", "true"]).refused(6, &["99"]);
}

#[test]
fn a_held_job_waits_for_its_release() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let held = cluster.sh(&["--gpus", "1", "--hold"], "true");
    let next = cluster.sh(&["--gpus", "1"], "true");
    assert_eq!(cluster.until_ended(&next).run.exit_code, Some(0));
    let job = cluster.job(&held);
    assert_eq!(job.state.as_str(), "held");
    assert!(cluster.gpool(["why", &held]).ok().contains("held"));
    cluster.gpool(["release", &held]).ok();
    assert_eq!(cluster.until_ended(&held).run.exit_code, Some(0));
    // A pending job can be held later.
    cluster.sh(&["--gpus", "1"], "sleep 1000");
    let waits = cluster.sh(&["--gpus", "1"], "true");
    cluster.gpool(["hold", &waits]).ok();
    assert_eq!(cluster.job(&waits).state.as_str(), "held");
    cluster.gpool(["release", &next]).refused(7, &["ended"]);
}

#[test]
fn impossible_requests_are_refused_with_what_fits() {
    let cluster = Cluster::new("sim:8xH100-80G");
    let ran = cluster.gpool(["submit", "--gpus", "h100:16", "--", "true"]);
    ran.refused(4, &["16 × H100", "8", "lab1", "--gpus", "GP0412", "gpool help GP0412"]);
    cluster.gpool(["run", "--gpus", "a100:1", "--", "true"]).refused(4, &["H100-80G", "--gpus"]);
    cluster.gpool(["run", "--gpus", "100G..", "--", "true"]).refused(4, &["80"]);
    cluster.gpool(["run", "--cpus", "100000", "--", "true"]).refused(4, &["100000", "CPU"]);
    cluster.gpool(["run", "--mem", "900T", "--", "true"]).refused(4, &["memory"]);
    assert!(cluster.all_ids().is_empty());
    let id = cluster.submit(["--allow-unsatisfiable", "--gpus", "16", "--", "true"]);
    assert_eq!(cluster.job(&id).state.as_str(), "pending");
}

#[test]
fn models_and_memory_choose_devices() {
    let cluster = Cluster::unstarted(&[]);
    let file = cluster.path("mixed.toml");
    std::fs::write(
        &file,
        "[[device]]\nmodel = \"NVIDIA A100-SXM4-40GB\"\nmemory = \"40G\"\ncount = 2\n\
         [[device]]\nmodel = \"NVIDIA H100-80G\"\nmemory = \"80G\"\ncount = 2\n",
    )
    .unwrap();
    let mut cluster = cluster;
    cluster.set_flags(&["--devices", file.to_str().unwrap()]);
    cluster.up();
    let placed = |request: &str| {
        let id = cluster.sh(&["--gpus", request], "sleep 1000");
        cluster.until_is(&id, "running");
        cluster.devices_of(&id)
    };
    assert_eq!(placed("h100:1"), [2]);
    assert_eq!(placed("60G..:1"), [3]);
    assert_eq!(placed("h100|a100:1"), [0]);
    assert_eq!(placed("1"), [1]);
}

#[test]
fn only_allowed_gpus_are_allocated_and_running_jobs_stay() {
    let cluster = Cluster::with(&["--devices", "sim:6xH100-80G", "--gpus", "0-3"]);
    let four = cluster.sh(&["--gpus", "4"], "sleep 1000");
    cluster.until_is(&four, "running");
    assert_eq!(cluster.devices_of(&four), [0, 1, 2, 3]);
    let ran = cluster.gpool(["gpus", "allow", "5"]);
    assert!(ran.err.contains("GPU 5"), "{ran:?}");
    let one = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&one, "running");
    assert_eq!(cluster.devices_of(&one), [5]);
    assert_eq!(cluster.job(&four).state.as_str(), "running");
    let next = cluster.sh(&["--gpus", "1"], "true");
    assert!(cluster.gpool(["why", &next]).ok().contains("4"));
    assert_eq!(cluster.job(&next).state.as_str(), "pending");
    cluster.gpool(["gpus", "allow", "all"]).ok();
    assert_eq!(cluster.until_ended(&next).run.exit_code, Some(0));
    cluster.gpool(["gpus", "allow", "17"]).refused(6, &["17"]);
}

#[test]
fn a_strategy_ranks_devices() {
    let strategies =
        [("sequential", Some([0, 1])), ("random", None), ("pack", None), ("spread", None)];
    for (strategy, expected) in strategies {
        let cluster = Cluster::with(&["--devices", "sim:4xH100-80G", "--strategy", strategy]);
        let ids = ["1", "1"].map(|n| cluster.sh(&["--gpus", n], "sleep 1000"));
        let got = ids.map(|id| {
            cluster.until_is(&id, "running");
            cluster.devices_of(&id)[0]
        });
        assert_ne!(got[0], got[1], "{strategy}");
        assert!(expected.is_none_or(|expected| expected == got), "{strategy}: {got:?}");
        let policy = cluster.client().policy().unwrap();
        assert_eq!(serde_json::to_value(policy.device_strategy).unwrap(), strategy);
    }
}

#[test]
fn with_no_queue_a_job_starts_at_once_or_fails() {
    let cluster = Cluster::new("sim:1xH100-80G");
    assert_eq!(cluster.gpool(["run", "--no-queue", "--gpus", "1", "--", "true"]).code, 0);
    let holder = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&holder, "running");
    let ran = cluster.gpool(["run", "--no-queue", "--gpus", "1", "--", "true"]);
    ran.refused(5, &["--no-queue", "GPU"]);
    until_so("nothing waits", || !cluster.client().status().unwrap().jobs.contains_key("pending"));
}
