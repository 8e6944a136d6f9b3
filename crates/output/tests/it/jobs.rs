//! The folders of jobs, found by their age and removed.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use gpool_model::unit::Timestamp;
use gpool_output::{old_jobs, remove_job};

#[test]
fn jobs_are_found_by_the_age_of_their_folders() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = [dir.path().to_owned(), dir.path().join("nodes/n1")];
    for (state_dir, names) in dirs.iter().zip([&["7", "8.3", "other"][..], &["9", "7"]]) {
        for name in names {
            std::fs::create_dir_all(state_dir.join("jobs").join(name)).unwrap();
        }
    }
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
    let ids = || -> Vec<String> {
        let old = old_jobs(&dirs, Timestamp::new(61_000));
        old.iter().map(ToString::to_string).collect()
    };
    assert!(ids().is_empty(), "they are new");
    let make_old = |folder: &str| File::open(dir.path().join(folder)).unwrap().set_modified(old);
    make_old("jobs/8.3").unwrap();
    assert_eq!(ids(), ["8.3"]);
    make_old("nodes/n1/jobs/9").unwrap();
    assert_eq!(ids(), ["8.3", "9"]);
    assert!(old_jobs(&dirs, Timestamp::new(60_000)).is_empty(), "not before that time");
}

#[test]
fn links_are_removed_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (job, other) = (dir.path().join("jobs/7"), dir.path().join("other"));
    std::fs::create_dir_all(job.join("1")).unwrap();
    std::fs::write(&other, "precious").unwrap();
    symlink(&other, job.join("1/link")).unwrap();
    let (dirs, id) = ([dir.path().to_owned()], "7".parse().unwrap());
    assert!(remove_job(&dirs, id));
    assert!(!job.exists() && other.exists());
    assert!(!remove_job(&dirs, id), "it is gone");
}
