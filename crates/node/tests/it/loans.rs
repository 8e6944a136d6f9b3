//! Loans of memory on one device: what each task may use, and how loans come back.

use gpool_model::unit::{Bytes, Timestamp};
use gpool_node::loans::{Answer, Tenant, Wish, divide};
use proptest::prelude::*;

/// In GiB.
fn tenant(request: u32, limit: u32, used: u32) -> Tenant {
    Tenant {
        request: gib(request),
        limit: gib(limit),
        used: gib(used),
        wish: None,
        priority: 0,
        started_at: Timestamp::new(0),
    }
}

fn gib(amount: u32) -> Bytes {
    Bytes::from_gib(amount)
}

fn wishes(tenant: Tenant, total: u32, since: u64) -> Tenant {
    Tenant { wish: Some(Wish { total: gib(total), since: Timestamp::new(since) }), ..tenant }
}

/// The grants in GiB, and the answers.
fn grants(tenants: &[Tenant]) -> Vec<(u64, Option<Answer>)> {
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
    assert_eq!(grants(&[wishes(alone, 64, 0)]), [(64, Some(Answer::Yes))]);
    assert_eq!(grants(&[wishes(alone, 65, 0)]), [(20, Some(Answer::No))]);
}

#[test]
fn unused_guarantees_are_lent_and_come_back() {
    let idle = tenant(40, 40, 10);
    let borrower = wishes(tenant(20, 80, 20), 70, 0);
    assert_eq!(grants(&[idle, borrower]), [(10, None), (70, Some(Answer::Yes))]);
    // Above the free memory.
    let borrower = wishes(tenant(20, 80, 20), 71, 0);
    assert_eq!(grants(&[idle, borrower]), [(40, None), (20, Some(Answer::No))]);
    // The owner needs its memory: the loan is called, and the borrower can't grow.
    let owner = wishes(idle, 30, 0);
    let borrower = wishes(tenant(20, 80, 70), 71, 0);
    assert_eq!(kept(&[owner, borrower]), [None, Some(50)]);
    let now = grants(&[owner, borrower]);
    assert_eq!(now, [(10, Some(Answer::Wait)), (50, Some(Answer::No))]);
    // It has freed some, which goes to the owner.
    let now = grants(&[owner, tenant(20, 80, 60)]);
    assert_eq!(now, [(20, Some(Answer::Wait)), (50, None)]);
    let now = grants(&[owner, tenant(20, 80, 50)]);
    assert_eq!(now, [(30, Some(Answer::Yes)), (50, None)]);
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
        let Some(ix) = both.iter().position(|it| it.wish == Some(Answer::Yes)) else { panic!() };
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
    assert_eq!(now, [(0, Some(Answer::Wait)), (60, None), (10, Some(Answer::Yes))]);
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
            wish: waits.then_some(wish),
            priority,
            started_at: Timestamp::new(since),
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
            prop_assert!(!(is_guaranteed && grant.wish == Some(Answer::No)));
        }
        // What waits is met once the loans are back.
        let waits = |ix: usize| grants[ix].wish == Some(Answer::Wait);
        let mut later = tenants.clone();
        for (tenant, grant) in later.iter_mut().zip(&grants) {
            tenant.used = grant.keep.unwrap_or(tenant.used);
        }
        let after = divide(memory, &later);
        for ix in (0..tenants.len()).filter(|ix| waits(*ix)) {
            prop_assert_eq!(after[ix].wish, Some(Answer::Yes), "{:?} {:?}", &later, &after);
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
            Some(Answer::Yes) => grants[ix].bytes.saturating_sub(entitled(tenant)),
            _ => Bytes::ZERO,
        });
        for (tenant, grant) in tenants.iter().zip(&grants) {
            let Some(wish) = tenant.wish.filter(|it| it.total <= tenant.limit) else { continue };
            if grant.wish == Some(Answer::No) {
                prop_assert!(wish.total.get() - tenant.used.get() + needed + lent > 80);
            }
        }
    }
}
