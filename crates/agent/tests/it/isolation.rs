//! The GPUs that a task can open.

use gpool_agent::testing::Isolation;
use gpool_model::allocation::{Slot, SlotPart};
use gpool_model::device::{Device, Instance, InstanceNodes};
use gpool_model::id::DeviceUuid;
use gpool_model::unit::Bytes;

fn device(index: u32, minor: Option<u32>) -> Device {
    Device {
        minor,
        ..Device::new(
            index,
            DeviceUuid::new(format!("GPU-{index}")),
            String::new(),
            Bytes::from_gib(80),
        )
    }
}

fn slot(index: u32) -> Slot {
    Slot { device: DeviceUuid::new(format!("GPU-{index}")), index, part: SlotPart::Whole }
}

#[test]
fn a_task_can_open_the_nodes_of_its_devices_and_those_of_all() {
    let mut isolation = Isolation::new(true);
    assert_eq!(isolation.filter(&[]), None, "no inventory yet");
    isolation.learn(&[device(0, Some(3)), device(1, Some(2)), device(2, None)]);
    let allowed = |slots: &[Slot]| {
        let filter = isolation.filter(slots)?;
        assert_eq!(filter.majors, [195].into());
        Some(filter.allowed.into_iter().map(|(_, minor)| minor).collect::<Vec<_>>())
    };
    assert_eq!(allowed(&[slot(0)]), Some(vec![3, 254, 255]));
    assert_eq!(allowed(&[slot(0), slot(1)]), Some(vec![2, 3, 254, 255]));
    assert_eq!(allowed(&[]), Some(vec![254, 255]));
    // The node of this device is not known, so it could not be allowed.
    assert_eq!(allowed(&[slot(0), slot(2)]), None);
}

#[test]
fn a_task_on_an_instance_can_open_its_nodes_and_that_of_its_gpu() {
    let part = |index: u32, cap: u32| {
        let (gpu_instance, compute_instance) = (cap, cap + 1);
        let nodes = Some(InstanceNodes { major: 506, gpu_instance, compute_instance });
        let parent_memory = Bytes::from_gib(80);
        let own = Instance { parent: 0, parent_memory, compute_slices: 3, nodes };
        Device { instance: Some(Box::new(own)), ..device(index, Some(3)) }
    };
    let mut isolation = Isolation::new(true);
    let devices = [device(0, Some(3)), device(1, Some(2)), part(1000, 21), part(1001, 30)];
    isolation.learn(&devices);
    let allowed = |slots: &[Slot]| {
        let filter = isolation.filter(slots).unwrap();
        assert_eq!(filter.majors, [195, 506].into());
        filter.allowed.into_iter().collect::<Vec<_>>()
    };
    let of_all = [(195, 254), (195, 255)];
    assert_eq!(
        allowed(&[slot(1000)]),
        [&[(195, 3)], &of_all[..], &[(506, 21), (506, 22)]].concat()
    );
    assert_eq!(allowed(&[slot(1001)])[3..], [(506, 30), (506, 31)]);
    assert_eq!(allowed(&[slot(1)]), [&[(195, 2)], &of_all[..]].concat());
    assert_eq!(allowed(&[]), of_all);
}

#[test]
fn simulated_devices_need_no_filter() {
    let mut isolation = Isolation::new(true);
    isolation.learn(&[device(0, None)]);
    assert_eq!(isolation.filter(&[slot(0)]), None);
    let mut isolation = Isolation::new(false);
    isolation.learn(&[device(0, Some(0))]);
    assert_eq!(isolation.filter(&[slot(0)]), None);
}
