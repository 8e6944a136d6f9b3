//! Tests of `share`.

use gpool_model::share::Share;
use gpool_model::unit::{Bytes, MilliGpu};

#[test]
fn three_thirds_of_the_memory_fit_a_device() {
    let device = Bytes::from_gib(80);
    let third = Share::Memory(Bytes::new(device.get() / 3));
    assert_eq!(third.charge_of(device), MilliGpu::new(334));
    let three = third.memory_of(device).checked_mul(3).expect("small");
    assert!(three <= device);
}

#[test]
fn fractions_that_add_up_to_one_fit_any_device() {
    for device in [Bytes::new(85_899_345_921), Bytes::from_gib(24), Bytes::new(1_000_003)] {
        for parts in [vec![500, 500], vec![333, 333, 333, 1], vec![1; 1000]] {
            let of = |milli: &u64| Share::Part(MilliGpu::new(*milli)).memory_of(device).get();
            assert!(parts.iter().map(of).sum::<u64>() <= device.get());
        }
    }
}
