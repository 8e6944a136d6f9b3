//! The placement and the charge of tasks (scheduling.md A1, A7, A8): a test for each rule
//! that the public scenarios hardly cover.

use gpool_kai::{
    DeviceMode, GpuAsk, Instances, MigAsk, Quota, SharedAfter, Stage, Strategy, TaskState,
};

use crate::small::{GB, Small, became, free, guaranteed, share, sit};

const ALLOCATE: &[Stage] = &[Stage::Allocate];

#[test]
fn a_task_without_devices_goes_where_there_are_none() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.node("n1", 0);
    it.leaf("a", free());
    it.job("j", "a", 0, 1);
    became(&it.after(ALLOCATE), &[("j-0", "Bound n1")]);
    it.settings.prefer_cpu_only = false;
    became(&it.after(ALLOCATE), &[("j-0", "Bound n0")]);
}

#[test]
fn the_fullest_node_that_is_free_now_is_best() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.node("n1", 4);
    it.node("n2", 4);
    it.leaf("a", free());
    it.runs("r", "a", 1, &["n1", "n2"]);
    // The only other job of n2 is ending: n2 will have the most free devices, but has none now.
    it.runs("leaving", "a", 3, &["n2"]).tasks[0].state = TaskState::Releasing;
    it.job("j", "a", 1, 1);
    became(&it.after(ALLOCATE), &[("j-0", "Bound n1")]);
    it.settings.gpu_nodes = Strategy::Spread;
    became(&it.after(ALLOCATE), &[("j-0", "Bound n0")]);
    it.input.jobs[2].tasks[0].nominated = Some("n2".to_owned());
    became(&it.after(ALLOCATE), &[("j-0", "Pipelined n2")]);
}

#[test]
fn a_gang_of_which_one_waits_waits_as_a_whole() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.leaf("a", free());
    it.runs("leaving", "a", 1, &["n0"]).tasks[0].state = TaskState::Releasing;
    it.job("j", "a", 1, 2);
    became(&it.after(ALLOCATE), &[("j-0", "Pipelined n0"), ("j-1", "Pipelined n0")]);
    it.input.jobs[1].gang.sets[0].min = 1;
    became(&it.after(ALLOCATE), &[("j-0", "Bound n0"), ("j-1", "Pipelined n0")]);
}

/// Two devices with fractions of 0.3 and 0.6 in use, and a free one.
fn shared() -> Small {
    let mut it = Small::new();
    it.node("n0", 3);
    it.leaf("a", free());
    for (name, part) in [("r3", 300), ("r6", 600)] {
        let job = it.job(name, "a", 0, 1);
        share(job, part);
        sit(&mut job.tasks[0], "n0", &[name]);
    }
    it
}

/// The device of the last job's task.
fn device(it: &Small) -> Vec<SharedAfter> {
    let outcome = it.run(ALLOCATE);
    let placement = outcome.tasks.last().unwrap()[0].placement.clone();
    placement.expect("it has a place").shared
}

#[test]
fn fractions_go_to_the_fullest_device_that_fits() {
    let named = |name: &str| vec![SharedAfter::Named(name.to_owned())];
    let mut it = shared();
    share(it.job("j", "a", 0, 1), 400);
    assert_eq!(device(&it), named("r6"));
    share(it.input.jobs.last_mut().unwrap(), 500);
    assert_eq!(device(&it), named("r3"));
    share(it.input.jobs.last_mut().unwrap(), 800);
    assert!(matches!(device(&it)[..], [SharedAfter::Fresh(_)]));
    it.settings.devices = Strategy::Spread;
    share(it.input.jobs.last_mut().unwrap(), 400);
    assert!(matches!(device(&it)[..], [SharedAfter::Fresh(_)]));
    it.input.nodes[0].devices[0].count = 2;
    assert_eq!(device(&it), named("r3"), "the emptiest of those in use");
}

#[test]
fn a_share_of_several_devices_needs_as_many() {
    let mut it = shared();
    let job = it.job("j", "a", 0, 1);
    job.tasks[0].request.gpu = GpuAsk::Share { milli: 400, devices: 3 };
    assert_eq!(device(&it).len(), 3);
    assert_eq!(it.run(ALLOCATE).tasks.last().unwrap()[0].charged.gpu, 1200);
    it.input.jobs.last_mut().unwrap().tasks[0].request.gpu =
        GpuAsk::Share { milli: 500, devices: 3 };
    became(&it.after(ALLOCATE), &[("j-0", "Pending")]);
}

#[test]
fn a_device_is_whole_again_when_all_have_left() {
    let mut it = Small::new();
    it.node("n0", 1);
    it.leaf("a", free());
    for name in ["x", "y"] {
        let job = it.job(name, "a", 0, 1);
        share(job, 500);
        sit(&mut job.tasks[0], "n0", &["d"]);
    }
    it.job("j", "a", 1, 1);
    it.input.jobs[0].tasks[0].state = TaskState::Releasing;
    became(&it.after(ALLOCATE), &[("j-0", "Pending")]);
    it.input.jobs[1].tasks[0].state = TaskState::Releasing;
    became(&it.after(ALLOCATE), &[("j-0", "Pipelined n0")]);
}

/// Adds a job that requests device memory.
fn memory(it: &mut Small, bytes: i64) {
    it.job("j", "a", 0, 1).tasks[0].request.gpu = GpuAsk::Memory { bytes, devices: 1 };
}

