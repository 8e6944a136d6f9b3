//! Tests of `device`.

use gpool_model::device::{Device, Instance};
use gpool_model::unit::{Bytes, MilliGpu};

fn counts(compute_slices: u32, gib: u32, of_gib: u32) -> u64 {
    let parent_memory = Bytes::from_gib(of_gib);
    let instance = Instance { parent: 0, parent_memory, compute_slices, nodes: None };
    instance.counts_as(Bytes::from_gib(gib)).get()
}

#[test]
fn an_instance_is_charged_for_its_larger_part() {
    for (slices, gib, of_gib, milli) in [
        (1, 10, 80, 142),
        (1, 20, 80, 250),
        (2, 20, 80, 285),
        (3, 40, 80, 500),
        (4, 40, 80, 571),
        (7, 80, 80, 1000),
        // A device that the driver divides into four.
        (1, 6, 24, 250),
        (4, 24, 24, 1000),
    ] {
        assert_eq!(counts(slices, gib, of_gib), milli, "{slices}g.{gib}gb of {of_gib}");
    }
}

#[test]
fn charges_of_equal_instances_never_exceed_a_device() {
    for (slices, eighths, most) in [(1, 1, 7), (1, 2, 4), (2, 2, 3), (3, 4, 2), (7, 8, 1)] {
        assert!(counts(slices, eighths, 8) * most <= 1000, "{slices}g");
    }
}

#[test]
fn charges_are_above_zero_and_at_most_a_device() {
    assert_eq!(counts(0, 0, 80), 1);
    assert_eq!(counts(9, 90, 80), 1000);
    assert_eq!(counts(1, 10, 0), 1000);
}

#[test]
fn indexes_of_instances_are_unique() {
    assert_eq!((Instance::index(0, 0), Instance::index(3, 6)), (1000, 4006));
}

#[test]
fn records_from_before_instances_are_read() {
    let text = r#"{"index": 0, "uuid": "GPU-0", "model": "NVIDIA H100", "memory": 85899345920,
        "pci_bus": "", "minor": null, "numa": null, "links": {}, "health": "healthy",
        "mig": {"enabled": true, "instances": [
            {"uuid": "MIG-0", "memory": 1, "compute_slices": 1}]},
        "unmanaged": []}"#;
    let device: Device = serde_json::from_str(text).expect("an older record");
    assert!(device.is_divided() && device.instance.is_none());
    assert_eq!(device.counts_as(), MilliGpu::DEVICE);
}
