//! Samples: use, and the details that are read less often.

use std::collections::BTreeMap;

use gpool_device::PollRequest;
use gpool_model::device::{DeviceDetail, DeviceErrors, DeviceSample};
use gpool_model::unit::Bytes;
use gpool_stub_nvml::Event;

use super::{Machine, bare, full};

#[test]
fn a_sample_has_memory_utilisation_and_details() {
    let mut machine = Machine::new(vec![full(0)]);
    machine.inventory();
    let wanted = PollRequest { usage: true, ..PollRequest::default() };
    let usage = machine.look(0, wanted).sample;
    assert_eq!(usage.detail, DeviceDetail::default(), "not asked for");
    let sample = machine.look(0, PollRequest::ALL).sample;
    let first = DeviceDetail {
        temperature_c: Some(61),
        memory_temperature_c: Some(70),
        power_mw: Some(250_000),
        energy_mj: Some(9_000_000),
        sm_clock_mhz: Some(1980),
        power_capped_ms: Some(5000),
        thermal_capped_ms: Some(0),
        errors: DeviceErrors { ecc_uncorrected: Some(0), ..DeviceErrors::default() },
        ..DeviceDetail::default()
    };
    let expected = DeviceSample {
        memory_used: Some(Bytes::from_gib(3)),
        memory_free: Some(Bytes::from_gib(77)),
        utilization_percent: Some(40),
        traffic_percent: Some(12),
        detail: first.clone(),
    };
    assert_eq!(sample, expected, "counters need two readings");
    machine.edit(|state| state.devices[0].utilization = Some(90));
    let later = machine.look(0, wanted).sample;
    assert_eq!(later.utilization_percent, Some(90));
    assert_eq!(later.detail, first, "rarely polled values are remembered");
}

#[test]
fn performance_counters_are_differences_of_two_readings() {
    let mut machine = Machine::new(vec![full(0), bare(1)]);
    machine.inventory();
    machine.look(0, PollRequest::ALL);
    let detail = machine.look(0, PollRequest::ALL).sample.detail;
    let active =
        (detail.sm_active_permille, detail.tensor_active_permille, detail.dram_active_permille);
    assert_eq!(active, (Some(355), Some(200), Some(123)));
    let rates = (detail.pcie_received, detail.pcie_sent, detail.nvlink);
    assert_eq!(rates, (Some(1 << 20), Some(2 << 20), Some(7 << 20)));
    machine.edit(|state| {
        state.devices[0].counters = Some(BTreeMap::from([(2, -1.0), (5, 250.0)]));
    });
    let odd = machine.look(0, PollRequest::ALL).sample.detail;
    let active = (odd.sm_active_permille, odd.tensor_active_permille, odd.dram_active_permille);
    assert_eq!(active, (None, Some(1000), None), "absent is not zero");
    machine.look(1, PollRequest::ALL);
    assert_eq!(machine.look(1, PollRequest::ALL).sample.detail, DeviceDetail::default());
}

#[test]
fn errors_are_counted_by_kind_and_xids_by_number() {
    const XID: u64 = 8;
    let mut machine = Machine::new(vec![full(0), bare(1)]);
    machine.inventory();
    machine.edit(|state| {
        let device = &mut state.devices[0];
        (device.ecc_corrected, device.ecc_uncorrected) = (Some(12), Some(1));
        (device.rows_remapped, device.remap_failed) = (Some((2, 1)), Some(false));
        device.events = Some([31, 79, 31].map(|data| Event { kind: XID, data }).to_vec());
    });
    machine.health(0);
    let expected = DeviceErrors {
        ecc_corrected: Some(12),
        ecc_uncorrected: Some(1),
        rows_corrected: Some(2),
        rows_uncorrected: Some(1),
        is_remap_failed: Some(false),
        xids: BTreeMap::from([(31, 2), (79, 1)]),
    };
    assert_eq!(machine.look(0, PollRequest::ALL).sample.detail.errors, expected);
    let none = machine.look(1, PollRequest::ALL).sample.detail.errors;
    assert_eq!(none, DeviceErrors::default(), "absent is not zero");
}
