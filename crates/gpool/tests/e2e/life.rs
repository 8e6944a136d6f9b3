//! Start times, retries, limits and dependencies of jobs, with real processes.

use gpool_wire::Job;
use rustix::process::Signal;

use crate::harness::{Cluster, Ran, Running, until, until_so};

fn until_attempt(cluster: &Cluster, id: &str, attempt: u32) -> Job {
    until(&format!("job {id} is in attempt {attempt}"), || {
        Some(cluster.job(id)).filter(|job| job.run.attempt == attempt)
    })
}

#[test]
fn a_job_is_run_again_after_the_exit_codes_that_were_named() {
    let cluster = Cluster::new("none");
    let mark = cluster.path("tried");
    let line =
        format!("echo run $GPOOL_ATTEMPT; [ -e {0} ] || {{ touch {0}; exit 33; }}", mark.display());
    let id = cluster.sh(&["--retry", "3", "--retry-exit", "33,75"], &line);
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.attempt, job.run.n_retries), ("succeeded", 2, 1));
    assert_eq!(job.run.attempts.len(), 1);
    let first = &job.run.attempts[0];
    assert_eq!((first.exit_code, first.again.as_str()), (Some(33), "retry"));
    let page = cluster.gpool(["show", &id]).ok();
    assert!(page.contains("1 of 3 used, after exit 33, exit 75"), "{page}");
    assert!(page.contains("#1 failed 33"), "{page}");
    assert_eq!(cluster.stdout_of(&id), "run 2\n");
    assert_eq!(cluster.gpool(["logs", &format!("{id}#1")]).ok(), "run 1\n");
    // Another exit code ends the job.
    let other = cluster.sh(&["--retry", "3", "--retry-exit", "33"], "exit 7");
    let job = cluster.until_ended(&other);
    assert_eq!((job.state.as_str(), job.run.attempt, job.run.exit_code), ("failed", 1, Some(7)));
}

#[test]
fn retries_are_used_up_and_cancelled_jobs_are_not_run_again() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["--retry", "2"], "exit 1");
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.attempt, job.run.attempts.len()), ("failed", 3, 2));
    let id = cluster.sh(&["--retry", "2"], "sleep 1000");
    cluster.until_is(&id, "running");
    cluster.gpool(["cancel", &id]).ok();
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.attempt), ("cancelled", 1));
    // Between two attempts the job waits, and can be cancelled too.
    let id = cluster.sh(&["--retry", "1", "--backoff", "1h"], "exit 1");
    let job = until_attempt(&cluster, &id, 2);
    assert_eq!(
        (job.state.as_str(), &*job.wait.reasons[0].code),
        ("waiting", "backoff_after_failure")
    );
    cluster.gpool(["cancel", &id]).ok();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "cancelled");
}

#[test]
fn a_signal_comes_before_the_limit() {
    let cluster = Cluster::new("none");
    let line = "trap 'echo warned; exit 0' USR1; while :; do sleep 0.05; done";
    let id = cluster.sh(&["--time", "20m", "--signal-before", "USR1@19m59s"], line);
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.exit_code), ("succeeded", Some(0)));
    assert_eq!(cluster.stdout_of(&id), "warned\n");
    let refused = cluster.gpool(["submit", "--signal-before", "90s", "--", "true"]);
    refused.refused(2, &["a signal before the end needs"]);
}

