//! Resumes on other devices, through the state machine.

use gpool_model::agent::{Order, Report, TaskIs};
use gpool_model::job::JobState;
use gpool_model::node::Remap;
use gpool_model::*;

use crate::harness::*;

/// Reports a node with this number of devices, where paused tasks can resume on others or not.
fn report(harness: &mut Harness, n_devices: u32, remap: Remap) {
    let mut report = inventory(n_devices);
    if let Report::Inventory { facts, .. } = &mut report {
        facts.remap = remap;
    }
    harness.report(report);
}

fn no() -> Remap {
    Remap::No { why: "the driver is too old".into() }
}

fn paused() -> TaskIs {
    TaskIs::Paused { pid: 4242, started_at: Timestamp::new(1_000_000) }
}

/// A job that was paused on its devices, which are the first, and another one that has the first
/// of them since.
fn displaced(n_devices: u32, gpus: &str, remap: Remap) -> (Harness, JobId, JobId) {
    let policy = Policy::from_preset("priority").expect("there is one");
    let mut harness = Harness::with_policy(n_devices, policy);
    report(&mut harness, n_devices, remap);
    let id = paused_job(&mut harness, job(gpus));
    let other = harness.add(job("1"));
    harness.started(other);
    harness.take_orders();
    assert_eq!(devices(&harness, other), [0]);
    (harness, id, other)
}

fn paused_job(harness: &mut Harness, job: NewJob) -> JobId {
    let id = harness.add(job);
    harness.started(id);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Pause)).expect("it is hers");
    harness.say(id, paused());
    id
}

fn resume(harness: &mut Harness, id: JobId) -> Vec<Order> {
    harness.command(&ana(), Command::on(vec![id], JobVerb::Resume)).expect("it is hers");
    harness.take_orders()
}

/// The indexes of a job's devices.
fn devices(harness: &Harness, id: JobId) -> Vec<u32> {
    let job = &harness.control.world().job(id).expect("it is there").job;
    let slots = job.phase.allocations().iter().flat_map(|it| &it.slots);
    slots.map(|slot| slot.index).collect()
}

#[test]
fn free_devices_take_the_place_of_those_that_are_taken() {
    let (mut harness, id, _) = displaced(2, "1", Remap::Yes);
    let orders = resume(&mut harness, id);
    let [.., Order::Resume { devices: told, .. }] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(told.len(), 1);
    assert_eq!((devices(&harness, id), harness.state(id)), (vec![1], JobState::Running));
    // A job with two devices keeps the one that is free.
    let (mut harness, id, _) = displaced(3, "2", Remap::Yes);
    resume(&mut harness, id);
    assert_eq!((devices(&harness, id), harness.state(id)), (vec![1, 2], JobState::Running));
    assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
}

#[test]
fn a_job_waits_for_its_own_devices_if_no_others_are_free_or_the_driver_moves_nothing() {
    for (n_devices, gpus, remap) in [(2, "1", no()), (2, "2", Remap::Yes), (1, "1", Remap::Yes)] {
        let (mut harness, id, other) = displaced(n_devices, gpus, remap);
        assert_eq!(resume(&mut harness, id), []);
        assert_eq!(harness.state(id), JobState::Paused);
        harness.exited(other, 0);
        assert_eq!((devices(&harness, id)[0], harness.state(id)), (0, JobState::Running));
        assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
    }
}

#[test]
fn a_job_that_did_not_move_is_paused_and_waits_for_its_own_devices() {
    let (mut harness, id, other) = displaced(2, "1", Remap::Yes);
    let own = harness.control.world().nodes()[0].node.devices[0].uuid.clone();
    resume(&mut harness, id);
    let started_at = Timestamp::new(1_000_000);
    let not_moved = |why: &str| {
        let (why, devices) = (why.to_owned(), vec![own.clone()]);
        TaskIs::NotMoved { pid: 4242, started_at, why, devices }
    };
    harness.say(id, not_moved("it stayed"));
    assert_eq!((devices(&harness, id), harness.state(id)), (vec![0], JobState::Paused));
    // The order to pause it, and the same report again, change nothing.
    harness.take_orders();
    harness.say(id, not_moved("it stayed"));
    assert_eq!((devices(&harness, id), harness.state(id)), (vec![0], JobState::Paused));
    let free = harness.add(job("1"));
    assert_eq!(devices(&harness, free), [1]);
    harness.exited(other, 0);
    assert_eq!((devices(&harness, id), harness.state(id)), (vec![0], JobState::Running));
    assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
}

