//! Division of devices into MIG instances through a stub of the driver's library, with the profiles
//! of real devices.

#![allow(clippy::unwrap_used, missing_docs)] // A test may end by a panic, and has no readers.

use std::sync::Arc;
use std::time::Duration;

use gpool_device::{Monitor, NvmlSource};
use gpool_model::id::DeviceUuid;
use gpool_model::mig_layout::{MigChange, MigError, MigReport, MigSize};
use gpool_stub_nvml::{Device, MigProfile, Process, STATE_FILE, State, install};
use tempfile::TempDir;

/// Long enough for every answer.
const LONG: Duration = Duration::from_secs(60);
/// `NVML_ERROR_INSUFFICIENT_RESOURCES` and `NVML_ERROR_UNKNOWN`.
const NO_RESOURCES: u32 = 23;
const UNKNOWN: u32 = 999;

struct Machine {
    folder: TempDir,
    monitor: Monitor,
}

impl Machine {
    fn new(name: &str, gib: u64, mig_profiles: Vec<MigProfile>) -> Self {
        let device = Device {
            uuid: "GPU-0".into(),
            name: name.into(),
            memory: Some(gib << 30),
            processes: Some(vec![]),
            mig: Some(true),
            mig_profiles,
            ..Device::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let library = install(folder.path()).unwrap();
        let state = State { driver: "580.95.05".into(), devices: vec![device], ..State::default() };
        state.write(&folder.path().join(STATE_FILE)).unwrap();
        let source = NvmlSource::open(library.as_os_str(), LONG).unwrap();
        let mut machine = Self { folder, monitor: Monitor::new(Arc::new(source)) };
        machine.monitor.inventory(LONG).unwrap();
        machine
    }

    fn a100() -> Self {
        Self::new("NVIDIA A100-SXM4-80GB", 80, MigProfile::of_a100())
    }

    fn edit(&self, change: impl FnOnce(&mut Device)) {
        let file = self.folder.path().join(STATE_FILE);
        let mut state = State::read(&file).unwrap();
        change(&mut state.devices[0]);
        state.write(&file).unwrap();
    }

    fn create(&mut self, profile: &str) -> Result<DeviceUuid, MigError> {
        let (device, profile) = (DeviceUuid::new("GPU-0"), profile.to_owned());
        let created = self.monitor.divide(&MigChange::Create { device, profile }, LONG)?;
        self.monitor.inventory(LONG).unwrap();
        Ok(created.unwrap())
    }

    fn destroy(&mut self, instance: &DeviceUuid) -> Result<(), MigError> {
        let change = MigChange::Destroy { instance: instance.clone() };
        let done = self.monitor.divide(&change, LONG);
        self.monitor.inventory(LONG).unwrap();
        done.map(drop)
    }

    fn report(&mut self) -> MigReport {
        self.monitor.divisions(LONG).unwrap()
    }

    fn sizes(&mut self) -> Vec<MigSize> {
        self.report().devices.remove(0).sizes
    }

    /// Profiles that have room, each with its number.
    fn room(&mut self) -> Vec<String> {
        let sizes = self.sizes();
        let free = sizes.iter().filter(|size| size.n_free > 0);
        free.map(|size| format!("{} x{}", size.profile, size.n_free)).collect()
    }

    /// Indexes and models of the instances in the inventory.
    fn instances(&mut self) -> Vec<(u32, String)> {
        let devices = self.monitor.inventory(LONG).unwrap().devices;
        let instances = devices.into_iter().filter(|device| device.instance.is_some());
        instances.map(|device| (device.index, device.model)).collect()
    }
}

/// Profile, most, compute slices and multiprocessors of each size.
fn table(sizes: &[MigSize]) -> Vec<(&str, u32, u32, u32)> {
    let row = |it: &MigSize| (it.n_max, it.compute_slices, it.multiprocessors);
    let rows = sizes.iter().map(|it| (it.profile.as_str(), row(it)));
    rows.map(|(name, (most, slices, sms))| (name, most, slices, sms)).collect()
}

#[test]
fn the_profiles_are_the_drivers() {
    let mut a100 = Machine::a100();
    let sizes = a100.sizes();
    assert_eq!(
        table(&sizes),
        [
            ("1g.10gb", 7, 1, 14),
            ("2g.20gb", 3, 2, 28),
            ("3g.40gb", 2, 3, 42),
            ("4g.40gb", 1, 4, 56),
            ("7g.80gb", 1, 7, 98),
            ("1g.10gb+me", 1, 1, 14),
            ("1g.20gb", 4, 1, 14),
        ]
    );
    assert!(sizes.iter().all(|size| size.n_free == size.n_max && size.instances.is_empty()));
    let places: Vec<u32> = sizes[2].placements.iter().map(|place| place.start).collect();
    assert_eq!((places, sizes[2].placements[0].size), (vec![0, 4], 4));
    let mut h100 = Machine::new("NVIDIA H100 80GB HBM3", 80, MigProfile::of_h100());
    let sizes = h100.sizes();
    let sms: Vec<u32> = sizes.iter().take(5).map(|size| size.multiprocessors).collect();
    assert_eq!(sms, [16, 32, 60, 64, 132]);
    let mut h200 = Machine::new("NVIDIA H200", 141, MigProfile::of_h200());
    let names: Vec<String> = h200.sizes().into_iter().map(|size| size.profile).collect();
    assert_eq!(names[..5], ["1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"]);
    assert_eq!(h200.sizes()[0].memory.get(), 18_432 << 20);
}

#[test]
fn a_driver_without_names_of_profiles_gets_them_from_sizes() {
    let mut machine = Machine::a100();
    machine.edit(|device| {
        device.mig_profiles.truncate(1);
        device.mig_profiles[0].name.clear();
    });
    assert_eq!(machine.sizes()[0].profile, "1g.10gb");
}

#[test]
fn instances_are_created_and_destroyed_and_keep_their_indexes() {
    let mut machine = Machine::a100();
    let large = machine.create("3g.40gb").unwrap();
    let small = machine.create("1g.10gb").unwrap();
    let me = machine.create("1G.10GB+ME").unwrap();
    let model = |profile: &str| format!("NVIDIA A100-SXM4-80GB MIG {profile}");
    assert_eq!(
        machine.instances(),
        [(1000, model("3g.40gb")), (1001, model("1g.10gb")), (1002, model("1g.10gb+me"))]
    );
    assert_eq!(machine.room(), ["1g.10gb x1", "1g.20gb x1"]);
    let report = machine.report();
    let size = &report.devices[0].sizes[0];
    assert_eq!(size.instances.len(), 1);
    assert_eq!(size.instances[0].device, Some((small.clone(), 1001)));
    assert_eq!(size.instances[0].placement.start, 4);
    machine.destroy(&small).unwrap();
    assert_eq!(machine.instances(), [(1000, model("3g.40gb")), (1002, model("1g.10gb+me"))]);
    assert_eq!(machine.destroy(&small), Err(MigError::NoSuchDevice));
    let again = machine.create("1g.20gb").unwrap();
    assert_ne!(again, small);
    for instance in [large, me, again] {
        machine.destroy(&instance).unwrap();
    }
    assert_eq!(machine.instances(), []);
    assert!(machine.sizes().iter().all(|size| size.n_free == size.n_max));
}

#[test]
fn a_device_is_filled_by_each_profile() {
    for profile in MigProfile::of_h100() {
        let mut machine = Machine::new("NVIDIA H100 80GB HBM3", 80, MigProfile::of_h100());
        let name = profile.name.trim_start_matches("MIG ");
        for _ in 0..profile.most {
            machine.create(name).unwrap();
        }
        let refused = machine.create(name).unwrap_err();
        assert!(matches!(refused, MigError::NoRoom { .. }), "{name}: {refused}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_does() {
    let mut machine = Machine::a100();
    let refused = machine.create("1g.5gb").unwrap_err().to_string();
    assert!(refused.starts_with("there is no MIG profile \"1g.5gb\"; there are 1g.10gb"));
    machine.create("4g.40gb").unwrap();
    let refused = machine.create("7g.80gb").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no room for 7g.80gb; there is room for 1g.10gb, 2g.20gb, 3g.40gb, 1g.10gb+me, \
         1g.20gb"
    );
    // The driver may know of a use that its capacity does not show.
    machine.edit(|device| {
        device.errors.insert("nvmlDeviceCreateGpuInstance".into(), NO_RESOURCES);
    });
    assert!(matches!(machine.create("3g.40gb"), Err(MigError::NoRoom { .. })));
}

#[test]
fn a_gpu_instance_without_compute_instance_is_taken_back() {
    let mut machine = Machine::a100();
    machine.edit(|device| {
        device.errors.insert("nvmlGpuInstanceCreateComputeInstance".into(), UNKNOWN);
    });
    let failed = machine.create("3g.40gb").unwrap_err().to_string();
    assert!(failed.starts_with("nvmlGpuInstanceCreateComputeInstance failed"), "{failed}");
    assert!(machine.sizes().iter().all(|size| size.n_free == size.n_max));
    // One that another program left is shown, and nothing can use it.
    machine.edit(|device| {
        device.add_gpu_instance(9).unwrap();
    });
    let sizes = machine.sizes();
    assert_eq!(sizes[2].instances[0].device, None);
}

#[test]
fn an_instance_in_use_stays() {
    let mut machine = Machine::a100();
    let instance = machine.create("2g.20gb").unwrap();
    machine.edit(|device| device.instances[0].processes = vec![Process { pid: 1, memory: None }]);
    let refused = machine.destroy(&instance).unwrap_err().to_string();
    assert!(refused.ends_with("a process uses it"), "{refused}");
    assert_eq!(machine.instances().len(), 1);
}

#[test]
fn devices_without_the_mode_are_not_divided() {
    let mut machine = Machine::a100();
    machine.edit(|device| device.mig = Some(false));
    machine.monitor.inventory(LONG).unwrap();
    assert_eq!(machine.report().devices, []);
    assert_eq!(machine.create("1g.10gb"), Err(MigError::IsOff));
    let unknown = MigChange::Destroy { instance: DeviceUuid::new("MIG-unknown") };
    assert_eq!(machine.monitor.divide(&unknown, LONG), Err(MigError::NoSuchDevice));
}
