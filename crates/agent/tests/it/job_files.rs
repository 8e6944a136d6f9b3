//! The files that name the jobs of each GPU.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpool_agent::testing::{JobFiles, JobsByGpu};
use gpool_model::JobId;

fn jobs(of: &[(u32, &[&str])]) -> JobsByGpu {
    let ids = |jobs: &[&str]| jobs.iter().map(|job| job.parse::<JobId>().unwrap()).collect();
    of.iter().map(|(index, jobs)| (*index, ids(jobs))).collect()
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let read = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), text)
    };
    entries.map(read).collect()
}

#[test]
fn each_gpu_with_jobs_has_a_file_of_their_ids() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("jobs");
    let mut written = JobFiles::new(Some(folder.clone()));
    written.update(jobs(&[(0, &["7"]), (3, &["9.2", "8"])]));
    let both = [("0", "7\n"), ("3", "8\n9.2\n")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(files(&folder), BTreeMap::from(both));
    written.update(jobs(&[(3, &["8"])]));
    assert_eq!(files(&folder), BTreeMap::from([("3".to_owned(), "8\n".to_owned())]));
    written.update(JobsByGpu::new());
    assert!(files(&folder).is_empty());
}

#[test]
fn files_of_an_earlier_agent_are_removed_and_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("5"), "1\n").unwrap();
    std::fs::write(dir.path().join("notes"), "mine").unwrap();
    JobFiles::new(Some(dir.path().to_owned())).update(JobsByGpu::new());
    let left: BTreeSet<_> = files(dir.path()).into_keys().collect();
    assert_eq!(left, BTreeSet::from(["notes".to_owned()]));
}
