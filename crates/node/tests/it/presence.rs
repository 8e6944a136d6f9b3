//! Tasks that were paused for their loans, and when they come back.

use gpool_model::id::{Attempt, JobId, TaskId};
use gpool_model::unit::{Bytes, Millis, Timestamp};
use gpool_node::loans::{Tenant, decide};
use gpool_node::presence::{MemoryPresence, can_return, reserve};

/// A task of a device with 8 GiB. While it is away it uses nothing there.
fn task(id: u64, request: u32, used: u32) -> (TaskId, Tenant) {
    let tenant = Tenant {
        request: Bytes::from_gib(request),
        limit: Bytes::from_gib(8),
        used: Bytes::from_gib(used),
        granted: Bytes::ZERO,
        wish: None,
        priority: 0,
        started_at: Timestamp::new(id),
        called: None,
        can_move: false,
        can_pause: true,
        is_leaving: false,
        departs: false,
    };
    (TaskId { job: JobId::single(id), attempt: Attempt::FIRST, rank: 0 }, tenant)
}

/// Whether the first of the tasks can come back with this memory.
fn returns(needed: u32, all: &[((TaskId, Tenant), MemoryPresence)]) -> bool {
    let ((id, tenant), _) = &all[0];
    let others = all[1..].iter().map(|((id, tenant), presence)| (*id, *tenant, *presence));
    can_return(Bytes::from_gib(8), Bytes::from_gib(needed), (*id, tenant), others)
}

#[test]
fn a_task_returns_once_no_request_of_a_present_task_is_in_the_way() {
    let away = (task(1, 2, 0), MemoryPresence::Away);
    assert!(!returns(7, &[away, (task(2, 2, 1), MemoryPresence::Here)]));
    assert!(returns(6, &[away, (task(2, 2, 1), MemoryPresence::Here)]));
    assert!(!returns(6, &[away, (task(2, 2, 3), MemoryPresence::Here)]), "its loan is there");
}

#[test]
fn tasks_that_are_away_do_not_hold_each_other_up() {
    let (older, newer) = (task(1, 2, 0), task(2, 2, 0));
    let away = |it| (it, MemoryPresence::Away);
    assert!(returns(7, &[away(older), away(newer)]), "it goes first");
    assert!(!returns(7, &[away(newer), away(older)]), "it waits for its turn");
    let important = (newer.0, Tenant { priority: 1, ..newer.1 });
    assert!(returns(7, &[away(important), away(older)]));
    assert!(!returns(7, &[away(older), away(important)]));
}

#[test]
fn a_task_that_the_server_paused_keeps_no_room_until_it_resumes() {
    let (task, other) = ((task(1, 2, 0), MemoryPresence::Away), task(2, 2, 0));
    assert!(returns(7, &[task, (other, MemoryPresence::Paused)]));
    for presence in [MemoryPresence::Resuming, MemoryPresence::Returning, MemoryPresence::Here] {
        assert!(!returns(7, &[task, (other, presence)]), "{presence:?}");
    }
}

/// The others may not use their grants while one of two comes back, although both have no room.
#[test]
fn memory_is_reserved_for_one_task_if_there_is_no_room_for_two() {
    let reserved = |returning: &[u32], is_granted: [bool; 2]| {
        let mut all: Vec<Tenant> = vec![task(1, 2, 1).1];
        all.extend(returning.iter().zip(is_granted).map(|(used, is_granted)| {
            let tenant = task(2, 2, *used).1;
            let granted = if is_granted { tenant.used } else { Bytes::ZERO };
            Tenant { granted, ..tenant }
        }));
        let presences = [MemoryPresence::Here, MemoryPresence::Resuming, MemoryPresence::Returning];
        let mut tenants: Vec<_> = all.iter_mut().zip(presences).collect();
        let is_frozen = reserve(Bytes::from_gib(8), &mut tenants).is_frozen;
        let requests = all[1..].iter().map(|it| it.request.get() >> 30).collect::<Vec<_>>();
        (is_frozen, requests)
    };
    assert_eq!(reserved(&[4, 3], [false; 2]), (true, vec![4, 3]));
    assert_eq!(reserved(&[6, 3], [false; 2]), (true, vec![6, 2]));
    assert_eq!(reserved(&[9, 3], [false; 2]), (true, vec![2, 3]));
    assert_eq!(reserved(&[9, 8], [false; 2]), (false, vec![2, 2]));
    assert_eq!(reserved(&[6, 3], [false, true]), (true, vec![2, 3]), "its restore may have begun");
}

/// A restore on another device must not use the grant of this device.
#[test]
fn a_task_that_may_be_sent_elsewhere_keeps_its_memory_and_gets_no_grant() {
    let mut all = [task(1, 2, 6).1, task(2, 4, 1).1];
    let presences = [MemoryPresence::Unsettled, MemoryPresence::Here];
    let reserved =
        reserve(Bytes::from_gib(8), &mut all.iter_mut().zip(presences).collect::<Vec<_>>());
    let mut plan = decide(Bytes::from_gib(8), Millis::from_secs(60), &all, Timestamp::ZERO);
    reserved.apply(&mut plan, all.iter());
    let granted: Vec<u64> = plan.iter().map(|it| it.grant.bytes.get() >> 30).collect();
    assert_eq!(granted, [0, 2]);
    assert!(!reserved.is_frozen, "the other one may use what is free");
}

#[test]
fn a_task_that_could_not_leave_is_where_a_later_order_sent_it() {
    assert_eq!(MemoryPresence::Leaving.stayed(), MemoryPresence::Here);
    for later in [
        MemoryPresence::Here,
        MemoryPresence::Away,
        MemoryPresence::Paused,
        MemoryPresence::Resuming,
    ] {
        assert_eq!(later.stayed(), later);
    }
}
