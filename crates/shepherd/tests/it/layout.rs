//! The paths of the files of an agent and its tasks below the state directory.

use std::path::Path;

use gpool_model::TaskId;
use gpool_shepherd::layout::{Layout, claim_name, claimed_task, folders};

#[test]
fn nodes_have_folders_below_the_servers() {
    let dir = tempfile::tempdir().expect("there is room");
    let state = dir.path();
    assert_eq!(folders(state), [state]);
    for name in ["n2", "n1", ".hidden"] {
        std::fs::create_dir_all(state.join("nodes").join(name)).expect("there is room");
    }
    let nodes = state.join("nodes");
    assert_eq!(folders(state), [state.to_owned(), nodes.join("n1"), nodes.join("n2")]);
}

#[test]
fn claims_are_named_for_their_tasks() {
    let task: TaskId = "1842.3#2/1".parse().expect("valid");
    assert_eq!(claim_name(task), "1842.3#2-1");
    assert_eq!(claimed_task("1842.3#2-1"), Some(task));
    for other in ["", "1842", "1842#1", ".new-7", "01842#1-0", "1842#1-0.old"] {
        assert_eq!(claimed_task(other), None, "{other}");
    }
}

#[test]
fn the_first_task_has_the_plain_names() {
    let layout = Layout::new("/s");
    let path = |task: &str| layout.stdout(task.parse().expect("valid"));
    assert_eq!(path("7#1/0"), Path::new("/s/jobs/7/1/stdout"));
    assert_eq!(path("7.2#3/4"), Path::new("/s/jobs/7.2/3/stdout-4"));
}
