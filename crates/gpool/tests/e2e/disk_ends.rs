//! A job that fills the disk of the state folder can be ended, and so can all others. These tests
//! need their own file system, so root.

use crate::disk::{fill, mount_small};
use crate::harness::{Cluster, Gate, kill_9, until, until_so};

/// Writes into the folder of its run for ever, as fast as there is space, and ignores errors.
const FILLS: &str =
    r#"while :; do cat /dev/zero >> "$GPOOL_DIR/fill" 2> /dev/null; sleep 0.01; done"#;

/// Bytes that any user may still write beside the server's files.
fn n_free(cluster: &Cluster) -> u64 {
    let found = rustix::fs::statvfs(cluster.state()).unwrap();
    found.f_bavail * found.f_frsize
}

fn until_full(cluster: &Cluster) {
    until_so("the disk is full", || n_free(cluster) == 0);
    until_so("the server knows", || {
        cluster.client().status().is_ok_and(|status| status.store_fault.is_some())
    });
}

/// The actions in the audit log, of all users.
fn audited(cluster: &Cluster) -> Vec<String> {
    let list = cluster.gpool(["audit", "--json", "-n", "1000"]).json();
    let action = |entry: &serde_json::Value| entry["action"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(action).collect()
}

#[test]
fn on_a_full_disk_each_job_can_be_ended_and_its_end_is_stored() {
    let cluster = Cluster::unstarted(&["--devices", "none"]);
    if !mount_small(&cluster, "size=64m,mode=711") {
        return;
    }
    // In the background, so that its log is on the full disk too.
    let up = |cluster: &Cluster| cluster.gpool(["up", "--devices", "none", "--name", "lab1"]).ok();
    up(&cluster);
    let token =
        cluster.gpool(["token", "create", "--json"]).json()["id"].as_str().unwrap().to_owned();
    let gate = Gate::new(&cluster, "gate");
    let ends = cluster.sh(&[], &format!("{}; exit 5", gate.line()));
    let [killed, stays, goes] = [(); 3].map(|()| cluster.sh(&[], "sleep 100000"));
    let held = cluster.submit(["--hold", "--", "true"]);
    let filler = cluster.sh(&[], FILLS);
    for id in [&ends, &killed, &stays, &goes, &filler] {
        cluster.until_is(id, "running");
    }
    until_full(&cluster);
    let words = ["no space left", "GP0907", "jobs can be ended"];
    cluster.gpool(["submit", "--", "true"]).refused(1, &words);
    cluster.gpool(["release", &held]).refused(1, &words);
    cluster.gpool(["token", "create"]).refused(1, &["GP0907"]);
    let pid = || cluster.client().status().unwrap().pid;
    let first = pid();
    // The filler takes each free byte while these are stored.
    cluster.gpool(["signal", "KILL", &killed]).ok();
    assert_eq!(cluster.until_ended(&killed).run.exit_code, Some(137));
    gate.open();
    assert_eq!(cluster.until_ended(&ends).run.exit_code, Some(5));
    cluster.gpool(["cancel", &goes, &held]).ok();
    assert_eq!(cluster.until_ended(&goes).state.as_str(), "cancelled");
    cluster.gpool(["token", "revoke", &token]).ok();
    until_so("the filler has each free byte", || n_free(&cluster) == 0);
    assert_eq!(pid(), first);
    let actions = audited(&cluster);
    let n = |part: &str| actions.iter().filter(|action| action.contains(part)).count();
    assert!(n("/cancel") >= 1 && n("/signal") == 1 && n("DELETE /tokens") == 1, "{actions:?}");
    // A killed server and its successor find the same.
    kill_9(first);
    let said = up(&cluster);
    assert!(said.contains("took over 2 running jobs"), "{said}");
    let found = cluster.client().recovery().unwrap().jobs;
    let found: Vec<_> = found.iter().map(|job| (job.id.clone(), job.state.as_str())).collect();
    assert_eq!(found, [(stays.clone(), "running"), (filler.clone(), "running")]);
    let ran = cluster.gpool(["down", "--now"]);
    assert!(ran.code == 0 && ran.err.contains("no job is running"), "{ran:?}");
    up(&cluster);
    for id in [&goes, &held, &stays, &filler] {
        assert_eq!(cluster.job(id).state.as_str(), "cancelled");
    }
    assert_eq!(cluster.job(&ends).run.exit_code, Some(5));
    let tokens = cluster.gpool(["token", "list"]).ok();
    assert!(!tokens.contains(&token), "{tokens}");
    let fill = cluster.state().join("jobs").join(&filler).join("1/fill");
    std::fs::remove_file(fill).unwrap();
    until_so("jobs are accepted again", || cluster.gpool(["submit", "--", "true"]).code == 0);
    assert!(cluster.client().status().unwrap().store_fault.is_none());
    cluster.gpool(["down"]).ok();
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}

#[test]
fn on_a_full_disk_no_job_starts_and_the_queue_goes_on_when_there_is_room() {
    let mut cluster = Cluster::unstarted(&["--devices", "sim:1xH100-80G"]);
    if !mount_small(&cluster, "size=64m,mode=711") {
        return;
    }
    cluster.up();
    let gate = Gate::new(&cluster, "gate");
    let first = cluster.sh(&["--gpus", "1"], &gate.line());
    let next = cluster.sh(&["--gpus", "1"], "exit 3");
    cluster.until_is(&first, "running");
    let ballast = cluster.state().join("ballast");
    fill(&ballast);
    until_full(&cluster);
    gate.open();
    assert_eq!(cluster.until_ended(&first).run.exit_code, Some(0));
    assert_eq!(cluster.job(&next).state.as_str(), "pending");
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.job(&next).state.as_str(), "pending");
    std::fs::remove_file(ballast).unwrap();
    assert_eq!(cluster.until_ended(&next).run.exit_code, Some(3));
}

