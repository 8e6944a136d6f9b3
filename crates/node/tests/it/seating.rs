//! Chooses the devices of a task on a node: one model and fast links first, then the strategy's
//! order, then the lowest indices. Shares go to devices that are already shared, so that others
//! stay free as a whole. Depends on no queue and on no policy but the strategy.

use gpool_model::{Bytes, DeviceUuid};
use gpool_model::{Device, DeviceStrategy, GpuRequest, Link};
use gpool_node::seating::{Seat, seat};

fn devices(models: &[&str]) -> Vec<Device> {
    let device = |(index, model): (usize, &&str)| {
        Device::new(
            u32::try_from(index).expect("few"),
            DeviceUuid::new(format!("GPU-{index}")),
            (*model).to_owned(),
            Bytes::from_gib(80),
        )
    };
    models.iter().enumerate().map(device).collect()
}

fn link(devices: &mut [Device], a: usize, b: usize, link: Link) {
    let uuid = devices[b].uuid.clone();
    devices[a].links.insert(uuid, link);
    let uuid = devices[a].uuid.clone();
    devices[b].links.insert(uuid, link);
}

fn chosen(
    devices: &[Device],
    busy: &[usize],
    request: &str,
    strategy: DeviceStrategy,
    seed: u64,
) -> Option<Vec<usize>> {
    let seats: Vec<Seat<'_>> = devices
        .iter()
        .enumerate()
        .map(|(ix, device)| Seat {
            device,
            is_free: !busy.contains(&ix),
            is_busy: busy.contains(&ix),
            room: if busy.contains(&ix) { Bytes::ZERO } else { device.memory },
            lost: 0,
        })
        .collect();
    seat(&seats, &GpuRequest::parse(request).expect("valid"), strategy, seed)
}

/// The devices for shares, with the free GiB of each 80 GiB device; devices with less than 80
/// are shared.
fn shared(devices: &[Device], room: &[u32], request: &str) -> Option<Vec<usize>> {
    let seat_of = |(device, gib): (_, &u32)| Seat {
        device,
        is_free: *gib == 80,
        is_busy: *gib < 80,
        room: Bytes::from_gib(*gib),
        lost: 0,
    };
    let seats: Vec<Seat<'_>> = devices.iter().zip(room).map(seat_of).collect();
    let request = GpuRequest::parse(request).expect("valid");
    seat(&seats, &request, DeviceStrategy::Sequential, 0)
}

#[test]
fn shares_prefer_shared_devices_and_the_fullest_first() {
    let four = devices(&["NVIDIA H100"; 4]);
    assert_eq!(shared(&four, &[80, 80, 80, 80], "0.5"), Some(vec![0]));
    assert_eq!(shared(&four, &[80, 60, 40, 0], "0.5"), Some(vec![2]));
    assert_eq!(shared(&four, &[80, 60, 30, 0], "0.5"), Some(vec![1]));
    assert_eq!(shared(&four, &[80, 30, 30, 0], "0.5"), Some(vec![0]));
    assert_eq!(shared(&four, &[80, 60, 40, 0], "2@0.5"), Some(vec![1, 2]));
    assert_eq!(shared(&four, &[80, 30, 40, 0], "2@40G"), Some(vec![0, 2]));
    assert_eq!(shared(&four, &[30, 30, 40, 0], "2@40G"), None);
    assert_eq!(shared(&four, &[80, 80, 80, 80], "1@81G"), None);
}

#[test]
fn sequential_takes_the_lowest_free_indices() {
    let eight = devices(&["NVIDIA H100"; 8]);
    let take = |busy: &[usize], n| chosen(&eight, busy, n, DeviceStrategy::Sequential, 0);
    assert_eq!(take(&[], "1"), Some(vec![0]));
    assert_eq!(take(&[0, 2], "3"), Some(vec![1, 3, 4]));
    assert_eq!(take(&[0, 1, 2, 3, 4, 5, 6], "2"), None);
    assert_eq!(take(&[], "9"), None);
    assert_eq!(take(&[], "0"), Some(vec![]));
}

#[test]
fn linked_devices_are_allocated_together() {
    let mut eight = devices(&["NVIDIA H100"; 8]);
    link(&mut eight, 1, 6, Link::NvLink(4));
    link(&mut eight, 0, 1, Link::Switch);
    let take = |busy: &[usize], n| chosen(&eight, busy, n, DeviceStrategy::Sequential, 0);
    assert_eq!(take(&[], "2"), Some(vec![1, 6]));
    assert_eq!(take(&[6], "2"), Some(vec![0, 1]));
    assert_eq!(take(&[1], "2"), Some(vec![0, 2]));
    assert_eq!(take(&[], "3"), Some(vec![0, 1, 6]));
}

#[test]
fn earlier_models_are_preferred_and_never_mixed() {
    let mixed = devices(&["NVIDIA A100", "NVIDIA H100", "NVIDIA A100", "NVIDIA H100"]);
    let take = |busy: &[usize], n| chosen(&mixed, busy, n, DeviceStrategy::Sequential, 0);
    assert_eq!(take(&[], "h100|a100:2"), Some(vec![1, 3]));
    assert_eq!(take(&[3], "h100|a100:2"), Some(vec![0, 2]));
    assert_eq!(take(&[0, 1], "h100|a100:2"), None);
    // Any model: two of one model if possible, else mixed.
    assert_eq!(take(&[], "2"), Some(vec![0, 2]));
    assert_eq!(take(&[0, 1], "2"), Some(vec![2, 3]));
}

#[test]
fn random_is_the_same_for_the_same_seed_and_uses_every_device() {
    let eight = devices(&["NVIDIA H100"; 8]);
    let take = |seed| chosen(&eight, &[], "1", DeviceStrategy::Random, seed);
    assert_eq!(take(7), take(7));
    let seen: std::collections::BTreeSet<_> = (0..200).map(take).collect();
    assert_eq!(seen.len(), 8);
}

#[test]
fn pack_stays_beside_busy_devices_and_spread_keeps_away() {
    let mut four = devices(&["NVIDIA H100"; 4]);
    link(&mut four, 0, 1, Link::Switch);
    link(&mut four, 2, 3, Link::Switch);
    assert_eq!(chosen(&four, &[2], "1", DeviceStrategy::Pack, 0), Some(vec![3]));
    assert_eq!(chosen(&four, &[0], "1", DeviceStrategy::Spread, 0), Some(vec![2]));
}

#[test]
fn many_devices_are_seated_without_comparing_every_set() {
    let mut many = devices(&["NVIDIA H100"; 32]);
    for a in 16..32 {
        for b in a + 1..32 {
            link(&mut many, a, b, Link::NvLink(1));
        }
    }
    let take = chosen(&many, &[], "8", DeviceStrategy::Sequential, 0);
    assert_eq!(take, Some((16..24).collect()));
}
