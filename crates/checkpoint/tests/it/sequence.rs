//! The sequences, with a fault at each step.

use gpool_checkpoint::{
    Aim, NotPaused, NotResumed, Plan, ProcessState, ResidentProcess, pause, release, resume,
};

use crate::fake::{Fake, GIB, GPU, OLDER, OTHER, THIRD, plan};

use ProcessState::{Checkpointed, Failed, Locked, Running};

fn paused(fake: &mut Fake) -> Vec<ResidentProcess> {
    pause(fake, &plan(Aim::Pause, vec![])).unwrap()
}

fn not_paused(fake: &mut Fake) -> NotPaused {
    pause(fake, &plan(Aim::Pause, vec![])).unwrap_err()
}

/// Whether nothing of a pause is left.
fn is_as_before(fake: &Fake) -> bool {
    let all_run = fake.states().iter().all(|state| *state == Running);
    all_run && fake.is_gate_open && !fake.is_frozen
}

#[test]
fn all_are_locked_then_checkpointed_then_stopped() {
    let mut fake = Fake::new(&[7, 8]);
    let held = paused(&mut fake);
    assert_eq!(held.iter().map(ResidentProcess::bytes).sum::<u64>(), 2 * GIB);
    let steps = ["lock 7", "lock 8", "checkpoint 7", "checkpoint 8", "freeze"];
    let made: Vec<&String> =
        fake.calls.iter().filter(|call| steps.contains(&call.as_str())).collect();
    assert_eq!(made, steps);
    assert_eq!((fake.is_frozen, fake.is_gate_open, fake.is_empty), (true, false, true));
    resume(&mut fake, &plan(Aim::Resume, held)).unwrap();
    assert!(is_as_before(&fake));
}

#[test]
fn processes_that_run_on_are_not_stopped_and_need_a_gate() {
    for pids in [&[7, 8][..], &[]] {
        let mut fake = Fake::new(pids);
        let plan = |aim, held| Plan { runs_on: true, is_risk_accepted: true, ..plan(aim, held) };
        let held = pause(&mut fake, &plan(Aim::Pause, vec![])).unwrap();
        assert_eq!((held.len(), fake.is_frozen, fake.is_gate_open), (pids.len(), false, false));
        assert!(fake.states().iter().all(|state| *state == Checkpointed) && fake.is_empty);
        resume(&mut fake, &plan(Aim::Resume, held)).unwrap();
        assert!(is_as_before(&fake));
        // Nothing would tell that they need the device again.
        fake.gate = None;
        let not = pause(&mut fake, &plan(Aim::Pause, vec![])).unwrap_err();
        assert!(not.why.contains("bypass the gate"), "{not:?}");
        assert!(is_as_before(&fake));
    }
}

#[test]
fn a_task_without_gpu_memory_is_only_stopped() {
    let mut fake = Fake::new(&[]);
    fake.gate = None;
    assert_eq!(paused(&mut fake), []);
    assert_eq!(fake.calls, ["found 0", "freeze"]);
}

#[test]
fn a_failure_at_each_step_leaves_the_task_running() {
    for call in ["lock", "checkpoint"] {
        for pid in [7, 8] {
            let mut fake = Fake::new(&[7, 8]);
            fake.errors.insert((call, pid), 999);
            let not = not_paused(&mut fake);
            assert!(not.why.contains("CUDA_ERROR_UNKNOWN") && !not.is_lost, "{not:?}");
            assert!(is_as_before(&fake), "{call} {pid}");
        }
    }
    let mut fake = Fake::new(&[7]);
    fake.can_freeze = false;
    assert!(not_paused(&mut fake).why.contains("could not be stopped"));
    assert!(is_as_before(&fake));
    let mut fake = Fake::new(&[7]);
    fake.is_busy = true;
    assert!(not_paused(&mut fake).why.contains("longer than a pause"));
    assert!(is_as_before(&fake));
    let mut fake = Fake::new(&[7]);
    fake.errors.insert(("lock", 7), 600);
    assert!(not_paused(&mut fake).why.contains("did not end in time"));
    assert!(is_as_before(&fake));
}

#[test]
fn a_helper_that_is_killed_after_its_work_changes_nothing() {
    for (call, pid) in [("lock", 7), ("checkpoint", 8), ("restore", 7), ("unlock", 8)] {
        let mut fake = Fake::new(&[7, 8]);
        fake.killed.insert((call, pid));
        let held = paused(&mut fake);
        resume(&mut fake, &plan(Aim::Resume, held)).unwrap();
        assert!(is_as_before(&fake) && fake.killed.is_empty(), "{call}");
    }
}

