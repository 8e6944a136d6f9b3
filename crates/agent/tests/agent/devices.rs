//! Devices: reported first, and checked again just before a launch.

use gpool_device::{SimControl, SimProcess};
use gpool_model::agent::Report;
use gpool_model::device::{Device, DeviceHealth};

use crate::harness::{Node, code, shell};

fn inventory(node: &mut Node, look: impl Fn(&[Device]) -> bool) -> Vec<Device> {
    node.wait_for("inventory", |report| match report {
        Report::Inventory { devices, .. } if look(devices) => Some(devices.clone()),
        _ => None,
    })
}

#[test]
fn a_job_sees_its_devices_by_their_uuids() {
    let mut node = Node::with(&["sim:4xH100-80G"]);
    let devices = inventory(&mut node, |devices| devices.len() == 4);
    let job = shell(1, "echo $CUDA_VISIBLE_DEVICES $GPOOL_GPUS $GPOOL_GPU_MEM");
    let task = node.run_on(&job, &[&devices[1], &devices[3]]);
    assert_eq!(node.wait_for_end(task).exit, code(0));
    let (one, other) = (&devices[1], &devices[3]);
    let expected = format!("{},{} 2 {}\n", one.uuid, other.uuid, one.memory.get());
    assert_eq!(node.stdout(task), expected);
}

#[test]
fn a_device_in_use_by_others_is_reported_and_refused() {
    let mut node = Node::with(&["sim:2xH100-80G", "unmanaged_grace=0"]);
    let devices = inventory(&mut node, |devices| devices.len() == 2);
    let control = SimControl::new(&node.path("control"), 0..2);
    control.add_process(0, SimProcess { pid: 4_000_000, ..SimProcess::default() }).unwrap();
    let task = node.run_on(&shell(1, "exit 0"), &[&devices[0], &devices[1]]);
    assert_eq!(node.wait_for_refusal(task), 1, "one of two");
    assert!(!node.layout().claim(task).exists(), "nothing was launched");
    let seen = inventory(&mut node, |devices| !devices[0].unmanaged.is_empty());
    assert_eq!(seen[0].unmanaged[0].pid, 4_000_000);
    node.reports.clear();
    control.remove_process(0, 4_000_000).unwrap();
    inventory(&mut node, |devices| devices.iter().all(|device| device.unmanaged.is_empty()));
}

#[test]
fn a_process_of_the_job_itself_is_not_unmanaged() {
    let mut node = Node::with(&["sim:1xH100-80G", "unmanaged_grace=0"]);
    let devices = inventory(&mut node, |devices| devices.len() == 1);
    let task = node.run_on(&shell(1, "sleep 600; true"), &[&devices[0]]);
    let pid = node.wait_for_start(task);
    let control = SimControl::new(&node.path("control"), 0..1);
    control.add_process(0, SimProcess { pid, ..SimProcess::default() }).unwrap();
    control.add_process(0, SimProcess { pid: 4_000_000, ..SimProcess::default() }).unwrap();
    let seen = inventory(&mut node, |devices| !devices[0].unmanaged.is_empty());
    let pids: Vec<_> = seen[0].unmanaged.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [4_000_000]);
}

#[test]
fn a_broken_device_is_reported_and_not_used() {
    let mut node = Node::with(&["sim:1xH100-80G"]);
    let devices = inventory(&mut node, |devices| devices.len() == 1);
    let control = SimControl::new(&node.path("control"), 0..1);
    control.hang(0, gpool_device::Query::Health).unwrap();
    let task = node.run_on(&shell(1, "exit 0"), &[&devices[0]]);
    assert_eq!(node.wait_for_refusal(task), 1);
    let sick = |devices: &[Device]| matches!(devices[0].health, DeviceHealth::Unknown { .. });
    inventory(&mut node, sick);
    let other = node.run(&shell(2, "exit 3"));
    assert_eq!(node.wait_for_end(other).exit, code(3), "others go on");
    node.reports.clear();
    control.unhang(0).unwrap();
    inventory(&mut node, |devices| devices[0].health == DeviceHealth::Healthy);
}

#[test]
fn a_process_on_a_device_that_its_job_was_not_given_is_a_stray() {
    let mut node = Node::with(&["sim:2xH100-80G"]);
    let devices = inventory(&mut node, |devices| devices.len() == 2);
    let task = node.run_on(&shell(1, "exec sleep 600"), &[&devices[0]]);
    let pid = node.wait_for_start(task);
    let control = SimControl::new(&node.path("control"), 0..2);
    control.add_process(1, SimProcess { pid, ..SimProcess::default() }).unwrap();
    // The device is checked just before a launch, so the test need not wait for the next poll.
    let second = node.run_on(&shell(2, "exit 0"), &[&devices[1]]);
    assert_eq!(node.wait_for_end(second).exit, code(0));
    let seen = inventory(&mut node, |devices| !devices[1].strays.is_empty());
    assert_eq!(seen[1].strays[0].pid, pid);
    assert!(seen[1].unmanaged.is_empty(), "it belongs to a job");
    assert!(seen[0].strays.is_empty());
}
