//! Removes the output of jobs that ended longer ago than it is to be kept: the folders `jobs/ID`
//! below the state folder, with what the job left in them. Files that users named stay.

use std::time::{Duration, SystemTime};

use gpool_server::http::testing::{remove, untouched};

#[test]
fn folders_of_jobs_are_found_by_their_age() {
    let dir = tempfile::tempdir().expect("there is room");
    let jobs = [dir.path().join("jobs"), dir.path().join("nodes/n1/jobs")];
    for (folder, names) in jobs.iter().zip([&["7", "8.3", "other"][..], &["9"]]) {
        for name in names {
            std::fs::create_dir_all(folder.join(name)).expect("there is room");
        }
    }
    assert!(untouched(dir.path(), Duration::from_secs(3600)).is_empty(), "they are new");
    std::fs::File::open(jobs[0].join("8.3"))
        .and_then(|folder| folder.set_modified(SystemTime::UNIX_EPOCH))
        .expect("it is ours");
    let ids = |age| -> Vec<String> {
        untouched(dir.path(), age).iter().map(|(id, _)| id.to_string()).collect()
    };
    assert_eq!(ids(Duration::from_secs(3600)), ["8.3"]);
    std::fs::File::open(jobs[1].join("9"))
        .and_then(|folder| folder.set_modified(SystemTime::UNIX_EPOCH))
        .expect("it is ours");
    assert_eq!(ids(Duration::from_secs(3600)), ["8.3", "9"]);
}

#[test]
fn what_a_link_leads_to_is_not_removed() {
    let dir = tempfile::tempdir().expect("there is room");
    let (job, other) = (dir.path().join("7"), dir.path().join("other"));
    std::fs::create_dir_all(job.join("1")).expect("there is room");
    std::fs::write(&other, "precious").expect("there is room");
    std::os::unix::fs::symlink(&other, job.join("1/link")).expect("there is room");
    assert!(remove(&job));
    assert!(!job.exists() && other.exists());
    assert!(!remove(&job), "it has gone");
}
