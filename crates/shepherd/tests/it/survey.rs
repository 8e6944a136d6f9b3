//! Lists the tasks of a state folder without server and agent: from the claims of shepherds, and
//! from the processes of the caller's own jobs. Read-only.

use gpool_model::id::Generation;
use gpool_model::job::{ExitStatus, Usage};

use gpool_model::agent::TaskEnd;
use gpool_model::{TaskId, Timestamp};
use gpool_shepherd::layout::Layout;
use gpool_shepherd::survey::{LocalTaskState, claimed, local_task, variable};
use gpool_shepherd::testing::{Claim, Claimant};
use gpool_sys::proc;

fn folder() -> (tempfile::TempDir, Layout, TaskId) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    std::fs::create_dir(layout.tasks()).unwrap();
    (dir, layout, "7#1/0".parse().unwrap())
}

#[test]
fn the_state_of_a_claim_follows_from_lock_end_and_boot() {
    let (dir, layout, task) = folder();
    let is = || claimed(dir.path()).unwrap().pop().unwrap().is;
    let claimant = Claimant::this_process(task, Generation(1), 4711, &proc::boot_id());
    let mut claim = Claim::take(&layout, claimant).unwrap().unwrap();
    claim.started(1, Timestamp::new(9)).unwrap();
    let left = claimed(dir.path()).unwrap().pop().unwrap();
    assert_eq!((left.is, left.pid, left.uid), (LocalTaskState::Runs, Some(1), 4711));
    let bytes = std::fs::read(layout.claim(task)).unwrap();
    let end = TaskEnd {
        started_at: None,
        ended_at: Timestamp::new(5),
        exit: Some(ExitStatus::Code(3)),
        cause: None,
        stopped: false,
        usage: Usage::default(),
        steps: gpool_model::Rare::default(),
    };
    claim.ended(&end).unwrap();
    drop(claim);
    assert_eq!(is(), LocalTaskState::Ended(Box::new(end)));
    std::fs::write(layout.claim(task), bytes).unwrap();
    assert_eq!(is(), LocalTaskState::Lost { rebooted: false });
    std::fs::remove_file(layout.claim(task)).unwrap();
    let claimant = Claimant::this_process(task, Generation(1), 0, "another boot");
    drop(Claim::take(&layout, claimant).unwrap());
    assert_eq!(is(), LocalTaskState::Lost { rebooted: true });
    std::fs::write(layout.claim(task), "rubbish").unwrap();
    assert_eq!(claimed(dir.path()).unwrap(), []);
    assert!(claimed(&dir.path().join("nowhere")).is_err());
}

#[test]
fn only_a_complete_environment_names_a_run() {
    let of = |text: &str| variable(text.replace('|', "\0").as_bytes(), "GPOOL_DIR=");
    assert_eq!(of("A=1|GPOOL_DIR=/s/jobs/7/1|B=2"), Some("/s/jobs/7/1".to_owned()));
    assert_eq!(of("A=1|XGPOOL_DIR=/s"), None);
    assert_eq!(local_task(std::process::id(), 0, 0), None, "no job of gpool");
}
