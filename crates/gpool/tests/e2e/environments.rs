//! The environments and scripts of jobs on the server's disk: a refused job leaves none, each user
//! has a limit, and the server removes unused ones.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::disk::{fill, mount_small};
use crate::harness::{Cluster, skip, until_so};
use crate::http::Http;
use crate::users::{self, NOBODY, SOMEBODY};

const DAY: Duration = Duration::from_hours(24);

/// A job with an environment of this size; `mark` makes environments differ.
fn job_of(kib: usize, mark: &str) -> Value {
    // One variable has at most 128 KiB.
    let large = (0..kib.div_ceil(100)).map(|n| (format!("L{n}"), json!("x".repeat(100 << 10))));
    let environment: serde_json::Map<String, Value> =
        large.chain([("MARK".to_owned(), json!(mark))]).collect();
    json!({"command": ["true"], "directory": "/", "environment": environment})
}

/// The files with jobs' environments and scripts.
fn files(cluster: &Cluster) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(cluster.state().join("blobs")).unwrap().flatten();
    let owned = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with('u'));
    let files = owned.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
    files.map(|file| file.path()).collect()
}

fn bytes_of(files: &[PathBuf]) -> u64 {
    files.iter().map(|file| file.metadata().unwrap().len()).sum()
}

fn make_older(files: &[PathBuf], age: Duration) {
    for file in files {
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
}

#[test]
fn refused_jobs_leave_nothing_and_equal_environments_are_stored_once() {
    let Some(cluster) = users::cluster() else { return };
    let http = Http::of_user(&cluster, SOMEBODY);
    let mut refused = job_of(1000, "a");
    refused["gpus"] = json!("16");
    let many = format!("{}\n{}\n", job_of(100, "b"), refused);
    for _ in 0..20 {
        assert_eq!(http.post("/api/v1/jobs", &refused).status, 422);
        let mut typo = job_of(1000, "c");
        typo["script"] = json!({"name": "s.sh", "text": "#!/bin/sh\n"});
        typo["after"] = json!([{"job": "99"}]);
        assert!((400..500).contains(&http.post("/api/v1/jobs", &typo).status));
    }
    let ran = cluster.gpool_reading(["submit", "--from-jsonl", "-"], many.as_bytes());
    assert_ne!(ran.code, 0);
    assert_eq!(files(&cluster), Vec::<PathBuf>::new());
    // All jobs of a user with the same environment share one file, of the size of the environment.
    for _ in 0..5 {
        assert_eq!(http.post("/api/v1/jobs", &job_of(1000, "a")).status, 201);
    }
    let kept = files(&cluster);
    let n_bytes = bytes_of(&kept);
    assert!(kept.len() == 1 && n_bytes < 1001 << 10, "{kept:?}: {n_bytes}");
    // Another user's environment is another file.
    let other = Http::of_user(&cluster, NOBODY).post("/api/v1/jobs", &job_of(1000, "a"));
    assert_eq!((other.status, files(&cluster).len()), (201, 2));
    // A refused job with the same environment does not remove it.
    assert_eq!(http.post("/api/v1/jobs", &refused).status, 422);
    assert_eq!(files(&cluster).len(), 2);
}

#[test]
fn one_user_can_not_fill_the_disk_with_environments() {
    let Some(mut cluster) = users::cluster() else { return };
    cluster.down(&[]);
    let config = cluster.path("gpool.toml");
    std::fs::write(&config, "user_environment_max = \"1M\"\n").unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.display().to_string()));
    cluster.up();
    let http = Http::of_user(&cluster, SOMEBODY);
    let mut n_taken = 0;
    let refused = loop {
        let answer = http.post("/api/v1/jobs", &job_of(100, &n_taken.to_string()));
        if answer.status != 201 {
            break answer;
        }
        n_taken += 1;
        assert!(n_taken < 20, "no job is refused");
    };
    assert_eq!((refused.status, refused.problem_code().as_str(), n_taken), (429, "GP0521", 9));
    assert!(refused.body.contains("1 MiB") && refused.body.contains("--clean-env"), "{refused:?}");
    // The limit also applies to many jobs in one small request.
    let lines: String = (0..50)
        .map(|n| {
            format!(
                "{}\n",
                json!({
                    "command": ["true"], "environment": {"MARK": n.to_string()}
                })
            )
        })
        .collect();
    let defaults = json!({"defaults": {"environment": {"LARGE": "x".repeat(100 << 10)}}});
    let body = format!("{defaults}\n{lines}");
    let answer = Http::of_user(&cluster, NOBODY).send(
        "POST",
        "/api/v1/jobs/bulk",
        &[("Content-Type", "application/jsonl")],
        body.as_bytes(),
    );
    assert_eq!((answer.status, answer.problem_code().as_str()), (429, "GP0521"));
    assert_eq!(files(&cluster).len(), 9, "none of them is stored");
    // A stored environment can be used again, and another user is not affected.
    assert_eq!(http.post("/api/v1/jobs", &job_of(100, "3")).status, 201);
    let other = Http::of_user(&cluster, NOBODY).post("/api/v1/jobs", &job_of(100, "3"));
    assert_eq!(other.status, 201);
    // The limit also applies after a restart.
    cluster.kill();
    cluster.up();
    let again = Http::of_user(&cluster, SOMEBODY).post("/api/v1/jobs", &job_of(100, "new"));
    assert_eq!((again.status, again.problem_code().as_str()), (429, "GP0521"));
}

