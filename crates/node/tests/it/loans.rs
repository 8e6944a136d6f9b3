//! Loans of memory on one device: what each task may use, and how loans come back.

use gpool_model::unit::{Bytes, Millis, Timestamp};
use gpool_node::loans::{Act, Called, Decision, Rung, Tenant, Wish, WishAnswer, decide, divide};
use proptest::prelude::*;

mod stream;

/// In GiB.
fn tenant(request: u32, limit: u32, used: u32) -> Tenant {
    Tenant {
        request: gib(request),
        limit: gib(limit),
        used: gib(used),
        granted: Bytes::ZERO,
        wish: None,
        priority: 0,
        started_at: Timestamp::new(0),
        called: None,
        can_move: false,
        can_pause: false,
        is_leaving: false,
        departs: false,
    }
}

fn gib(amount: u32) -> Bytes {
    Bytes::from_gib(amount)
}

fn wishes(tenant: Tenant, total: u32, since: u64) -> Tenant {
    Tenant { wish: Some(Wish { total: gib(total), since: Timestamp::new(since) }), ..tenant }
}

/// The grants in GiB, and the answers.
fn grants(tenants: &[Tenant]) -> Vec<(u64, Option<WishAnswer>)> {
    let grants = divide(gib(80), tenants);
    grants.iter().map(|grant| (grant.bytes.get() >> 30, grant.wish)).collect()
}

fn kept(tenants: &[Tenant]) -> Vec<Option<u64>> {
    let grants = divide(gib(80), tenants);
    grants.iter().map(|grant| grant.keep.map(|keep| keep.get() >> 30)).collect()
}

#[test]
fn a_task_alone_grows_to_its_limit() {
    let alone = tenant(20, 64, 20);
    assert_eq!(grants(&[alone]), [(20, None)]);
    assert_eq!(grants(&[wishes(alone, 64, 0)]), [(64, Some(WishAnswer::Yes))]);
    assert_eq!(grants(&[wishes(alone, 65, 0)]), [(20, Some(WishAnswer::No))]);
}

/// A guest that grew leaves the device: what both requested together is more than the device has.
#[test]
fn memory_that_is_about_to_be_free_is_not_granted_before() {
    let guest = tenant(60, 80, 58);
    let host = wishes(tenant(40, 40, 20), 40, 0);
    for guest in [Tenant { is_leaving: true, ..guest }, Tenant { departs: true, ..guest }] {
        assert_eq!(grants(&[guest, host]), [(58, None), (22, Some(WishAnswer::Wait))]);
    }
}

#[test]
fn unused_guarantees_are_lent_and_come_back() {
    let idle = tenant(40, 40, 10);
    let borrower = wishes(tenant(20, 80, 20), 70, 0);
    assert_eq!(grants(&[idle, borrower]), [(10, None), (70, Some(WishAnswer::Yes))]);
    // Above the free memory.
    let borrower = wishes(tenant(20, 80, 20), 71, 0);
    assert_eq!(grants(&[idle, borrower]), [(40, None), (20, Some(WishAnswer::No))]);
    // The owner needs its memory: the loan is called, and the borrower can't grow.
    let owner = wishes(idle, 30, 0);
    let borrower = wishes(tenant(20, 80, 70), 71, 0);
    assert_eq!(kept(&[owner, borrower]), [None, Some(50)]);
    let now = grants(&[owner, borrower]);
    assert_eq!(now, [(10, Some(WishAnswer::Wait)), (50, Some(WishAnswer::No))]);
    // It has freed some, which goes to the owner.
    let now = grants(&[owner, tenant(20, 80, 60)]);
    assert_eq!(now, [(20, Some(WishAnswer::Wait)), (50, None)]);
    let now = grants(&[owner, tenant(20, 80, 50)]);
    assert_eq!(now, [(30, Some(WishAnswer::Yes)), (50, None)]);
}

#[test]
fn borrowers_share_in_proportion_to_their_requests() {
    let mut tenants = [tenant(10, 80, 10), tenant(30, 80, 30)];
    let mut since = 0;
    loop {
        for tenant in &mut tenants {
            since += 1;
            let total = u32::try_from(tenant.used.get() >> 30).expect("small") + 1;
            *tenant = wishes(*tenant, total, since);
        }
        // One allocation at a time, so that the order counts.
        let both = divide(
            tenants[0].used.saturating_add(tenants[1].used).saturating_add(gib(1)),
            &tenants,
        );
        let Some(ix) = both.iter().position(|it| it.wish == Some(WishAnswer::Yes)) else {
            panic!()
        };
        tenants[ix].used = both[ix].bytes;
        if tenants[0].used.saturating_add(tenants[1].used) == gib(80) {
            break;
        }
    }
    assert_eq!(tenants.map(|it| it.used), [gib(20), gib(60)]);
}

