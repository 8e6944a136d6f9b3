//! Xids that devices report while jobs have them.

use std::collections::BTreeMap;

use gpool_model::agent::{Report, TaskIs};
use gpool_model::device::Guest;
use gpool_model::mig::Profile;
use gpool_model::xid::JobXid;
use gpool_model::*;

use crate::harness::*;

/// Reports devices that have reported these Xids in total, by index of the device and number.
fn xids(harness: &mut Harness, total: &[(u32, u64, u64)]) {
    report(harness, |devices| count(devices, total));
}

fn count(devices: &mut [Device], total: &[(u32, u64, u64)]) {
    for (index, xid, count) in total {
        let device = devices.iter_mut().find(|it| it.index == *index).expect("it is there");
        device.xids.insert(*xid, *count);
    }
}

fn report(harness: &mut Harness, change: impl FnOnce(&mut Vec<Device>)) {
    let mut report = inventory(3);
    if let Report::Inventory { devices, .. } = &mut report {
        change(devices);
    }
    harness.report(report);
}

/// The Xids of a job: index of the device, number and count.
fn of(harness: &Harness, id: JobId) -> Vec<(u32, u64, u64)> {
    let triple = |it: &JobXid| (it.device, it.xid, it.count);
    let live = harness.control.world().job(id).map(|row| &row.job);
    let ended = harness.ended.iter().find(|ended| ended.id() == id).map(|ended| &ended.job);
    let job = live.or(ended).expect("it is live or has ended");
    job.course.xids.iter().map(triple).collect()
}

fn start(harness: &mut Harness, gpus: &str) -> JobId {
    let id = harness.add(job(gpus));
    harness.started(id);
    id
}

#[test]
fn xids_count_for_the_job_that_has_the_device_since_the_last_report() {
    let mut harness = Harness::new(3);
    xids(&mut harness, &[(0, 31, 4)]);
    let [one, other] = ["1", "1"].map(|gpus| start(&mut harness, gpus));
    xids(&mut harness, &[(0, 31, 4), (2, 79, 1)]);
    assert_eq!(of(&harness, one), [], "it was reported before the start, or for a free device");
    xids(&mut harness, &[(0, 31, 6), (0, 45, 1), (1, 79, 1), (2, 79, 1)]);
    assert_eq!(of(&harness, one), [(0, 31, 2), (0, 45, 1)]);
    assert_eq!(of(&harness, other), [(1, 79, 1)]);
    // A restarted agent counts from 0.
    xids(&mut harness, &[]);
    xids(&mut harness, &[(0, 31, 3)]);
    assert_eq!(of(&harness, one), [(0, 31, 5), (0, 45, 1)]);
    harness.exited(one, 1);
    assert_eq!(of(&harness, one), [(0, 31, 5), (0, 45, 1)], "they stay after the end");
}

#[test]
fn all_jobs_on_a_shared_device_are_concerned_but_no_paused_one() {
    let mut harness = Harness::new(3);
    let [one, other, paused] = ["0.25", "0.25", "1"].map(|gpus| start(&mut harness, gpus));
    harness.command(&root(), Command::on(vec![paused], JobVerb::Pause)).expect("root may");
    harness.say(paused, TaskIs::Paused { pid: 4242, started_at: harness.now });
    xids(&mut harness, &[(0, 13, 1), (1, 13, 1)]);
    assert_eq!([one, other].map(|id| of(&harness, id)), [[(0, 13, 1)], [(0, 13, 1)]]);
    assert_eq!(of(&harness, paused), []);
}

#[test]
fn a_moved_share_has_the_errors_of_the_device_that_it_is_on() {
    let mut harness = Harness::new(3);
    let [stays, moved] = ["0.25", "0.25"].map(|gpus| start(&mut harness, gpus));
    let guest = Guest { task: harness.task_of(moved), booked: device(0).uuid, is_stuck: false };
    report(&mut harness, |devices| {
        devices[2].guests = vec![guest];
        count(devices, &[(0, 31, 1), (2, 94, 1)]);
    });
    assert_eq!(of(&harness, stays), [(0, 31, 1)]);
    assert_eq!(of(&harness, moved), [(2, 94, 1)]);
}

#[test]
fn an_instance_has_the_errors_of_its_device() {
    let mut harness = Harness::new(1);
    let profile = Profile::of(3, Bytes::from_gib(40));
    let divide = |devices: &mut Vec<Device>| {
        devices.truncate(1);
        let uuid = |place| DeviceUuid::new(format!("MIG-{place}"));
        let instances = devices[0].divide(&[profile, profile], uuid);
        devices.extend(instances);
    };
    report(&mut harness, divide);
    let id = start(&mut harness, "3g.40gb");
    report(&mut harness, |devices| {
        divide(devices);
        count(devices, &[(0, 79, 1)]);
    });
    assert_eq!(of(&harness, id), [(0, 79, 1)]);
}

#[test]
fn the_kinds_of_errors_of_a_job_are_limited() {
    let mut harness = Harness::new(1);
    let id = start(&mut harness, "1");
    let many: BTreeMap<u64, u64> = (1..=40).map(|xid| (xid, 1)).collect();
    report(&mut harness, |devices| devices[0].xids = many);
    assert_eq!(of(&harness, id).len(), 32);
}
