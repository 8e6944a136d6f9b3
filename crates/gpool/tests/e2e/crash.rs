//! Jobs while server, agent, shepherd or nursery are ended, one at a time.

use rustix::process::Signal;

use crate::harness::{Cluster, Gate, kill_9, until_so};

/// A shell line that notes each start, waits, and exits with 5.
fn noted(cluster: &Cluster, gate: &Gate) -> String {
    let trace = cluster.path("trace").display().to_string();
    format!(
        "echo $GPOOL_JOB_ID $GPOOL_ATTEMPT >> {trace}; echo begun; {}; echo done; exit 5",
        gate.line()
    )
}

fn trace(cluster: &Cluster) -> String {
    std::fs::read_to_string(cluster.path("trace")).unwrap_or_default()
}

fn until_begun(cluster: &Cluster, id: &str) {
    until_so("the job has begun", || cluster.stdout_of(id).starts_with("begun"));
}

#[test]
fn a_running_job_outlives_the_server_and_is_taken_over() {
    let mut cluster = Cluster::new("sim:2xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "2"], &noted(&cluster, &gate));
    cluster.until_is(&id, "running");
    until_begun(&cluster, &id);
    let pending = cluster.sh(&["--gpus", "1"], "true");
    let before = cluster.job(&id);
    cluster.kill();
    cluster.up();
    let after = cluster.job(&id);
    assert_eq!(after.state.as_str(), "running");
    assert_eq!(
        (after.run.attempt, after.run.started_at),
        (before.run.attempt, before.run.started_at)
    );
    assert_eq!(after.placement, before.placement);
    // It still has its devices.
    assert_eq!(cluster.job(&pending).state.as_str(), "pending");
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
    assert_eq!(cluster.stdout_of(&id), "begun\ndone\n");
    assert_eq!(trace(&cluster), format!("{id} 1\n"));
    assert_eq!(cluster.until_ended(&pending).run.exit_code, Some(0));
}

#[test]
fn a_job_that_ends_while_there_is_no_server_has_its_exit_code() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &noted(&cluster, &gate));
    until_begun(&cluster, &id);
    cluster.kill();
    gate.open();
    let out = cluster.state().join("jobs").join(&id).join("1/stdout");
    until_so("it is done", || std::fs::read_to_string(&out).unwrap().ends_with("done\n"));
    cluster.up();
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.exit_code), ("failed", Some(5)));
    assert_eq!(cluster.stdout_of(&id), "begun\ndone\n");
    assert!(job.usage.total.is_some());
}

#[test]
fn a_time_limit_holds_while_there_is_no_server() {
    let mut cluster = Cluster::new("none");
    let id = cluster.sh(&["--time", "2s", "--grace", "1s"], "echo begun; sleep 1000");
    until_begun(&cluster, &id);
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "timed_out");
}

#[test]
fn a_job_without_its_shepherd_is_lost_and_its_tree_gone() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.sh(&["--gpus", "1"], "setsid sleep 1000 & sleep 1000 & echo begun; wait");
    until_begun(&cluster, &id);
    kill_9(cluster.shepherd(&id));
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.exit_code), ("lost", None));
    let wanted = format!("GPOOL_JOB_ID={id}");
    let is_left = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    until_so("its processes are gone", || !cluster.processes().iter().any(is_left));
    assert_eq!(cluster.gpool(["wait", &id]).code, 1);
    // Its device is free again.
    assert_eq!(cluster.gpool(["run", "--gpus", "1", "--", "true"]).code, 0);
}