#[test]
fn a_limit_changes_while_the_job_runs_and_servers_restart() {
    let mut cluster = Cluster::new("none");
    let id = cluster.sh(&["--time", "1h", "--grace", "0"], "sleep 1000");
    cluster.until_is(&id, "running");
    cluster.gpool(["extend", &id, "+30m"]).ok();
    assert_eq!(cluster.job(&id).request.time_seconds(), Some(5400.0));
    let twice = cluster.gpool(["extend", &id, "+30m", "--by", "+30m"]);
    twice.refused(2, &["given twice", "+30m"]);
    cluster.gpool(["extend", &id, "+lots"]).refused(2, &["lots"]);
    cluster.gpool(["extend", "+30m"]).refused(2, &["which job?"]);
    cluster.gpool(["extend", &id]).refused(2, &["by how much"]);
    cluster.signal_server(Signal::KILL);
    until_so("the server is gone", || cluster.has_died());
    cluster.up();
    cluster.until_is(&id, "running");
    assert_eq!(cluster.job(&id).request.time_seconds(), Some(5400.0));
    // A limit below the elapsed time is refused; one slightly above it ends the job.
    cluster.gpool(["extend", &id, "--to", "1ms"]).refused(2, &["has already run for"]);
    let soon = format!("{}ms", 1500 + 1000 * elapsed_s(&cluster.job(&id)));
    cluster.gpool(["extend", &id, "--to", &soon]).ok();
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.cause.as_deref()), ("timed_out", Some("time_limit")));
}

#[test]
fn a_job_is_asked_to_end_by_its_own_signal() {
    let cluster = Cluster::new("none");
    let line = "trap 'echo saved; exit 3' INT; trap 'echo wrong; exit 4' TERM; echo ready; \
                while :; do sleep 0.05; done";
    let end = |id: &str| {
        until_so("it handles the signal", || cluster.gpool(["logs", id]).ok().contains("ready"));
        cluster.gpool(["cancel", id]).ok();
        let job = cluster.until_ended(id);
        let out = cluster.gpool(["logs", id]).ok();
        assert_eq!((out.as_str(), job.run.exit_code), ("ready\nsaved\n", Some(3)));
    };
    let id = cluster.sh(&["--stop-signal", "sigint", "--grace", "1h"], line);
    let shown = cluster.gpool(["show", &id]).ok();
    assert!(shown.contains("end signal INT"), "{shown}");
    end(&id);
    // Before its start it can change, and a retry keeps it.
    let id = cluster.sh(&["--hold", "--grace", "1h"], line);
    cluster.gpool(["edit", &id, "--stop-signal", "2"]).ok();
    cluster.gpool(["release", &id]).ok();
    end(&id);
    let again = cluster.gpool(["retry", &id, "--json"]).json();
    end(again["items"][0]["id"].as_str().unwrap());
    let refused = cluster.gpool(["submit", "--stop-signal", "INTT", "--", "true"]);
    refused.refused(2, &["INTT", "INT"]);
}

#[test]
fn a_new_limit_applies_to_all_elements() {
    let cluster = Cluster::new("none");
    let id = cluster.submit(["--array", "0-3", "--hold", "--time", "1h", "--", "true"]);
    let one = format!("{id}.2");
    for words in [
        &["extend", &one, "+30m"][..],
        &["extend", &format!("{id}_1-2"), "+30m"],
        &["edit", &one, "--time", "2h"],
        &["edit", &one, "--gpus", "1"],
    ] {
        let told = format!("gpool {} {id}", words[0]);
        cluster.gpool(words).refused(2, &["all elements of an array", &told]);
    }
    cluster.gpool(["extend", &id, "+30m"]).ok();
    assert_eq!(cluster.job(&one).request.time_seconds(), Some(5400.0));
}

fn elapsed_s(job: &Job) -> u64 {
    let started = job.run.started_at.expect("it runs").0.get();
    let now = gpool_cli::render::clock::now().0.get();
    now.saturating_sub(started).div_ceil(1000)
}

