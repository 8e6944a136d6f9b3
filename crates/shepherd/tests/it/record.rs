//! The claim of a task: a file that exists once the task may have been launched, and is locked
//! while its shepherd lives. Each line has a checksum. Nothing is synced: the page cache survives
//! the death of every process, and the boot ID shows a reboot.

use gpool_model::job::{ExitStatus, Usage};

use gpool_model::agent::TaskEnd;
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::{Bytes, MilliGpu, Slot, SlotPart, Timestamp};
use gpool_shepherd::layout::Layout;
use gpool_shepherd::testing::{Claim, ClaimFile, ClaimRecord, Claimant};

fn folder() -> (tempfile::TempDir, Layout, TaskId) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    std::fs::create_dir(layout.tasks()).unwrap();
    (dir, layout, "7#1/0".parse().unwrap())
}

fn claimant(task: TaskId) -> Claimant {
    Claimant::this_process(task, Generation(3), 0, "boot")
}

fn end() -> TaskEnd {
    TaskEnd {
        started_at: None,
        ended_at: Timestamp::new(5),
        exit: Some(ExitStatus::Code(3)),
        cause: None,
        stopped: false,
        usage: Usage::default(),
        steps: gpool_model::Rare::default(),
    }
}

#[test]
fn a_task_can_be_claimed_only_once() {
    let (_dir, layout, task) = folder();
    let claim = Claim::take(&layout, claimant(task)).unwrap().unwrap();
    assert!(Claim::take(&layout, claimant(task)).unwrap().is_none());
    let found = ClaimFile::open(&layout, task).unwrap().unwrap();
    assert!(found.is_held().unwrap());
    drop(claim);
    assert!(!found.is_held().unwrap());
    assert!(Claim::take(&layout, claimant(task)).unwrap().is_none(), "even when free");
    assert_eq!(std::fs::read_dir(layout.tasks()).unwrap().count(), 1);
}

#[test]
fn a_task_that_is_over_is_not_claimed_again() {
    let (dir, layout, task) = folder();
    let claim = Claim::take(&layout, claimant(task)).unwrap().unwrap();
    drop(claim);
    std::fs::create_dir_all(dir.path().join("jobs/7")).unwrap();
    std::fs::rename(layout.claim(task), layout.record(task)).unwrap();
    assert!(Claim::take(&layout, claimant(task)).unwrap().is_none());
    assert_eq!(std::fs::read_dir(layout.tasks()).unwrap().count(), 0, "nothing is left");
    assert!(ClaimFile::open(&layout, task).unwrap().is_some(), "the moved claim is found");
}

#[test]
fn a_task_that_must_not_be_launched_is_claimed_with_its_end() {
    let (_dir, layout, task) = folder();
    assert!(Claim::take_ended(&layout, claimant(task), &end()).unwrap());
    assert!(Claim::take(&layout, claimant(task)).unwrap().is_none());
    let found = ClaimFile::open(&layout, task).unwrap().unwrap();
    assert!(!found.is_held().unwrap());
    assert_eq!(found.read().unwrap().and_then(|record| record.ended), Some(end()));
    assert!(!Claim::take_ended(&layout, claimant(task), &end()).unwrap());
}

#[test]
fn a_claim_notes_that_all_processes_of_a_killed_claimant_ended() {
    let (_dir, layout, task) = folder();
    let find = || ClaimFile::open(&layout, task).unwrap().unwrap();
    let is_swept = || find().read().unwrap().unwrap().is_swept;
    drop(Claim::take(&layout, claimant(task)).unwrap());
    assert!(!is_swept());
    let killed = Some(ExitStatus::Signal(9));
    find().swept(killed).unwrap();
    find().ended(&end()).unwrap();
    assert!(is_swept());
    assert_eq!(find().read().unwrap().unwrap().killed, killed);
    assert_eq!(find().read().unwrap().unwrap().ended, Some(end()));
}

