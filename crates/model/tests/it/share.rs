//! Tests of `share`.

use gpool_model::SlotPart;
use gpool_model::share::Share;
use gpool_model::unit::{Bytes, MilliGpu};

#[test]
fn three_thirds_of_the_memory_fit_a_device() {
    let device = Bytes::from_gib(80);
    let third = Share::memory(Bytes::new(device.get() / 3));
    assert_eq!(third.charge_of(device), MilliGpu::new(334));
    let three = third.memory_of(device).checked_mul(3).expect("small");
    assert!(three <= device);
}

#[test]
fn fractions_that_add_up_to_one_fit_any_device() {
    for device in [Bytes::new(85_899_345_921), Bytes::from_gib(24), Bytes::new(1_000_003)] {
        for parts in [vec![500, 500], vec![333, 333, 333, 1], vec![1; 1000]] {
            let of = |milli: &u64| Share::part(MilliGpu::new(*milli)).memory_of(device).get();
            assert!(parts.iter().map(of).sum::<u64>() <= device.get());
        }
    }
}

#[test]
fn a_limit_is_memory_of_the_device_and_at_least_the_request() {
    let device = Bytes::from_gib(80);
    for (text, request, limit, charge) in [
        ("0.25:0.8", 20, 64, 250),
        ("0.5:1", 40, 80, 500),
        ("0.5", 40, 40, 500),
        ("20G:40G", 20, 40, 250),
        ("20G:200G", 20, 80, 250),
        ("20G", 20, 20, 250),
    ] {
        let share = Share::parse(text).expect(text);
        let slot = SlotPart::Share {
            charge: MilliGpu::new(charge),
            memory: Bytes::from_gib(request),
            limit: Bytes::from_gib(limit),
        };
        assert_eq!(share.slot_of(device), slot, "{text}");
    }
}

#[test]
fn errors_show_the_amounts_in_order() {
    for (text, words) in [
        ("0.8:0.25", "write the request first: 0.25:0.8"),
        ("40G:20G", "write the request first: 20G:40G"),
        ("0.5:1.5", "the largest limit is 1: 0.5:1"),
        ("0.5:20G", "mixes a fraction and memory"),
        ("1:2", "a whole GPU is 1"),
    ] {
        let error = Share::parse(text).expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}