#[test]
fn the_largest_loan_is_called_first_then_low_priority_then_the_newest() {
    let owner = wishes(tenant(30, 30, 0), 10, 0);
    let with = |priority, started_at| Tenant {
        priority,
        started_at: Timestamp::new(started_at),
        ..tenant(10, 40, 20)
    };
    let larger = tenant(10, 40, 40);
    assert_eq!(kept(&[owner, with(0, 0), larger, with(0, 0)]), [None, None, Some(30), None]);
    let equal = [wishes(tenant(30, 30, 0), 25, 0), with(0, 1), with(-1, 0), with(0, 2)];
    assert_eq!(kept(&equal), [None, None, Some(15), None]);
    let newest = [wishes(tenant(30, 30, 0), 25, 0), with(0, 1), with(0, 3), with(0, 2)];
    assert_eq!(kept(&newest), [None, None, Some(15), None]);
}

#[test]
fn guaranteed_wishes_are_served_in_order() {
    let borrower = tenant(20, 80, 70);
    let [first, second] = [(tenant(30, 30, 0), 5), (tenant(30, 30, 0), 9)]
        .map(|(tenant, since)| wishes(tenant, 10, since));
    let now = grants(&[second, borrower, first]);
    assert_eq!(now, [(0, Some(WishAnswer::Wait)), (60, None), (10, Some(WishAnswer::Yes))]);
}

prop_compose! {
    /// A tenant of a device with 80 units.
    fn any_tenant()(
        request in 1_u64..30, above in 0_u64..60, used in 0_u64..100, more in 0_u64..30,
        waits in any::<bool>(), since in 0_u64..5, priority in -1_i32..2,
    ) -> Tenant {
        let limit = (request + above).min(80);
        let used = used * limit / 100;
        let wish = Wish { total: Bytes::new(used + more), since: Timestamp::new(since) };
        Tenant {
            request: Bytes::new(request),
            limit: Bytes::new(limit),
            used: Bytes::new(used),
            granted: Bytes::ZERO,
            wish: waits.then_some(wish),
            priority,
            started_at: Timestamp::new(since),
            called: None,
            can_move: false,
            can_pause: false,
            is_leaving: false,
            departs: false,
        }
    }
}

/// Tenants with requests that fit together, as the books guarantee.
fn fitting() -> impl Strategy<Value = Vec<Tenant>> {
    proptest::collection::vec(any_tenant(), 1..6).prop_map(|mut tenants| {
        let mut left = 80_u64;
        tenants.retain(|tenant| {
            let fits = tenant.request.get() <= left;
            left -= if fits { tenant.request.get() } else { 0 };
            fits
        });
        tenants
    })
}

fn total(tenants: &[Tenant], of: impl Fn(usize, &Tenant) -> Bytes) -> u64 {
    tenants.iter().enumerate().map(|(ix, tenant)| of(ix, tenant).get()).sum()
}