#[test]
fn a_claim_is_read_up_to_the_first_broken_line() {
    let (_dir, layout, task) = folder();
    let mut claim = Claim::take(&layout, claimant(task)).unwrap().unwrap();
    claim.started(9, Timestamp::new(4)).unwrap();
    claim.ended(&end()).unwrap();
    let read = || ClaimFile::open(&layout, task).unwrap().unwrap().read().unwrap();
    let record = read().unwrap();
    let claimed = Claimant { shepherd_started: record.claimant.shepherd_started, ..claimant(task) };
    assert_eq!(record.claimant, claimed);
    assert_eq!(record.started, Some((9, Timestamp::new(4))));
    assert_eq!(record.ended, Some(end()));

    let whole = std::fs::read(layout.claim(task)).unwrap();
    for cut in 0..whole.len() {
        std::fs::write(layout.claim(task), &whole[..cut]).unwrap();
        assert_eq!(read().and_then(|record| record.ended), None, "cut at {cut}");
    }
    for place in 0..whole.len() {
        let mut broken = whole.clone();
        broken[place] ^= 1;
        std::fs::write(layout.claim(task), &broken).unwrap();
        assert_ne!(read(), Some(record.clone()), "flipped at {place}");
    }
}

/// A move on a node changes no booking.
#[test]
fn a_claim_notes_the_devices_of_a_share_and_those_that_are_booked() {
    let (_dir, layout, task) = folder();
    let [one, other, third] = ["GPU-1", "GPU-2", "GPU-3"].map(DeviceUuid::new);
    let memory = Bytes::from_gib(8);
    let part = SlotPart::Share { charge: MilliGpu::new(100), memory, limit: memory };
    let slots = vec![Slot { index: 0, device: one.clone(), part }];
    let booked = vec![one];
    let mut claim =
        Claim::take(&layout, Claimant { slots, booked, ..claimant(task) }).unwrap().unwrap();
    let seats = || {
        let record = ClaimFile::open(&layout, task).unwrap().unwrap().read().unwrap().unwrap();
        let seats = record.claimant.seats();
        (seats.devices(), seats.booked)
    };
    let to = std::slice::from_ref(&other);
    claim.attached(to, to).unwrap();
    assert_eq!(seats(), (vec![other.clone()], vec![other.clone()]));
    claim.attached(std::slice::from_ref(&third), &[]).unwrap();
    assert_eq!(seats(), (vec![third], vec![other]));
}

/// A new agent counts no GPU memory on the devices of a task that is still being restored.
#[test]
fn a_claim_notes_that_the_node_keeps_a_task_off_its_devices() {
    let (_dir, layout, task) = folder();
    drop(Claim::take(&layout, claimant(task)).unwrap());
    let claimed = std::fs::read_to_string(layout.claim(task)).unwrap();
    let read = |lines: &[&str]| {
        let lines = lines.iter().map(|line| gpool_shepherd::fuzzing::claim_line(line));
        let text = claimed.clone() + &lines.collect::<String>();
        let record = ClaimRecord::read(text.as_bytes()).unwrap();
        (record.generation(), record.is_paused(), record.is_off())
    };
    let left = r#"{"halted":{"generation":4,"is_paused":false,"is_away":true}}"#;
    let back = r#"{"halted":{"generation":4,"is_paused":false}}"#;
    let paused = r#"{"halted":{"generation":5,"is_paused":true}}"#;
    assert_eq!(read(&[]), (Generation(3), false, false));
    assert_eq!(read(&[left]), (Generation(4), false, true), "a pause by the node is no pause");
    assert_eq!(read(&[left, back]), (Generation(4), false, false));
    assert_eq!(read(&[left, paused]), (Generation(5), true, true));
    let detached = r#""detached""#;
    let attached = r#"{"attached":{"devices":["GPU-2"]}}"#;
    assert!(read(&[detached]).2 && !read(&[detached, attached]).2);
    assert_eq!(read(&[left, attached]), (Generation(4), false, true), "not restored yet");
}