#[test]
fn server_and_shepherd_at_once_lose_that_job_only() {
    let mut cluster = Cluster::new("sim:2xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let lost = cluster.sh(&["--gpus", "1"], "echo begun; sleep 1000");
    let kept = cluster.sh(&["--gpus", "1"], &noted(&cluster, &gate));
    until_begun(&cluster, &lost);
    until_begun(&cluster, &kept);
    let shepherd = cluster.shepherd(&lost);
    cluster.kill();
    kill_9(shepherd);
    cluster.up();
    assert_eq!(cluster.until_ended(&lost).state.as_str(), "lost");
    assert_eq!(cluster.job(&kept).state.as_str(), "running");
    gate.open();
    assert_eq!(cluster.until_ended(&kept).run.exit_code, Some(5));
    assert_eq!(trace(&cluster), format!("{kept} 1\n"));
}

#[test]
fn down_leaves_jobs_running_and_up_takes_them_over() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "1"], &noted(&cluster, &gate));
    until_begun(&cluster, &id);
    let next = cluster.sh(&["--gpus", "1"], "true");
    let ran = cluster.down(&[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("1 job keeps running"), "{ran:?}");
    cluster.gpool(["queue"]).refused(3, &["GP0301"]);
    cluster.up();
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
    assert_eq!(cluster.until_ended(&next).run.exit_code, Some(0));
    assert_eq!(trace(&cluster), format!("{id} 1\n"));
}

#[test]
fn down_now_ends_them() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let stubborn = "trap '' TERM; echo begun; while :; do sleep 1000; done";
    let id = cluster.sh(&["--gpus", "1", "--grace", "1s"], stubborn);
    until_begun(&cluster, &id);
    let waits = cluster.sh(&["--gpus", "1"], "true");
    let ran = cluster.down(&["--now"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    until_so("no process is left", || cluster.processes().is_empty());
    cluster.up();
    let job = cluster.job(&id);
    assert_eq!((job.state.as_str(), job.run.exit_code), ("cancelled", Some(137)));
    assert_eq!(cluster.until_ended(&waits).run.exit_code, Some(0), "the pending job was kept");
}

#[test]
fn a_server_that_a_signal_ends_leaves_jobs_running() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &noted(&cluster, &gate));
    until_begun(&cluster, &id);
    cluster.end_by(Signal::TERM);
    cluster.up();
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    cluster.end_by(Signal::INT);
    gate.open();
    cluster.up();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
    assert_eq!(trace(&cluster), format!("{id} 1\n"));
}

#[test]
fn a_stopped_server_is_not_started_twice() {
    let cluster = Cluster::new("none");
    let id = cluster.submit(["--hold", "--", "true"]);
    cluster.signal_server(Signal::STOP);
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
    ran.refused(1, &["in use by process", &cluster.server_pid().to_string()]);
    cluster.signal_server(Signal::CONT);
    assert_eq!(cluster.job(&id).state.as_str(), "held");
}

#[test]
fn in_the_background_up_returns_when_it_answers() {
    let cluster = Cluster::unstarted(&[]);
    let words = ["up", "--devices", "sim:2xH100-80G", "--name", "lab1"];
    let out = cluster.gpool(words).ok();
    assert!(out.contains("2 × NVIDIA H100-80G") && out.contains("ready."), "{out}");
    assert_eq!(cluster.gpool(["run", "--gpus", "1", "--", "sh", "-c", "exit 3"]).code, 3);
    cluster.gpool(words).refused(1, &["is already running", "gpool down"]);
    assert_eq!(cluster.gpool(["down"]).code, 0);
    cluster.gpool(["status"]).refused(3, &[]);
    until_so("no process is left", || cluster.processes().is_empty());
}

#[test]
fn up_names_its_refusals_and_jobs_that_lost_their_gpus() {
    let mut cluster = Cluster::new("sim:2xH100-80G");
    let id = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&id, "running");
    cluster.end_by(Signal::TERM);
    let up = |more: &[&str]| cluster.gpool(["up", "--name", "lab1"].iter().chain(more));
    let ran = up(&["--devices", "sim:2xH100-80G", "--gpus", "0-9"]);
    ran.refused(6, &["no GPU", "GP0604", "gpool up --gpus all"]);
    let ran = up(&["--devices", "none"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains(&format!("GPUs of job {id} do not exist")), "{ran:?}");
    assert_eq!(cluster.gpool(["down"]).code, 0);
    let ran = up(&["-q", "--devices", "sim:2xH100-80G"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
    assert_eq!(cluster.gpool(["down"]).code, 0);
    until_so("no process is left", || cluster.processes().is_empty());
}
