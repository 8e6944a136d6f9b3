//! Tests of `resource`.

use gpool_model::resource::{ResourceKind, Resources};
use gpool_model::unit::{Bytes, MilliCpu, MilliGpu};

#[test]
fn sums_and_differences_are_checked() {
    let two = Resources::none().with_gpus(MilliGpu::from_devices(2));
    let one = Resources::none().with_gpus(MilliGpu::from_devices(1));
    assert_eq!(two.checked_sub(&one), Some(one.clone()));
    assert_eq!(one.checked_sub(&two), None);
    assert_eq!(one.checked_sub(&one), Some(Resources::none()));
    let most = Resources::none().with_memory(Bytes::MAX);
    assert_eq!(most.checked_add(&Resources::none().with_memory(Bytes::new(1))), None);
}

#[test]
fn the_first_short_kind_is_named() {
    let need = Resources::none().with_gpus(MilliGpu::DEVICE).with_cpus(MilliCpu::new(500));
    let have = Resources::none().with_gpus(MilliGpu::DEVICE);
    assert_eq!(need.first_short(&have), Some(ResourceKind::Cpu));
    assert_eq!(have.first_short(&need), None);
}
