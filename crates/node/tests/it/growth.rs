//! Grants of memory to the tasks that share a device.

use gpool_model::Bytes;
use gpool_node::growth::{Sharer, grants};

fn gib(count: u32) -> Bytes {
    Bytes::from_gib(count)
}

fn sharer(request: u32, limit: u32, granted: u32, used: u32) -> Sharer {
    let [request, limit, granted, used] = [request, limit, granted, used].map(gib);
    Sharer { request, limit, granted, used, wish: None }
}

fn wishing(wish: u32, sharer: Sharer) -> Sharer {
    Sharer { wish: Some(gib(wish)), ..sharer }
}

fn granted(memory: u32, sharers: &[Sharer]) -> Vec<u64> {
    grants(gib(memory), sharers).iter().map(|it| it.div_floor(1 << 30).get()).collect()
}

#[test]
fn a_wish_is_met_in_full_or_not_at_all() {
    assert_eq!(granted(80, &[wishing(60, sharer(20, 64, 20, 20))]), [60]);
    assert_eq!(granted(80, &[wishing(65, sharer(20, 64, 20, 20))]), [20], "its limit");
    assert_eq!(granted(50, &[wishing(60, sharer(20, 64, 20, 20))]), [20], "the device");
}

#[test]
fn no_grant_reaches_into_the_request_of_another() {
    let other = sharer(40, 40, 40, 0);
    assert_eq!(granted(80, &[wishing(41, sharer(20, 64, 20, 20)), other]), [20, 40]);
    assert_eq!(granted(80, &[wishing(40, sharer(20, 64, 20, 20)), other]), [40, 40]);
}

#[test]
fn an_unused_grant_returns_when_another_needs_it_and_a_used_one_stays() {
    let idle = sharer(20, 64, 50, 10);
    let asks = |wish| wishing(wish, sharer(20, 64, 20, 20));
    assert_eq!(granted(80, &[idle, asks(25)]), [50, 25], "there is room for both");
    assert_eq!(granted(80, &[idle, asks(40)]), [40, 40]);
    assert_eq!(granted(80, &[idle, asks(60)]), [20, 60]);
    let busy = sharer(20, 64, 50, 50);
    assert_eq!(granted(80, &[busy, asks(40)]), [50, 20]);
}

#[test]
fn use_above_the_device_gives_nothing_and_takes_nothing() {
    let sharers = [sharer(20, 64, 20, 90), wishing(30, sharer(40, 64, 40, 10))];
    assert_eq!(granted(80, &sharers), [90, 40]);
}
