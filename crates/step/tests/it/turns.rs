//! Coordinates steps of a job that run at the same time, through files in a folder of the job. Each
//! step has a number, and a step that does not need all tasks prefers tasks without another step.

use std::fs::File;
use std::path::Path;

use gpool_step::{Host, LayoutRequest, Turn, plan};
use rustix::fs::{FlockOperation, flock};

/// Whether another step could choose its tasks now.
fn may_choose(folder: &Path) -> bool {
    let file = File::open(folder.join("steps")).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[test]
fn no_step_chooses_before_the_one_before_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let host = |rank: u32| Host { rank, node: "a".to_owned(), usual: 1 };
    let hosts = [host(0), host(1), host(2)];
    let one = LayoutRequest { n: Some(1), nodes: Some(1), ..LayoutRequest::default() };
    let mut turns = Vec::new();
    for rank in 0..3 {
        let mut turn = Turn::take(&hosts, Some(folder.path()), false);
        assert!(!may_choose(folder.path()));
        let plan = plan(&hosts, &turn.order, &one).unwrap();
        turn.keep(&plan);
        assert!(may_choose(folder.path()));
        assert_eq!((turn.step, plan.hosts[0].rank), (rank, rank));
        turns.push(turn);
    }
}