/// A cluster on a small disk with this line in `gpool.toml`.
fn with_settings(line: &str) -> Option<Cluster> {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let config = cluster.path("gpool.toml");
    std::fs::write(&config, line).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.display().to_string()));
    mount_small(&cluster, "size=64m,mode=711").then(|| {
        cluster.up();
        cluster
    })
}

/// The text of a job's event about its output.
fn until_cut(cluster: &Cluster, id: &str) -> String {
    until("its output is cut", || {
        let events = cluster.gpool(["events", id]).ok();
        events.lines().find(|line| line.contains("its output")).map(str::to_owned)
    })
}

#[test]
fn output_leaves_room_for_the_store_and_the_job_is_told() {
    let Some(cluster) = with_settings("") else { return };
    let id = cluster.sh(&[], "yes");
    let told = until_cut(&cluster, &id);
    assert!(told.contains("no room for its output; the rest is dropped"), "{told}");
    // Output takes nothing of the space that changes need.
    assert!(n_free(&cluster) > 3 << 20, "{}", n_free(&cluster));
    assert!(cluster.client().status().unwrap().store_fault.is_none());
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    let other = cluster.sh(&[], "echo dropped; exit 4");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(4));
    cluster.gpool(["cancel", &id]).ok();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "cancelled");
}

#[test]
fn a_job_whose_output_meets_its_limit_is_stopped_if_the_settings_say_so() {
    let settings = "job_output_max = \"100K\"\njob_output_full = \"stop\"";
    let Some(cluster) = with_settings(settings) else { return };
    let id = cluster.sh(&[], "yes");
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.cause.as_deref()), ("failed", Some("output_cut")));
    assert_eq!(job.run.cause_text.as_deref(), Some("its output reached the limit of 100 KiB"));
    let told = until_cut(&cluster, &id);
    assert!(told.contains("its output reached the limit"), "{told}");
    let fits = cluster.sh(&[], "yes | head -c 90000; exit 6");
    assert_eq!(cluster.until_ended(&fits).run.exit_code, Some(6));
}