#[test]
fn a_plan_continues_from_any_state() {
    let held = paused(&mut Fake::new(&[7, 8]));
    for state in [Running, Locked, Checkpointed] {
        let mut fake = Fake::new(&[7, 8]);
        fake.processes.get_mut(&8).unwrap().0 = state;
        pause(&mut fake, &plan(Aim::Pause, held.clone())).unwrap();
        assert_eq!(fake.states(), [Checkpointed, Checkpointed]);
        let mut fake = Fake::new(&[7, 8]);
        fake.processes.get_mut(&8).unwrap().0 = state;
        resume(&mut fake, &plan(Aim::Resume, held.clone())).unwrap();
        assert!(is_as_before(&fake), "{state:?}");
    }
}

#[test]
fn a_second_refusal_after_an_interrupted_pause_unlocks() {
    let held = paused(&mut Fake::new(&[7]));
    let mut fake = Fake::new(&[7]);
    fake.processes.get_mut(&7).unwrap().0 = Locked;
    fake.host_memory = 0;
    let not = pause(&mut fake, &plan(Aim::Pause, held)).unwrap_err();
    assert!(not.why.contains("host memory") && is_as_before(&fake), "{not:?}");
}

#[test]
fn a_process_that_appears_meanwhile_is_paused_too() {
    let mut fake = Fake::new(&[7]);
    fake.late = Some(8);
    let held = paused(&mut fake);
    assert_eq!(held.len(), 2);
    assert_eq!(fake.states(), [Checkpointed, Checkpointed]);
}

#[test]
fn a_restore_waits_for_room_and_for_strangers() {
    let mut fake = Fake::new(&[7]);
    let held = paused(&mut fake);
    fake.room_after = 3;
    resume(&mut fake, &plan(Aim::Resume, held.clone())).unwrap();
    assert!(fake.calls.iter().any(|call| call.contains("0 MiB free, and it needs 1280 MiB")));
    assert!(is_as_before(&fake));
    // Programs that a site ignores do not count, and shared devices have other processes.
    let mut fake = Fake::new(&[7]);
    let held = paused(&mut fake);
    fake.strangers = vec![900];
    resume(&mut fake, &plan(Aim::Resume, held)).unwrap();
    let held = paused(&mut fake);
    fake.strangers = vec![901];
    let mut shared = plan(Aim::Resume, held);
    shared.is_shared = true;
    resume(&mut fake, &shared).unwrap();
    assert!(is_as_before(&fake));
}

#[test]
fn a_restore_waits_until_the_agent_has_granted_its_memory() {
    let mut fake = Fake::new(&[7]);
    let held = paused(&mut fake);
    fake.granted_after = 9;
    resume(&mut fake, &plan(Aim::Resume, held)).unwrap();
    assert!(fake.calls.iter().any(|call| call.contains("other jobs may still use the free")));
    assert_eq!(fake.granted_after, 0, "nothing was restored before");
    assert!(is_as_before(&fake));
}

#[test]
fn a_restore_waits_until_a_test_allocation_succeeds() {
    let mut fake = Fake::new(&[7]);
    let held = paused(&mut fake);
    // More failures than attempts to restore.
    fake.tight = 9;
    resume(&mut fake, &plan(Aim::Resume, held)).unwrap();
    assert!(fake.calls.iter().any(|call| call.contains("cuMemAlloc_v2 failed")));
    assert_eq!(fake.calls.iter().filter(|call| *call == "restore 7").count(), 1);
    assert!(is_as_before(&fake));
}

#[test]
fn a_restore_that_fails_for_ever_is_reported_at_once_and_others_after_some_attempts() {
    for (code, n_tried) in [(2, 1), (999, 5)] {
        let mut fake = Fake::new(&[7]);
        let held = paused(&mut fake);
        fake.errors.insert(("restore", 7), code);
        resume(&mut fake, &plan(Aim::Resume, held)).unwrap_err();
        let n_calls = fake.calls.iter().filter(|call| *call == "restore 7").count();
        assert_eq!(n_calls, n_tried);
    }
    let mut fake = Fake::new(&[7, 8]);
    fake.errors.insert(("checkpoint", 8), 999);
    fake.errors.insert(("restore", 7), 2);
    let not = not_paused(&mut fake);
    assert!(not.is_lost && not.why.contains("could not be restored"), "{not:?}");
    assert_eq!(fake.states(), [Failed, Running]);
}

#[test]
fn a_release_checkpoints_whatever_it_can() {
    let mut fake = Fake::new(&[7, 8]);
    release(&mut fake, &plan(Aim::Release, vec![])).unwrap();
    assert_eq!(fake.states(), [Checkpointed, Checkpointed]);
    let mut fake = Fake::new(&[7, 8]);
    fake.processes.get_mut(&8).unwrap().0 = Locked;
    fake.errors.insert(("checkpoint", 7), 999);
    release(&mut fake, &plan(Aim::Release, vec![])).unwrap_err();
    assert_eq!(fake.states(), [Locked, Checkpointed]);
}

/// A plan to resume on another device.
fn moved(held: Vec<ResidentProcess>, to: &str) -> Plan {
    let moves = [(GPU.to_owned(), to.to_owned())].into();
    Plan { devices: vec![to.to_owned()], moves, ..plan(Aim::Resume, held) }
}