#[test]
fn a_running_job_is_requeued_and_runs_again() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.sh(&["--gpus", "1"], "echo $GPOOL_ATTEMPT; sleep 1000");
    cluster.until_is(&id, "running");
    cluster.gpool(["requeue", &id]).ok();
    until_attempt(&cluster, &id, 2);
    let job = cluster.until_is(&id, "running");
    assert_eq!((job.run.n_retries, job.run.attempts[0].again.as_str()), (0, "requeued"));
    until_so("it has written", || cluster.stdout_of(&id) == "2\n");
    cluster.gpool(["requeue", &id, "--hold"]).ok();
    until_attempt(&cluster, &id, 3);
    cluster.until_is(&id, "held");
    cluster.gpool(["cancel", &id]).ok();
    let never = cluster.sh(&["--no-requeue"], "sleep 1000");
    cluster.until_is(&never, "running");
    cluster.gpool(["requeue", &never]).refused(7, &["must not run twice"]);
}

#[test]
fn jobs_wait_for_begin_times_and_for_the_first_of_several() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["--begin", "now+1s"], "true");
    let first = cluster.job(&id);
    assert_eq!((first.state.as_str(), &*first.wait.reasons[0].code), ("waiting", "begin_time"));
    let job = cluster.until_ended(&id);
    assert!(job.run.started_at >= job.request.begin, "{job:?}");
    let slow = cluster.sh(&[], "sleep 1000");
    let quick = cluster.sh(&["--hold"], "true");
    let either = format!("{slow},{quick}");
    let one = cluster.sh(&["--after-one", &either], "true");
    assert_eq!(cluster.job(&one).wait.reasons[0].code, "waits_for_one_of");
    cluster.gpool(["release", &quick]).ok();
    assert_eq!(cluster.until_ended(&one).state.as_str(), "succeeded");
    // A dependency that can't be met ends the job, or leaves it pending by choice.
    let ends = cluster.sh(&["--after", &slow], "true");
    let kept = cluster.sh(&["--after", &slow, "--on-unmet", "keep"], "true");
    cluster.gpool(["cancel", &slow]).ok();
    let job = cluster.until_ended(&ends);
    assert_eq!(job.run.cause.as_deref(), Some("dependency_failed"));
    let code = |job: &Job| job.wait.reasons.first().map(|reason| reason.code.clone());
    until_so("it is kept", || code(&cluster.job(&kept)).as_deref() == Some("dependency_failed"));
    cluster.gpool(["edit", &kept, "--after", "none"]).ok();
    assert_eq!(cluster.until_ended(&kept).state.as_str(), "succeeded");
}

#[test]
fn deadlines_prevent_starts_and_end_running_jobs() {
    let cluster = Cluster::new("none");
    let gone = cluster.gpool(["submit", "--deadline", "2020-01-01", "--", "true"]);
    gone.refused(2, &["deadline: it is in the past"]);
    let late = ["submit", "--deadline", "now+1h", "--time", "2h", "--", "true"];
    cluster.gpool(late).refused(2, &["can't end by then"]);
    let held = cluster.sh(&["--hold", "--deadline", "now+1s"], "true");
    let job = cluster.until_ended(&held);
    assert_eq!((job.state.as_str(), job.run.cause.as_deref()), ("cancelled", Some("deadline")));
    let runs = cluster.sh(&["--deadline", "now+2s", "--grace", "0"], "sleep 1000");
    let job = cluster.until_ended(&runs);
    assert_eq!((job.state.as_str(), job.run.cause.as_deref()), ("timed_out", Some("deadline")));
}

#[test]
fn an_edit_shows_its_effect_on_the_start() {
    let cluster = Cluster::new("sim:2xH100-80G");
    for limit in ["1h", "9h"] {
        let runs = cluster.sh(&["--gpus", "1", "--time", limit], "sleep 1000");
        cluster.until_is(&runs, "running");
    }
    let waits = cluster.sh(&["--gpus", "2", "--time", "1h"], "true");
    cluster.until_is(&waits, "pending");
    // The forecast is computed beside the server and may lag.
    until_so("the answer to an edit shows the start", || {
        cluster.gpool(["edit", &waits, "--gpus", "2"]).ok();
        let edited = cluster.gpool(["edit", &waits, "--gpus", "1"]);
        edited.err.contains("expected start") && edited.err.contains(", was ")
    });
}

