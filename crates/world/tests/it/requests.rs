//! Requests with an idempotency key, and the answers to them.

use gpool_model::{JobNumber, Policy};

use gpool_model::Timestamp;
use gpool_model::record::IdempotencyRecord;
use gpool_world::World;
use gpool_world::testing::n_users_with_requests;

#[test]
fn a_users_oldest_requests_are_forgotten_and_no_others() {
    let mut world = World::new(Policy::fair());
    let put = |world: &mut World, uid: u32, at: u64| {
        let (name, digest) = (at.to_string(), String::new());
        let (at, first) = (Timestamp::new(at), JobNumber(1));
        world.put_request(IdempotencyRecord { uid, name, digest, at, first, n_jobs: 1 });
    };
    put(&mut world, 7, 1);
    for at in 2..7 {
        put(&mut world, 1000, at);
    }
    world.forget_requests_of(1000, 2);
    let is_known = |world: &World, uid, at: u64| {
        world.request(&IdempotencyRecord::key_of(uid, &at.to_string())).is_some()
    };
    let known: Vec<u64> = (2..7).filter(|at| is_known(&world, 1000, *at)).collect();
    assert_eq!(known, [5, 6]);
    assert!(is_known(&world, 7, 1));
    world.forget_requests(Timestamp::new(6));
    assert!(!is_known(&world, 7, 1) && !is_known(&world, 1000, 5) && is_known(&world, 1000, 6));
    assert_eq!(n_users_with_requests(&world), 1);
}