fn not_moved(fake: &mut Fake, plan: &Plan) -> (String, Vec<ResidentProcess>) {
    match resume(fake, plan) {
        Err(NotResumed::NotMoved { why, held }) => (why, held),
        other => panic!("{other:?}"),
    }
}

/// Whether a task is paused, with its processes stopped.
fn is_paused(fake: &Fake) -> bool {
    let states = fake.states();
    states.iter().all(|it| *it == Checkpointed)
        && fake.is_frozen
        && !fake.is_gate_open
        && fake.is_empty
}

#[test]
fn a_restore_on_another_device_names_all_gpus_of_the_machine() {
    let mut fake = Fake::new(&[7, 8]);
    let held = paused(&mut fake);
    resume(&mut fake, &moved(held, OTHER)).unwrap();
    assert!(is_as_before(&fake));
    let pairs = [(GPU, OTHER), (OTHER, GPU), (THIRD, THIRD), (OLDER, OLDER)];
    assert_eq!(fake.pairs, pairs.map(|(old, new)| (old.to_owned(), new.to_owned())));
    assert_eq!(
        (fake.at[&7].as_str(), fake.at[&8].as_str(), fake.moves),
        (OTHER, OTHER, Some(true))
    );
    assert_eq!(fake.noted, [OTHER]);
    // The next pause finds it there.
    let held = paused(&mut fake);
    assert!(held.iter().all(|it| it.on.contains_key(OTHER)), "{held:?}");
}

#[test]
fn a_driver_that_restores_on_the_old_device_is_undone() {
    for stays in [&[7, 8][..], &[8]] {
        let mut fake = Fake::new(&[7, 8]);
        let held = paused(&mut fake);
        fake.stays = stays.iter().copied().collect();
        let (why, held) = not_moved(&mut fake, &moved(held, OTHER));
        assert!(why.contains("restored its memory on the old GPU"), "{why}");
        assert!(is_paused(&fake) && !fake.calls.iter().any(|call| call.contains("unlock")));
        assert_eq!(fake.moves, Some(false));
        // It is not tried again.
        let (why, held) = not_moved(&mut fake, &moved(held, OTHER));
        assert!(why.contains("when it was tried before"), "{why}");
        // On its own device it resumes, also a process that had moved.
        (fake.stays, fake.moves) = ([].into(), None);
        resume(&mut fake, &plan(Aim::Resume, held)).unwrap();
        assert!(is_as_before(&fake));
        assert!(fake.at.values().all(|at| at == GPU), "{:?}", fake.at);
    }
}

#[test]
fn memory_is_not_moved_if_that_could_lose_it() {
    type Change = fn(&mut Fake);
    let refused: [(Change, &str, &str); 5] = [
        (|fake| fake.driver = "575.57.08".to_owned(), OTHER, "580 or later"),
        (|fake| fake.can_note = false, OTHER, "of an earlier version of gpool"),
        (|_| {}, OLDER, "is another model"),
        (|fake| fake.moves = Some(false), OTHER, "when it was tried before"),
        (|fake| fake.free = GIB, OTHER, "needs room on the old GPU too"),
    ];
    for (change, to, word) in refused {
        let mut fake = Fake::new(&[7]);
        let held = paused(&mut fake);
        change(&mut fake);
        let (why, _) = not_moved(&mut fake, &moved(held, to));
        assert!(why.contains(word), "{why}");
        assert_eq!(fake.noted, [GPU], "as before, also if a killed keeper noted another");
        assert!(is_paused(&fake) && !fake.calls.contains(&"restore 7".to_owned()));
    }
    // A driver that was seen to move memory needs no room on the old device.
    let mut fake = Fake::new(&[7]);
    let held = paused(&mut fake);
    (fake.free, fake.moves) = (0, Some(true));
    resume(&mut fake, &moved(held, OTHER)).unwrap();
    assert!(is_as_before(&fake));
}

#[test]
fn a_move_that_the_driver_refuses_is_undone_unless_the_memory_is_lost() {
    let mut fake = Fake::new(&[7, 8]);
    let held = paused(&mut fake);
    fake.errors.insert(("restore", 8), 1);
    let (why, held) = not_moved(&mut fake, &moved(held, OTHER));
    assert!(why.contains("CUDA_ERROR_INVALID_VALUE") && is_paused(&fake), "{why}");
    assert_eq!(fake.noted, [GPU]);
    fake.errors.clear();
    resume(&mut fake, &plan(Aim::Resume, held)).unwrap();
    assert!(is_as_before(&fake) && fake.at[&7] == GPU);
    let held = paused(&mut fake);
    fake.errors.insert(("restore", 7), 2);
    let lost = resume(&mut fake, &moved(held, OTHER));
    assert!(matches!(lost, Err(NotResumed::Lost(_))), "{lost:?}");
}