/// The job does not know the kind of a device that is gone, unless its pause has noted it.
#[test]
fn a_device_that_is_no_longer_listed_is_replaced_by_one_of_its_kind() {
    for (remap, ends) in [(Remap::Yes, vec![1]), (no(), vec![0])] {
        let (mut harness, id, other) = displaced(2, "1", remap.clone());
        harness.exited(other, 0);
        let mut rest = inventory(2);
        if let Report::Inventory { facts, devices, .. } = &mut rest {
            facts.remap = remap;
            devices.remove(0);
        }
        harness.report(rest);
        resume(&mut harness, id);
        assert_eq!(devices(&harness, id), ends);
        let is_paused = harness.state(id) == JobState::Paused;
        assert_eq!(is_paused, ends == [0]);
        assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
    }
}

#[test]
fn a_share_resumes_beside_others_where_its_request_fits() {
    for gpus in ["0.5", "1@40G"] {
        let (mut harness, id, _) = displaced(2, gpus, Remap::Yes);
        let beside = harness.add(job("0.75"));
        harness.started(beside);
        assert_eq!(devices(&harness, beside), [1]);
        harness.take_orders();
        assert_eq!(resume(&mut harness, id), [], "there is too little memory");
        assert_eq!((devices(&harness, id), harness.state(id)), (vec![0], JobState::Paused));
        harness.exited(beside, 0);
        assert_eq!((devices(&harness, id), harness.state(id)), (vec![1], JobState::Running));
        let half = harness.add(job("0.5"));
        assert_eq!(devices(&harness, half), [1], "the rest of that device");
        assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
    }
}

#[test]
fn a_share_prefers_a_shared_device_with_room_for_all_that_it_may_use() {
    let (mut harness, id, _) = displaced(4, "0.25:0.5", Remap::Yes);
    // One has room for the request only, one for the limit, and one is free as a whole.
    let shares = ["0.75", "0.5"].map(|gpus| harness.add(job(gpus)));
    assert_eq!(shares.map(|it| devices(&harness, it)), [[1], [2]]);
    resume(&mut harness, id);
    assert_eq!((devices(&harness, id), harness.state(id)), (vec![2], JobState::Running));
    assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
}

#[test]
fn a_share_that_is_not_to_be_beside_others_resumes_apart_from_them() {
    for (n_devices, place, state) in [(3, 2, JobState::Running), (2, 0, JobState::Paused)] {
        let policy = Policy::from_preset("priority").expect("there is one");
        let mut harness = Harness::with_policy(n_devices, policy);
        report(&mut harness, n_devices, Remap::Yes);
        let alone = job("0.25").with(|it| it.share_with = Some(ShareWith::User));
        let id = paused_job(&mut harness, alone);
        let _ = harness.add(job("1"));
        harness.submit(&bo(), vec![job("0.25")]).expect("there is room");
        resume(&mut harness, id);
        assert_eq!((devices(&harness, id), harness.state(id)), (vec![place], state));
        assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
    }
}

#[test]
fn a_share_that_must_be_capped_resumes_where_it_is() {
    use enforcement::{Enforced, Enforcement};
    let capped = |capped: &[usize]| {
        let mut report = inventory(3);
        if let Report::Inventory { devices, facts, .. } = &mut report {
            facts.remap = Remap::Yes;
            for ix in capped {
                let share = Enforcement::Capped;
                devices[*ix].enforced = Enforced { share, ..Enforced::default() };
            }
        }
        report
    };
    let policy = Policy::from_preset("priority").expect("there is one");
    let mut harness = Harness::with_policy(3, policy);
    harness.report(capped(&[0]));
    let bound = job("0.5").with(|it| it.gpus.enforce = Enforcement::Capped);
    let id = paused_job(&mut harness, bound);
    let _ = harness.add(job("1"));
    resume(&mut harness, id);
    assert_eq!((devices(&harness, id), harness.state(id)), (vec![0], JobState::Paused));
    harness.report(capped(&[0, 2]));
    assert_eq!((devices(&harness, id), harness.state(id)), (vec![2], JobState::Running));
    assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
}