#[test]
fn pending_jobs_are_edited_and_cycles_refused() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let one = cluster.sh(&["--hold", "--gpus", "1"], "echo old");
    let two = cluster.sh(&["--after", &one], "true");
    let edit =
        ["edit", &one, "--gpus", "2", "--name", "new", "--time", "10m", "--command", "echo new"];
    cluster.gpool(edit).ok();
    let job = cluster.job(&one);
    assert_eq!(
        (job.request.gpus_text(), &*job.name, job.request.time_seconds()),
        ("2", "new", Some(600.0))
    );
    cluster.gpool(["edit", &one, "--gpus", "3"]).refused(4, &["no node could ever run this"]);
    cluster.gpool(["edit", &one, "--after", &two]).refused(7, &["would wait for itself"]);
    cluster.gpool(["edit", &one, "--cpus", "lots"]).refused(2, &["cpus"]);
    cluster.gpool(["release", &one]).ok();
    assert_eq!(cluster.until_ended(&two).state.as_str(), "succeeded");
    assert_eq!(cluster.stdout_of(&one), "new\n");
    let runs = cluster.sh(&[], "sleep 1000");
    cluster.until_is(&runs, "running");
    cluster.gpool(["edit", &runs, "--gpus", "1"]).refused(7, &["it is running"]);
    cluster.gpool(["edit", &runs, "--name", "other", "--retry", "2"]).ok();
    assert_eq!(cluster.job(&runs).name, "other");
}

#[test]
fn the_valohai_variable_requests_gpus_if_no_flag_does() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let asked =
        |flags: &[&str]| cluster.job(&cluster.sh(flags, "true")).request.gpus_text().to_owned();
    assert_eq!(asked(&["-e", "VH_GPUS=2"]), "2");
    assert_eq!(asked(&["-e", "VH_GPUS=2", "--gpus", "1"]), "1");
    let exported = |args: &[&str], value: &str| {
        let mut command = cluster.command();
        command.env("VH_GPUS", value).args(["submit", "--hold"]).args(args).args(["--", "true"]);
        Running::start(&mut command, None).end()
    };
    let asked_of = |output: Ran| cluster.job(output.ok().trim()).request.gpus_text().to_owned();
    assert_eq!(asked_of(exported(&[], "2")), "2");
    assert_eq!(asked_of(exported(&["-e", "VH_GPUS=1"], "2")), "1");
    assert_eq!(asked_of(exported(&["--gpus", "1"], "2")), "1");
    assert_eq!(asked_of(exported(&["--clean-env"], "2")), "0");
    assert_eq!(asked_of(exported(&[], "")), "0");
    exported(&[], "many").refused(2, &["VH_GPUS"]);
}

#[test]
fn caps_of_a_user_delay_or_refuse_jobs() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let me = cluster.job(&cluster.sh(&[], "true")).user;
    cluster.gpool(["user", "limit", &me, "--gpus", "2", "--pending", "1"]).ok();
    let [one, two] = ["1", "1"].map(|n| cluster.sh(&["--gpus", n], "sleep 1000"));
    for id in [&one, &two] {
        cluster.until_is(id, "running");
    }
    let third = cluster.sh(&["--gpus", "1"], "sleep 1000");
    assert_eq!(cluster.job(&third).wait.reasons[0].code, "quota_user");
    cluster
        .gpool(["submit", "--gpus", "1", "--", "true"])
        .refused(5, &["may have at most 1 waiting jobs"]);
    let said = cluster.gpool(["user", "limit", &me]).ok();
    assert!(said.contains("2 running (no cap) · 1 waiting (of 1) · 2 GPUs (of 2)"), "{said}");
    cluster.gpool(["user", "limit", &me, "--gpus", "none"]).ok();
    cluster.until_is(&third, "running");
    cluster.gpool(["user", "limit", &me, "--gpus", "many"]).refused(2, &["many"]);
}