proptest! {
    #[test]
    fn grants_fit_and_keep_every_guarantee(tenants in fitting()) {
        let memory = Bytes::new(80);
        let grants = divide(memory, &tenants);
        let used = total(&tenants, |_, tenant| tenant.used);
        let most = total(&tenants, |ix, tenant| grants[ix].bytes.max(tenant.used));
        prop_assert!(most <= used.max(80), "grants exceed the memory: {grants:?}");
        for (tenant, grant) in tenants.iter().zip(&grants) {
            prop_assert!(grant.bytes <= tenant.limit.max(tenant.used));
            let is_right = |keep| keep >= tenant.request && keep < tenant.used;
            prop_assert!(grant.keep.is_none_or(is_right));
            let is_guaranteed = tenant.wish.is_some_and(|wish| wish.total <= tenant.request);
            prop_assert!(!(is_guaranteed && grant.wish == Some(WishAnswer::No)));
        }
        // What waits is met once the loans are back.
        let waits = |ix: usize| grants[ix].wish == Some(WishAnswer::Wait);
        let mut later = tenants.clone();
        for (tenant, grant) in later.iter_mut().zip(&grants) {
            tenant.used = grant.keep.unwrap_or(tenant.used);
        }
        let after = divide(memory, &later);
        for ix in (0..tenants.len()).filter(|ix| waits(*ix)) {
            prop_assert_eq!(after[ix].wish, Some(WishAnswer::Yes), "{:?} {:?}", &later, &after);
        }
        // Nothing is called without need.
        let called = total(&tenants, |ix, it| {
            grants[ix].keep.map_or(Bytes::ZERO, |keep| it.used.saturating_sub(keep))
        });
        let wanted = total(&tenants, |_, it| match it.wish {
            Some(wish) if wish.total <= it.request => wish.total.max(it.used),
            _ => it.used,
        });
        prop_assert_eq!(called, wanted.saturating_sub(80));
    }

    #[test]
    fn a_wish_within_the_limit_is_met_if_its_memory_is_free(tenants in fitting()) {
        let grants = divide(Bytes::new(80), &tenants);
        let entitled = |tenant: &Tenant| match tenant.wish {
            Some(wish) if wish.total <= tenant.request => wish.total.max(tenant.used),
            _ => tenant.used,
        };
        let needed = total(&tenants, |_, tenant| entitled(tenant));
        let lent = total(&tenants, |ix, tenant| match grants[ix].wish {
            Some(WishAnswer::Yes) => grants[ix].bytes.saturating_sub(entitled(tenant)),
            _ => Bytes::ZERO,
        });
        for (tenant, grant) in tenants.iter().zip(&grants) {
            let Some(wish) = tenant.wish.filter(|it| it.total <= tenant.limit) else { continue };
            if grant.wish == Some(WishAnswer::No) {
                prop_assert!(wish.total.get() - tenant.used.get() + needed + lent > 80);
            }
        }
    }
}

const DEADLINE: Millis = Millis::from_secs(30);

/// What happens to the loan of 50 GiB of a borrower that never reacts, second by second, while its
/// owner waits for 30 GiB.
fn ladder(borrower: impl Fn(u64, Tenant) -> Tenant) -> Vec<(u64, Option<Act>, Rung, u64)> {
    let owner = wishes(tenant(40, 40, 10), 30, 0);
    let mut called = None;
    let mut told = Vec::new();
    for second in 0..=30 {
        let borrower = borrower(second, Tenant { called, ..tenant(20, 80, 70) });
        let now = Timestamp::new(second * 1000);
        let decided = decide(gib(80), DEADLINE, &[owner, borrower], now);
        called = decided[1].called;
        let rung = called.expect("its loan is called").rung;
        let is_new = told.last().is_none_or(|last: &(u64, _, Rung, u64)| last.2 != rung);
        if decided[1].act.is_some() || is_new {
            told.push((second, decided[1].act, rung, decided[1].grant.bytes.get() >> 30));
        }
        assert_eq!(decided[0].is_late, second == 30);
    }
    told
}

#[test]
fn a_called_loan_climbs_the_ladder() {
    let [notify, cap] = [(0, Some(Act::Notify), Rung::Notify, 70), (5, None, Rung::Cap, 50)];
    let stop = (20, Some(Act::Stop), Rung::Stop, 50);
    assert_eq!(ladder(|_, it| it), [notify, cap, stop]);
    let pausable = |it| Tenant { can_pause: true, ..it };
    let pause = |second| (second, Some(Act::Pause), Rung::Pause, 50);
    assert_eq!(ladder(|_, it| pausable(it)), [notify, cap, pause(10), stop]);
    let leaves = |second, it| Tenant { is_leaving: second >= 11, ..pausable(it) };
    assert_eq!(ladder(leaves), [notify, cap, pause(10)], "it is being paused");
    let movable = |it| Tenant { can_move: true, ..pausable(it) };
    let moved = (10, Some(Act::Move), Rung::Move, 50);
    let moves = |second, it| Tenant { is_leaving: second >= 11, ..movable(it) };
    assert_eq!(ladder(moves), [notify, cap, moved], "it is being moved");
    // There was no device for it after all.
    let refused = |second, it| Tenant { can_move: second < 11, ..pausable(it) };
    assert_eq!(ladder(refused), [notify, cap, moved, pause(11), stop]);
    let stays = |second, it| Tenant { can_move: second < 11, ..it };
    assert_eq!(ladder(stays), [notify, cap, moved, stop], "no pause is allowed");
}

