//! Evicted jobs with the real program: paused, asked to save, or ended.

use crate::harness::Cluster;

/// Two GPUs; each of two projects is guaranteed one.
pub fn two_projects() -> Cluster {
    let cluster = Cluster::new("sim:2xH100-80G");
    cluster.gpool(["project", "edit", "default", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "red", "--gpus", "1"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "1"]).ok();
    cluster
}

/// A job that writes until a file exists.
fn writes(cluster: &Cluster, name: &str) -> String {
    let folder = cluster.work();
    let (out, stop) = (folder.join(name), folder.join(format!("{name}.stop")));
    format!("while [ ! -e {} ]; do printf x >> {}; sleep 0.01; done", stop.display(), out.display())
}

fn size(cluster: &Cluster, name: &str) -> u64 {
    std::fs::metadata(cluster.work().join(name)).map_or(0, |it| it.len())
}

fn let_end(cluster: &Cluster, name: &str) {
    std::fs::write(cluster.work().join(format!("{name}.stop")), "").unwrap();
}

#[test]
fn borrowed_gpus_are_returned_by_a_pause_and_nothing_is_lost() {
    let mut cluster = two_projects();
    let own = cluster.sh(&["-p", "red", "-g", "1"], "sleep 1000");
    cluster.until_is(&own, "running");
    let lent = ["-p", "red", "-g", "1", "--exits", "pause,requeue", "-t", "10m"];
    let borrower = cluster.sh(&lent, &writes(&cluster, "b"));
    crate::harness::until_so("it writes", || size(&cluster, "b") > 3);
    let shown = cluster.gpool(["show", &borrower]).ok();
    assert!(shown.contains("pause, otherwise requeue"), "{shown}");
    // The owner submits a job: the borrower is paused, and the owner gets its GPU.
    let owner = cluster.sh(&["-p", "blue", "-g", "1"], &writes(&cluster, "o"));
    cluster.until_is(&owner, "running");
    let paused = cluster.until_is(&borrower, "paused");
    assert_eq!(paused.run.attempt, 1);
    let before = size(&cluster, "b");
    let why = cluster.why(&borrower);
    assert!(why.contains("has been paused since") && why.contains("needs its own GPU"), "{why}");
    let queue = cluster.gpool(["queue"]).ok();
    assert!(queue.contains("paused"), "{queue}");
    cluster.gpool(["signal", "USR1", &borrower]).refused(7, &["paused"]);
    // Server and agent are killed; the pause stays.
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.until_is(&borrower, "paused").run.attempt, 1);
    cluster.until_is(&owner, "running");
    assert_eq!(size(&cluster, "b"), before);
    // The owner's job has ended, and the borrower continues.
    let_end(&cluster, "o");
    cluster.until_ended(&owner);
    cluster.until_is(&borrower, "running");
    crate::harness::until_so("it writes again", || size(&cluster, "b") > before);
    let_end(&cluster, "b");
    let ended = cluster.until_ended(&borrower);
    assert_eq!((ended.run.exit_code, ended.run.attempt), (Some(0), 1));
    let events = cluster.gpool(["events", &borrower]).ok();
    assert!(events.contains("it is paused") && events.contains("continues on"), "{events}");
}

#[test]
fn a_job_is_paused_by_a_user_and_can_be_cancelled_while_paused() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let script = format!("trap 'exit 9' TERM; {}", writes(&cluster, "a"));
    let id = cluster.sh(&["-g", "1"], &script);
    crate::harness::until_so("it writes", || size(&cluster, "a") > 3);
    cluster.gpool(["pause", &id]).ok();
    cluster.until_is(&id, "paused");
    let other = cluster.sh(&["-g", "1"], "true");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
    let why = cluster.gpool(["why", &id]).ok();
    assert!(why.contains("has been paused since") && why.contains("gpool resume"), "{why}");
    cluster.gpool(["resume", &id]).ok();
    cluster.until_is(&id, "running");
    cluster.gpool(["pause", &id]).ok();
    cluster.until_is(&id, "paused");
    cluster.gpool(["cancel", &id]).ok();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(9));
    cluster.gpool(["pause", &id]).refused(7, &["ended"]);
}

#[test]
fn a_job_that_can_save_is_asked_to_and_runs_again() {
    let cluster = two_projects();
    let own = cluster.sh(&["-p", "red", "-g", "1"], "sleep 1000");
    cluster.until_is(&own, "running");
    let saved = cluster.work().join("saved");
    let script = format!(
        "trap 'echo $GPOOL_ATTEMPT >> {saved}; exit 0' USR1; {}",
        writes(&cluster, "s"),
        saved = saved.display(),
    );
    let lent = ["-p", "red", "-g", "1", "--checkpointable=USR1@5m", "--retry", "1"];
    let borrower = cluster.sh(&lent, &script);
    crate::harness::until_so("it writes", || size(&cluster, "s") > 3);
    let owner = cluster.sh(&["-p", "blue", "-g", "1"], "sleep 1000");
    cluster.until_is(&owner, "running");
    assert_eq!(std::fs::read_to_string(&saved).unwrap(), "1\n");
    let job = cluster.until_is(&borrower, "pending");
    assert_eq!(
        (job.run.attempt, job.run.n_retries, job.run.attempts[0].again.as_str()),
        (2, 0, "checkpointed")
    );
    cluster.gpool(["cancel", &owner]).ok();
    cluster.until_is(&borrower, "running");
}

#[test]
fn exits_are_read_from_scripts() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let script = cluster.work().join("job.sh");
    std::fs::write(&script, "#!/bin/sh\n# GPOOL --exits kill\nsleep 1000\n").unwrap();
    let id = cluster.submit([script.to_str().unwrap()]);
    assert_eq!(cluster.job(&id).request.exits, ["kill"]);
    let held = cluster.submit(["--hold", "--exits", "kill", "--", "true"]);
    cluster.gpool(["edit", &held, "--exits", "pause,checkpoint"]).ok();
    assert_eq!(cluster.job(&held).request.exits, ["pause", "checkpoint"]);
}