#[test]
fn an_ended_jobs_environment_is_kept_for_a_retry_and_removed_in_time() {
    let mut cluster = Cluster::new("none");
    let id = cluster.submit(["-e", "TOKEN=canary-77ab", "--", "false"]);
    cluster.until_ended(&id);
    let runs = cluster.submit(["-e", "TOKEN=another", "--", "sleep", "1000"]);
    let page = cluster.gpool(["show", &id]).ok();
    assert!(page.contains("retry      possible until"), "{page}");
    let job = cluster.job(&id);
    let kept_s = job.run.retry_until.unwrap().0.since(job.run.ended_at.unwrap().0).get() / 1000;
    assert_eq!((job.run.can_retry, kept_s), (Some(true), 7 * 24 * 3600));
    let again = cluster.gpool(["retry", &id]).ok();
    assert!(!again.is_empty());
    cluster.until_ended("3");
    // Six days later the file exists, eight days later it is gone; a running job's file stays.
    let all = files(&cluster);
    assert_eq!(all.len(), 2);
    for (age, n_left) in [(6 * DAY, 2), (8 * DAY, 1)] {
        cluster.kill();
        make_older(&all, age);
        cluster.up();
        // The running job's file is touched after all files were checked.
        until_so("the files were checked", || {
            let lately = SystemTime::now() - DAY;
            files(&cluster).iter().any(|file| file.metadata().unwrap().modified().unwrap() > lately)
        });
        until_so("only needed files are left", || files(&cluster).len() == n_left);
    }
    let left = std::fs::read(&files(&cluster)[0]).unwrap();
    assert!(!String::from_utf8_lossy(&left).contains("canary-77ab"));
    assert_eq!(cluster.job(&id).run.can_retry, Some(false));
    let page = cluster.gpool(["show", &id]).ok();
    assert!(page.contains("no longer possible: its environment or script was removed"), "{page}");
    cluster.gpool(["retry", &id]).refused(7, &["GP0711", "was removed after its end"]);
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
}

#[test]
fn a_file_of_a_server_killed_before_its_commit_is_removed_later() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let chosen = format!("store-blob-done 1 {}", cluster.path("point").display());
    cluster.variables = vec![("GPOOL_FAILPOINT".to_owned(), chosen)];
    cluster.up();
    let submitting = cluster.start(["submit", "-e", "TOKEN=canary-0c1e", "--", "true"]);
    until_so("the server is killed", || cluster.has_died());
    // Otherwise the client would retry.
    submitting.signal_if_there(Signal::KILL);
    drop(submitting.end());
    cluster.variables.clear();
    cluster.up();
    let left = files(&cluster);
    assert_eq!((left.len(), cluster.all_ids().len()), (1, 0));
    cluster.kill();
    make_older(&left, 8 * DAY);
    cluster.up();
    until_so("it is removed", || files(&cluster).is_empty());
}

#[test]
fn a_job_is_refused_if_its_environment_can_not_be_stored() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    if !mount_small(&cluster, "size=4m,mode=711") {
        return;
    }
    cluster.up();
    let ballast = cluster.state().join("ballast");
    fill(&ballast);
    let answer = Http::new(&cluster).post("/api/v1/jobs", &job_of(500, "a"));
    assert_eq!((answer.status, answer.problem_code().as_str()), (507, "GP0907"));
    assert_eq!(files(&cluster), Vec::<PathBuf>::new());
    std::fs::remove_file(&ballast).unwrap();
    until_so("jobs are accepted again", || {
        Http::new(&cluster).post("/api/v1/jobs", &job_of(500, "a")).status == 201
    });
    assert_eq!(files(&cluster).len(), 1);
}