#[test]
fn a_task_that_departs_gives_its_loan_back_first() {
    let at = |second: u64, departs: Tenant| {
        let now = Timestamp::new(second * 1000);
        decide(gib(80), DEADLINE, &[departs], now)[0]
    };
    let departs = Tenant { departs: true, ..tenant(40, 80, 60) };
    let now = at(0, departs);
    let called = now.called.expect("its loan is called");
    assert_eq!((called.keep, now.act), (gib(40), Some(Act::Notify)));
    let called = |rung| Some(Called { rung, ..called });
    // It may not grow, not even where memory is free.
    let capped = at(5, Tenant { called: called(Rung::Notify), ..wishes(departs, 70, 0) });
    assert_eq!((capped.grant.bytes, capped.grant.wish), (gib(40), Some(WishAnswer::No)));
    let gave = Tenant { used: gib(40), called: called(Rung::Cap), ..departs };
    assert_eq!(at(6, gave).act, Some(Act::Leave));
    // It keeps the loan: it leaves with it.
    assert_eq!(at(9, Tenant { called: called(Rung::Cap), ..departs }).act, None);
    let kept = Tenant { called: called(Rung::Cap), ..departs };
    assert_eq!(at(10, kept).act, Some(Act::Leave));
    let leaving = Tenant { called: called(Rung::Move), is_leaving: true, ..departs };
    assert_eq!(at(30, leaving).act, None);
}

#[test]
fn a_call_ends_with_the_wish_and_the_next_begins_anew() {
    let owner = tenant(40, 40, 10);
    let since = Timestamp::new(0);
    let called = |keep, rung| Some(Called { since, keep: gib(keep), rung });
    let at = |second: u64, owner, borrower| {
        decide(gib(80), DEADLINE, &[owner, borrower], Timestamp::new(second * 1000))[1]
    };
    // Its owner ended while it waited.
    let borrower = Tenant { called: called(50, Rung::Cap), ..tenant(20, 80, 70) };
    let Decision { called: none, act, .. } = at(9, owner, borrower);
    assert_eq!((none, act), (None, Some(Act::Back)));
    // It gave back all that was asked, and more is asked.
    let borrower = Tenant { called: called(50, Rung::Cap), ..tenant(20, 80, 50) };
    let again = at(9, wishes(tenant(40, 40, 30), 35, 9000), borrower);
    let anew = Called { since: Timestamp::new(9000), keep: gib(45), rung: Rung::Notify };
    assert_eq!((again.called, again.act), (Some(anew), Some(Act::Notify)));
    // More is asked before it gave back the rest.
    let borrower = Tenant { called: called(50, Rung::Cap), ..tenant(20, 80, 60) };
    let more = at(9, wishes(tenant(40, 40, 10), 40, 0), borrower);
    assert_eq!((more.called, more.act), (called(40, Rung::Cap), Some(Act::Notify)));
}

#[test]
fn a_call_goes_on_at_the_same_borrower() {
    let owner = wishes(tenant(20, 20, 0), 10, 0);
    let [mut larger, other] = [tenant(10, 80, 42), tenant(10, 80, 38)];
    let first = decide(gib(80), DEADLINE, &[owner, larger, other], Timestamp::new(0));
    larger.called = first[1].called;
    // It freed some: now the other's loan is larger.
    larger.used = gib(35);
    let next = decide(gib(80), DEADLINE, &[owner, larger, other], Timestamp::new(1000));
    assert_eq!(next.iter().map(|it| it.called.is_some()).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_guarantee_waits_for_memory_that_is_kept_for_a_task_that_left() {
    let owner = wishes(tenant(40, 40, 10), 40, 0);
    let now = grants(&[owner, Tenant::leaving(gib(60))]);
    assert_eq!(now[0], (20, Some(WishAnswer::Wait)));
}

#[test]
fn without_loans_a_guarantee_is_granted_even_if_the_driver_keeps_more() {
    let owner = wishes(tenant(50, 50, 20), 50, 0);
    assert_eq!(grants(&[owner, tenant(40, 40, 40)])[0], (50, Some(WishAnswer::Yes)));
}

#[test]
fn a_guarantee_that_is_not_met_is_given_up_after_twice_the_deadline() {
    let owner = wishes(tenant(40, 40, 10), 30, 0);
    let borrower = Tenant { is_leaving: true, ..tenant(20, 80, 70) };
    let at = |second: u64| {
        let now = Timestamp::new(second * 1000);
        decide(gib(80), DEADLINE, &[owner, borrower], now)[0].grant.wish
    };
    assert_eq!([at(59), at(60)], [Some(WishAnswer::Wait), Some(WishAnswer::No)]);
}
