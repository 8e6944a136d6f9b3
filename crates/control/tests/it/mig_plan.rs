//! Plans of MIG instances: random jobs come and go on devices that a simple driver divides.

use std::collections::BTreeSet;

use gpool_model::agent::Report;
use gpool_model::device::{Device, Mig};
use gpool_model::mig_layout::{MigChange, MigInstance, MigPlacement, MigSize};
use gpool_model::*;
use gpool_sched::Explainer;
use gpool_sched::mig_plan::{MigStep, lacks_instances, plan, waiting};
use gpool_world::Snapshot;

use crate::harness::{Harness, NODE, device, inventory, job, root};

/// Name, GiB, compute slices, memory slices, most, and first slices.
type Profile = (&'static str, u32, u32, u32, u32, &'static [u32]);

/// The profiles of an H100: name, GiB, compute slices, memory slices, most, and first slices.
///
/// Source: NVIDIA Multi-Instance GPU user guide, "Supported MIG profiles".
const PROFILES: [Profile; 7] = [
    ("1g.10gb", 10, 1, 1, 7, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.10gb+me", 10, 1, 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.20gb", 20, 1, 2, 4, &[0, 2, 4, 6]),
    ("2g.20gb", 20, 2, 2, 3, &[0, 2, 4]),
    ("3g.40gb", 40, 3, 4, 2, &[0, 4]),
    ("4g.40gb", 40, 4, 4, 1, &[0]),
    ("7g.80gb", 80, 7, 8, 1, &[0]),
];

/// A machine whose driver divides the devices.
pub struct Machine {
    pub harness: Harness,
    /// By device, the profile, place and UUID of each instance.
    parts: Vec<Vec<(usize, u32, DeviceUuid)>>,
    pub n_made: u32,
    n_destroyed: u32,
}

impl Machine {
    pub fn new(n_devices: usize) -> Self {
        let policy = Policy { mig_auto: true, ..Policy::fifo() };
        let harness = Harness::with_policy(0, policy);
        let mut machine =
            Self { harness, parts: vec![Vec::new(); n_devices], n_made: 0, n_destroyed: 0 };
        machine.report();
        machine
    }

    pub fn report(&mut self) {
        let Report::Inventory { stamp, capacity, boot_id, facts, .. } = inventory(0) else {
            unreachable!("an inventory")
        };
        let devices = self.devices();
        self.harness.report(Report::Inventory { stamp, capacity, devices, boot_id, facts });
    }

    /// The devices, then their instances.
    fn devices(&self) -> Vec<Device> {
        let (mut whole, mut instances) = (Vec::new(), Vec::new());
        for (index, parts) in (0..).zip(&self.parts) {
            let sizes: Vec<MigSize> = (0..PROFILES.len()).map(|ix| size(ix, parts)).collect();
            let mig = Some(Mig { enabled: true, sizes: sizes.clone() });
            let parent = Device { mig, ..device(index) };
            instances.extend((0..).zip(parts).map(|(place, (profile, _, uuid))| Device {
                index: gpool_model::device::Instance::index(index, place),
                ..parent.possible_instance(&sizes[*profile], uuid.clone())
            }));
            whole.push(parent);
        }
        whole.into_iter().chain(instances).collect()
    }

    fn plan(&self) -> Vec<MigStep> {
        let world = self.harness.control.world();
        let explainer = Explainer::new(Snapshot { world, now: self.harness.now }, world.policy());
        let lacks = |row| explainer.briefly(row).first().is_some_and(lacks_instances);
        let mut jobs = waiting(world);
        jobs.retain(|job| world.job(*job).is_some_and(lacks));
        let made = || plan(world, &jobs, &|pool| world.makes_instances(pool), &BTreeSet::new());
        assert_eq!(made(), made());
        made()
    }

    /// Makes the planned changes, as server and agent would; returns their number.
    fn round(&mut self) -> usize {
        let mut n_steps = 0;
        loop {
            let mut steps = self.plan().into_iter();
            let Some(mut step) = steps.next() else { return n_steps };
            loop {
                n_steps += 1;
                assert!(n_steps < 1000, "it has no end");
                match &step.change {
                    MigChange::Destroy { instance } => self.destroy(instance),
                    MigChange::Create { device, profile } => {
                        self.create(device, profile).expect("the plan knows the room");
                    }
                }
                self.report();
                match (&step.change, steps.next()) {
                    (MigChange::Destroy { .. }, Some(next)) => step = next,
                    _ => break,
                }
            }
        }
    }

    pub fn destroy(&mut self, instance: &DeviceUuid) {
        let row = &self.harness.control.world().nodes()[0];
        let ix = row.node.devices.iter().position(|it| it.uuid == *instance);
        let ix = ix.expect("the plan knows the instances");
        assert!(row.is_whole(ix), "{instance} is in use");
        self.parts.iter_mut().for_each(|parts| parts.retain(|(.., uuid)| uuid != instance));
        self.n_destroyed += 1;
    }

    /// Creates an instance, if the device has room for it.
    pub fn create(&mut self, device: &DeviceUuid, profile: &str) -> Option<DeviceUuid> {
        let mut uuids = (0..).map(|index| crate::harness::device(index).uuid);
        let at = uuids.position(|uuid| uuid == *device).expect("the plan knows the devices");
        let ix = PROFILES.iter().position(|it| it.0 == profile);
        let ix = ix.expect("the plan knows the profiles");
        let start = free(ix, &self.parts[at]).first().copied()?;
        let uuid = DeviceUuid::new(format!("MIG-{}", self.n_made));
        self.n_made += 1;
        self.parts[at].push((ix, start, uuid.clone()));
        Some(uuid)
    }