#[test]
fn memory_is_charged_in_hundredths_of_the_device_rounded_up() {
    let mut it = Small::new();
    // 80 GB and a remainder, which does not count.
    it.node("n0", 1).devices[0].memory = Some(80 * GB + 99_000_000);
    it.leaf("a", free());
    memory(&mut it, 20 * GB + 1);
    assert_eq!(it.run(ALLOCATE).tasks[0][0].charged.gpu, 260);
    it.input.jobs[0].tasks[0].request.gpu = GpuAsk::Memory { bytes: 80 * GB, devices: 1 };
    assert_eq!(it.run(ALLOCATE).tasks[0][0].charged.gpu, 1000);
    it.input.jobs[0].tasks[0].request.gpu = GpuAsk::Memory { bytes: 80 * GB + 1, devices: 1 };
    became(&it.after(ALLOCATE), &[("j-0", "Pending")]);
}

#[test]
fn memory_that_waits_is_charged_by_the_smallest_device() {
    let mut it = Small::new();
    it.node("n0", 1);
    it.node("n1", 1).devices[0].memory = Some(40 * GB);
    // Half of the large device, but all of the small one.
    it.leaf("a", Quota { limit: Some(500), ..free() });
    memory(&mut it, 40 * GB);
    became(&it.after(ALLOCATE), &[("j-0", "Pending")]);
    it.input.projects[1].gpu.limit = Some(1000);
    became(&it.after(ALLOCATE), &[("j-0", "Bound n0")]);
}

#[test]
fn memory_is_refused_on_devices_of_unknown_size() {
    let mut it = Small::new();
    it.node("n0", 1).devices[0].memory = None;
    it.leaf("a", free());
    memory(&mut it, GB);
    became(&it.after(ALLOCATE), &[("j-0", "Pending")]);
    share(&mut it.input.jobs[0], 500);
    became(&it.after(ALLOCATE), &[("j-0", "Bound n0")]);
}

/// A node with a device that is divided into two instances of three slices.
fn cut() -> Small {
    let mut it = Small::new();
    let instances = vec![Instances { profile: "3g.40gb".to_owned(), count: 2, charge: 3000 }];
    it.node("n0", 1).devices[0].mode = DeviceMode::Mixed(instances);
    it.leaf("a", guaranteed(6000, 0));
    let asked = MigAsk { profile: "3g.40gb".to_owned(), count: 1, charge: 3000 };
    it.job("j", "a", 0, 1).tasks[0].request.gpu = GpuAsk::Mig(vec![asked]);
    it
}

#[test]
fn an_instance_is_charged_by_its_slices() {
    let mut it = cut();
    let outcome = it.run(ALLOCATE);
    assert_eq!(outcome.tasks[0][0].charged.gpu, 3000);
    assert_eq!(outcome.projects[1].fair.gpu, 3000, "what it asks for, of six");
    it.input.projects[1].gpu.limit = Some(2000);
    became(&it.after(ALLOCATE), &[("j-0", "Pending")]);
}

#[test]
fn nothing_unbooked_is_on_a_node_where_instances_are_given_out() {
    let mut it = cut();
    let job = it.job("old", "a", 0, 1);
    job.tasks[0].request.gpu = GpuAsk::Unbooked;
    became(&it.after(ALLOCATE), &[("j-0", "Bound n0"), ("old-0", "Pending")]);
    sit(&mut it.input.jobs[1].tasks[0], "n0", &[]);
    became(&it.after(ALLOCATE), &[("j-0", "Pending")]);
}

#[test]
fn devices_of_one_instance_are_given_out_whole_only() {
    let mut it = Small::new();
    it.node("n0", 2).devices[0].mode = DeviceMode::Single;
    it.leaf("a", free());
    it.job("whole", "a", 1, 1);
    share(it.job("part", "a", 0, 1), 500);
    became(&it.after(ALLOCATE), &[("whole-0", "Bound n0"), ("part-0", "Pending")]);
}

#[test]
fn devices_of_two_kinds_on_one_node_share_its_cores() {
    let mut it = Small::new();
    let node = it.node("n0", 1);
    let mut other = node.devices[0].clone();
    other.kind = "a100".to_owned();
    node.devices.push(other);
    node.cpu = 1500;
    it.leaf("a", free());
    it.job("x", "a", 1, 1);
    it.job("y", "a", 1, 1);
    became(&it.after(ALLOCATE), &[("x-0", "Bound n0"), ("y-0", "Pending")]);
    it.input.nodes[0].cpu = 2000;
    became(&it.after(ALLOCATE), &[("x-0", "Bound n0"), ("y-0", "Bound n0")]);
    it.job("z", "a", 2, 1);
    it.input.jobs.drain(..2);
    became(&it.after(ALLOCATE), &[("z-0", "Pending")]);
}

#[test]
fn a_site_keeps_a_task_where_it_may_go() {
    let mut it = Small::new();
    it.node("n0", 1);
    it.node("n1", 1).devices[0].kind = "a100".to_owned();
    it.leaf("a", free());
    it.job("j", "a", 1, 1).tasks[0].site = Some(0);
    let site = |nodes: Option<&str>, kinds: Option<&str>| gpool_kai::Site {
        nodes: nodes.map(|it| vec![it.to_owned()]),
        kinds: kinds.map(|it| vec![it.to_owned()]),
    };
    it.input.sites = vec![site(None, Some("a100"))];
    became(&it.after(ALLOCATE), &[("j-0", "Bound n1")]);
    it.input.sites = vec![site(Some("n1"), None)];
    became(&it.after(ALLOCATE), &[("j-0", "Bound n1")]);
    it.input.sites = vec![site(Some("n0"), Some("a100"))];
    became(&it.after(ALLOCATE), &[("j-0", "Pending")]);
}
