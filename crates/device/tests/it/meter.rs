//! Tests of `meter`.

use gpool_device::{Meter, Use};
use gpool_model::device::DeviceSample;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::job::GpuUsage;
use gpool_model::unit::{Bytes, Millis, Timestamp};

fn task(text: &str) -> TaskId {
    text.parse().expect("a task")
}

/// Adds a sample of a device with 80 GiB.
fn add(meter: &mut Meter, device: &str, second: u64, (percent, gib): (u32, u32), uses: &[Use]) {
    let sample = DeviceSample {
        utilization_percent: Some(percent),
        memory_used: Some(Bytes::from_gib(gib)),
        ..DeviceSample::default()
    };
    let uuid = DeviceUuid::new(device);
    meter.add((&uuid, Bytes::from_gib(80)), Timestamp::new(second * 1000), &sample, uses);
}

#[test]
fn a_whole_device_is_measured_by_its_samples() {
    let mut meter = Meter::default();
    let whole = [Use { task: task("1#1/0"), limit: None, memory: None, compute_percent: None }];
    add(&mut meter, "a", 0, (100, 3), &whole);
    add(&mut meter, "a", 10, (50, 12), &whole);
    add(&mut meter, "b", 10, (0, 5), &whole);
    add(&mut meter, "a", 20, (100, 7), &whole);
    add(&mut meter, "b", 20, (0, 5), &whole);
    let expected = GpuUsage {
        memory_peak: Bytes::from_gib(12),
        memory_limit: Bytes::from_gib(80),
        busy: Millis::from_secs(15),
        measured: Millis::from_secs(30),
    };
    assert_eq!(meter.take(task("1#1/0")), Some(expected));
    assert_eq!(meter.take(task("1#1/0")), None);
}

#[test]
fn a_fraction_is_measured_by_its_processes_alone() {
    let mut meter = Meter::default();
    let limit = Some(Bytes::from_gib(40));
    let shared = |memory: Option<u32>| Use {
        task: task("1#1/0"),
        limit,
        memory: memory.map(Bytes::from_gib),
        compute_percent: None,
    };
    add(&mut meter, "a", 0, (100, 70), &[shared(None)]);
    assert_eq!(meter.take(task("1#1/0")), None);
    add(&mut meter, "a", 1, (100, 70), &[shared(Some(6))]);
    add(&mut meter, "a", 2, (100, 70), &[shared(Some(4))]);
    let usage = meter.take(task("1#1/0")).expect("its memory is known");
    assert_eq!((usage.memory_peak, usage.memory_limit), (Bytes::from_gib(6), Bytes::from_gib(40)));
    assert_eq!(usage.measured, Millis::ZERO);
    let busy = |percent| Use { compute_percent: Some(percent), ..shared(Some(4)) };
    add(&mut meter, "a", 3, (100, 70), &[busy(90)]);
    add(&mut meter, "a", 13, (100, 70), &[busy(25)]);
    let usage = meter.take(task("1#1/0")).expect("its compute is known");
    assert_eq!((usage.busy, usage.measured), (Millis::new(2_500), Millis::from_secs(10)));
}

#[test]
fn time_without_samples_does_not_count() {
    let mut meter = Meter::default();
    let whole = [Use { task: task("1#1/0"), limit: None, memory: None, compute_percent: None }];
    for second in [0, 5, 3600, 3605] {
        add(&mut meter, "a", second, (100, 1), &whole);
    }
    let usage = meter.take(task("1#1/0")).expect("it was measured");
    assert_eq!((usage.busy, usage.measured), (Millis::from_secs(10), Millis::from_secs(10)));
}