    /// Whether the devices have that instance.
    pub fn has(&self, instance: &DeviceUuid) -> bool {
        self.parts.iter().flatten().any(|(.., uuid)| uuid == instance)
    }

    pub fn running(&self) -> Vec<JobId> {
        self.harness.control.world().holding().map(|row| row.job.id).collect()
    }

    pub fn finish(&mut self, id: JobId) {
        self.harness.started(id);
        self.harness.exited(id, 0);
    }
}

/// The first slices where an instance could be created.
fn free(ix: usize, parts: &[(usize, u32, DeviceUuid)]) -> Vec<u32> {
    let (_, _, slices, size, most, starts) = PROFILES[ix];
    let all: u32 = parts.iter().map(|(ix, ..)| PROFILES[*ix].2).sum();
    let n_alike = parts.iter().filter(|(other, ..)| *other == ix).count();
    if all + slices > 7 || u32::try_from(n_alike).is_ok_and(|n| n >= most) {
        return Vec::new();
    }
    let is_free = |start: &u32| {
        let apart = |(ix, at, _): &(usize, u32, DeviceUuid)| {
            start + size <= *at || at + PROFILES[*ix].3 <= *start
        };
        parts.iter().all(apart)
    };
    starts.iter().copied().filter(is_free).collect()
}

fn size(ix: usize, parts: &[(usize, u32, DeviceUuid)]) -> MigSize {
    let (name, gib, slices, size, most, starts) = PROFILES[ix];
    let own = parts.iter().filter(|(other, ..)| *other == ix);
    MigSize {
        profile: name.to_owned(),
        memory: Bytes::from_gib(gib),
        compute_slices: slices,
        multiprocessors: 16 * slices,
        n_max: most,
        n_free: u32::try_from(free(ix, parts).len()).expect("it is small"),
        placements: starts.iter().map(|start| MigPlacement { start: *start, size }).collect(),
        instances: own
            .map(|(_, start, uuid)| MigInstance {
                placement: MigPlacement { start: *start, size },
                device: Some((uuid.clone(), 0)),
            })
            .collect(),
    }
}

#[test]
fn random_demand_is_met_without_touching_used_instances() {
    const REQUESTS: [&str; 8] = [
        "1g.10gb",
        "1g.10gb:3",
        "1g.20gb",
        "2g.20gb",
        "3g.40gb",
        "7g.80gb",
        "3g.40gb|4g.40gb:1",
        "mig:2",
    ];
    for seed in 0..60_u32 {
        let mut number = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |below: usize| {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            usize::try_from(number >> 8).expect("64 bits") % below
        };
        let mut machine = Machine::new(1 + usize::try_from(seed % 3).expect("it is small"));
        for _ in 0..40 {
            match next(3) {
                0 => drop(machine.harness.add(job(REQUESTS[next(REQUESTS.len())]))),
                1 => drop(machine.round()),
                _ => {
                    let running = machine.running();
                    if !running.is_empty() {
                        machine.finish(running[next(running.len())]);
                    }
                }
            }
        }
        for _ in 0..400 {
            machine.round();
            for id in machine.running() {
                machine.finish(id);
            }
        }
        let left = machine.harness.control.world().n_pending();
        assert_eq!(left, 0, "seed {seed}: jobs wait although all instances are free");
        assert_eq!(machine.round(), 0, "seed {seed}: nothing is changed without demand");
    }
}

#[test]
fn free_instances_are_used_before_any_is_made_and_room_before_any_is_destroyed() {
    let mut machine = Machine::new(2);
    machine.harness.add(job("3g.40gb"));
    assert_eq!(machine.round(), 1);
    let first = machine.running()[0];
    machine.finish(first);
    // The free instance serves this one.
    machine.harness.add(job("3g.40gb"));
    assert_eq!((machine.round(), machine.n_made, machine.running().len()), (0, 1, 1));
    // There is room for the next ones without the first instance.
    machine.harness.add(job("4g.40gb"));
    machine.harness.add(job("7g.80gb"));
    machine.round();
    assert_eq!((machine.n_made, machine.n_destroyed), (2, 0));
    for id in machine.running() {
        machine.finish(id);
    }
    machine.round();
    let devices = machine.parts.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!((devices, machine.running().len()), (vec![1, 1], 1));
    assert_eq!(machine.n_destroyed, 1, "the device with one instance was divided again");
}

#[test]
fn drained_devices_stay_as_they_are() {
    let mut machine = Machine::new(1);
    machine.harness.add(job("1g.10gb"));
    machine.round();
    let first = machine.running()[0];
    machine.finish(first);
    machine.harness.add(job("2g.20gb"));
    let targets = || vec![DrainTarget { node: NodeName::new(NODE), device: Some("0".to_owned()) }];
    let (by, reason, consent) = (None, "new PSU".into(), Consent::default());
    let drain = Command::Drain { targets: targets(), by, reason, consent };
    machine.harness.command(&root(), drain).expect("it is no problem");
    assert_eq!(machine.round(), 0);
    let undrain = Command::Undrain { targets: targets() };
    machine.harness.command(&root(), undrain).expect("it is drained");
    assert_eq!(machine.round(), 1);
}
