//! Files of a state folder that are removed or replaced by hand: the server notices before it
//! acknowledges or starts a job.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::{Cluster, Ran, until_so};
use crate::http::Http;

fn submit_many(cluster: &Cluster, n_jobs: usize) {
    (0..n_jobs).for_each(|_| drop(cluster.submit(["--hold", "--", "true"])));
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

fn refuses_to_start(cluster: &Cluster, words: &[&str]) -> Ran {
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    words.iter().for_each(|word| assert!(ran.err.contains(word), "{word:?} not in {ran:?}"));
    ran
}

/// Replaces the store with that of another folder; the files of jobs stay.
fn replace_store(cluster: &Cluster, older: &Path) {
    for name in ["store.db", "store.db-wal", "store.db-shm", "mark"] {
        let (from, to) = (older.join(name), cluster.state().join(name));
        // Not all of these files exist.
        let _ = std::fs::remove_file(&to);
        if from.exists() {
            copy(&from, &to);
        }
    }
}

#[test]
fn a_state_folder_removed_under_a_server_is_noticed_before_it_answers() {
    let mut cluster = Cluster::new("none");
    let id = cluster.submit(["--hold", "--", "true"]);
    let elsewhere = cluster.path("elsewhere");
    std::fs::rename(cluster.state(), &elsewhere).unwrap();
    for _ in 0..8 {
        let answer = Http::new(&cluster).post("/api/v1/jobs", &json!({"command": ["true"]}));
        assert_eq!((answer.status, answer.problem_code().as_str()), (507, "GP0908"));
    }
    let words = ["GP0908", "was removed or replaced", "gpool restore"];
    cluster.gpool(["submit", "--", "true"]).refused(1, &words);
    // Queries are answered, and the alarm is shown everywhere.
    assert_eq!(cluster.job(&id).state.as_str(), "held");
    let doctor = cluster.gpool(["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("was removed or replaced"), "{doctor:?}");
    assert!(cluster.gpool(["status"]).ok().contains("was removed or replaced"));
    assert!(Http::new(&cluster).get("/metrics").body.contains("gpool_store_writable{} 0"));
    // After the folder is put back the server continues, with nothing lost and no job number
    // reused.
    std::fs::rename(&elsewhere, cluster.state()).unwrap();
    until_so("jobs are accepted again", || {
        let body = json!({"command": ["true"], "hold": true});
        Http::new(&cluster).post("/api/v1/jobs", &body).status == 201
    });
    assert_eq!(cluster.all_ids(), [id, "2".to_owned()]);
    assert!(cluster.gpool(["status"]).ok().contains("2 held"));
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}

#[test]
fn an_idle_server_reports_that_its_folder_is_gone() {
    let cluster = Cluster::new("none");
    std::fs::remove_dir_all(cluster.state()).unwrap();
    let doctor = cluster.gpool(["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("was removed or replaced"), "{doctor:?}");
    let answer = Http::new(&cluster).post("/api/v1/jobs", &json!({"command": ["true"]}));
    assert_eq!((answer.status, answer.problem_code().as_str()), (507, "GP0908"));
}

#[test]
fn an_older_store_beside_newer_jobs_is_refused_and_can_be_restored() {
    let mut cluster = Cluster::new("none");
    cluster.until_ended(&cluster.sh(&[], "exit 1"));
    let held = cluster.sh(&["--hold"], "echo begun; exit 7");
    cluster.down(&[]);
    let older = cluster.path("older");
    copy(&cluster.state(), &older);
    cluster.up();
    let newer: Vec<String> =
        (4..8).map(|code| cluster.sh(&[], &format!("sleep 0; exit {code}"))).collect();
    newer.iter().for_each(|id| drop(cluster.until_ended(id)));
    cluster.kill();
    let newest = cluster.path("newest");
    copy(&cluster.state(), &newest);
    replace_store(&cluster, &older);
    let words = ["is older than its jobs", "its last job is 2", "of job 6", "gpool restore"];
    refuses_to_start(&cluster, &words);
    // The newest copy is accepted.
    replace_store(&cluster, &newest);
    cluster.up();
    assert_eq!(cluster.job(&newer[3]).run.exit_code, Some(7));
    // Without a newer job, a later run of a known job also shows that the copy is old.
    cluster.kill();
    for name in ["tasks", "jobs", "tasks-done"] {
        let (from, to) = (older.join(name), cluster.state().join(name));
        Command::new("rm").arg("-rf").arg(&to).status().unwrap();
        copy(&from, &to);
    }
    replace_store(&cluster, &older);
    cluster.up();
    cluster.gpool(["release", &held]).ok();
    assert_eq!(cluster.until_ended(&held).run.exit_code, Some(7));
    cluster.kill();
    replace_store(&cluster, &older);
    refuses_to_start(&cluster, &["a later run of job 2", "gpool restore"]);
    // The remedy in the message works; from then on the server starts as usual.
    let store = cluster.state().join("store.db");
    cluster.gpool(["restore", "--put-aside", store.to_str().unwrap()]).ok();
    for _ in 0..2 {
        cluster.up();
        assert_eq!(cluster.job(&held).state.as_str(), "held");
        cluster.down(&[]);
    }
    cluster.up();
    cluster.gpool(["release", &held]).ok();
    assert_eq!(cluster.until_ended(&held).run.exit_code, Some(7));
    let new: u64 = cluster.submit(["--hold", "--", "true"]).parse().unwrap();
    assert!(new > 1_000_000, "{new} may have been given out before");
}

#[test]
fn a_store_without_its_mark_and_log_is_not_taken_for_a_new_one() {
    let mut cluster = Cluster::new("none");
    submit_many(&cluster, 40);
    cluster.kill();
    for name in ["mark", "store.db-wal"] {
        std::fs::remove_file(cluster.state().join(name)).unwrap();
    }
    refuses_to_start(&cluster, &["mark is missing", "gpool restore"]);
}

#[test]
fn jobs_without_their_environments_are_named_and_held() {
    let mut cluster = Cluster::new("none");
    let held = cluster.submit(["--hold", "--", "true"]);
    let begun = cluster.sh(&[], "echo begun; sleep 1000");
    let waits = cluster.submit(["--after", &begun, "--", "true"]);
    let array = cluster.submit(["--array", "0-2", "--after", &begun, "--", "true"]);
    until_so("it runs", || cluster.stdout_of(&begun) == "begun\n");
    cluster.kill();
    let (blobs, away) = (cluster.state().join("blobs"), cluster.path("away"));
    std::fs::rename(&blobs, &away).unwrap();
    cluster.up();
    let lack = format!("3 jobs lack their environment or script and can't run: {held}, {waits}");
    until_so("they are named", || cluster.gpool(["doctor"]).out.contains(&lack));
    assert!(cluster.gpool(["status"]).ok().contains(&lack));
    assert!(cluster.log().contains("environments or scripts of jobs are missing"));
    let why = "blobs/u";
    for id in [&held, &waits, &array] {
        let page = cluster.gpool(["show", id]).ok();
        assert!(page.contains("held: ") && page.contains(why), "{page}");
        assert!(cluster.gpool(["why", id]).ok().contains(why));
    }
    assert_eq!(cluster.job(&begun).state.as_str(), "running");
    // New jobs are stored again and run; a released job without its files is held again and does
    // not fail.
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 4"]).code, 4);
    cluster.gpool(["release", &held]).ok();
    until_so("it is held again", || cluster.job(&held).state.as_str() == "held");
    cluster.down(&[]);
    std::fs::remove_dir_all(&blobs).unwrap();
    std::fs::rename(&away, &blobs).unwrap();
    cluster.up();
    cluster.gpool(["release", &held, &waits]).ok();
    assert_eq!(cluster.until_ended(&held).run.exit_code, Some(0));
    assert!(!cluster.gpool(["doctor"]).out.contains("lack their"));
}

#[test]
fn environments_removed_under_a_server_are_stored_again() {
    let mut cluster = Cluster::new("none");
    assert_eq!(cluster.gpool(["run", "--", "true"]).code, 0);
    std::fs::remove_dir_all(cluster.state().join("blobs")).unwrap();
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 3"]).code, 3);
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 4"]).code, 4);
}
