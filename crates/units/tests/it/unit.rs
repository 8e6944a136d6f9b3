//! Tests of `unit`.

use gpool_units::unit::{Bytes, GpuTime, MilliCpu, MilliGpu, Millis};

#[test]
fn bytes_print_in_binary_units() {
    for (bytes, text) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1 << 10, "1 KiB"),
        (80 << 30, "80 GiB"),
        ((79 << 30) + (700 << 20), "79.6 GiB"),
        (u64::MAX, "16777215.9 TiB"),
    ] {
        assert_eq!(Bytes::new(bytes).to_string(), text);
    }
}

#[test]
fn durations_never_look_like_clock_times() {
    for (millis, text) in [
        (0, "0s"),
        (250, "250ms"),
        (45_000, "45s"),
        (90_000, "1m30s"),
        (720_000, "12m"),
        (10_800_000, "3h00"),
        (187_200_000, "2d04h"),
    ] {
        assert_eq!(Millis::new(millis).to_string(), text);
    }
}

#[test]
fn gpu_time_prints_in_hours_of_one_device() {
    let hour = GpuTime::HOUR.get();
    for (time, text) in [
        (0, "0"),
        (hour / 2000, "0"),
        (hour / 125, "0.008"),
        (hour + hour / 200, "1"),
        (hour + hour / 20, "1.05"),
        (hour / 5, "0.2"),
        (hour / 25, "0.04"),
        (3 * hour, "3"),
        (10 * hour + hour / 2, "10"),
    ] {
        assert_eq!(GpuTime::new(time).to_string(), text);
    }
    let two = MilliGpu::from_devices(2);
    assert_eq!(GpuTime::HOUR.lasts(two), Millis::from_mins(30));
    assert_eq!(GpuTime::HOUR.lasts(MilliGpu::ZERO), Millis::MAX);
}

#[test]
fn cores_print_without_trailing_zeros() {
    assert_eq!(MilliCpu::new(1500).to_string(), "1.5");
    assert_eq!(MilliCpu::new(4000).to_string(), "4");
    assert_eq!(MilliCpu::new(25).to_string(), "0.025");
}
