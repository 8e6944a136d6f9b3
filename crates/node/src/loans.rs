//! Divides the memory of one device among the tasks that share it. A task is guaranteed its
//! request. Unused memory is lent above a request, up to the limit. When a task needs its
//! guaranteed memory, loans are called back, but never for another loan.
//!
//! [`decide`] adds the time: a borrower that keeps a called loan is asked ever more strongly. The
//! functions keep nothing, so the agent calls them after each change, and a restarted agent
//! continues from the driver's figures.

use std::cmp::Reverse;

use gpool_model::unit::{Bytes, Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// A task on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// The memory that it is guaranteed.
    pub request: Bytes,
    /// The most memory that it may use; at least the request.
    pub limit: Bytes,
    /// The memory that it uses, by the larger of the driver's and its own figure.
    pub used: Bytes,
    /// The memory that it may use without asking, by the last decision.
    pub granted: Bytes,
    /// An allocation that waits for an answer.
    pub wish: Option<Wish>,
    /// Its priority; loans of a lower one are called back first.
    pub priority: i32,
    /// When it started; loans of a newer task are called back first.
    pub started_at: Timestamp,
    /// The call for its loan, if there is one.
    pub called: Option<Called>,
    /// Whether it can be moved to a device with room, to free its memory.
    pub can_move: bool,
    /// Whether it can be paused to free its memory.
    pub can_pause: bool,
    /// Whether it is being moved or paused: its memory is about to be free.
    pub is_leaving: bool,
    /// Whether it has to leave the device: all of its loan is called back before that.
    pub departs: bool,
}

/// A call for a loan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    pub since: Timestamp,
    /// The memory that the task may keep.
    pub keep: Bytes,
    /// The last rung that was reached.
    pub rung: Rung,
}

/// The rungs of a call, in order. Each begins at a part of the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Rung {
    /// The task learns how much it may keep.
    Notify,
    /// None of its allocations succeeds before it uses less.
    Cap,
    /// It is moved to a device with room, if it can be.
    Move,
    /// It is paused, if it can be and can't be moved.
    Pause,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Its memory, and the answer to its wish.
    pub grant: Grant,
    /// The call for its loan from now on.
    pub called: Option<Called>,
    pub act: Option<Act>,
    /// Whether its guaranteed wish has waited for the whole deadline.
    pub is_late: bool,
}

/// An action on a borrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Tell it how much it may keep.
    Notify,
    /// Move it to a device with room. If that fails, it can't be moved from then on.
    Move,
    Pause,
    Stop,
    /// Tell it that the call is over.
    Back,
    /// Let it leave the device: it departs, and its loan is back or kept too long.
    Leave,
}

/// An allocation that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// The memory that the task would use with it.
    pub total: Bytes,
    /// Since when it waits; the oldest is served first.
    pub since: Timestamp,
}

/// The answer for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The memory that it may use without asking. If it uses more, it may not grow.
    pub bytes: Bytes,
    /// The memory that it may keep, if its loan is called back; at least the request.
    pub keep: Option<Bytes>,
    pub wish: Option<WishAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WishAnswer {
    /// The grant covers it.
    Yes,
    /// It is guaranteed, and waits for loans that are called back, or for memory that no task of
    /// gpool uses.
    Wait,
    /// It is above the limit, or above the request and nothing is free.
    No,
}

impl Tenant {
    /// A task that left the device with a loan, and may come back: its memory is kept for it, and
    /// those that need it wait.
    #[must_use]
    pub fn leaving(used: Bytes) -> Self {
        Self {
            request: Bytes::ZERO,
            limit: used,
            used,
            granted: Bytes::ZERO,
            wish: None,
            priority: 0,
            started_at: Timestamp::ZERO,
            called: None,
            can_move: false,
            can_pause: false,
            is_leaving: true,
            departs: false,
        }
    }

    /// The memory that it uses above its request.
    #[must_use]
    pub fn loan(&self) -> Bytes {
        self.used.saturating_sub(self.request)
    }

    /// Whether its memory is about to be free.
    fn leaves(&self) -> bool {
        self.is_leaving || self.departs
    }

    /// The guaranteed memory that it needs now. A wish above the request is a loan as a whole.
    fn entitled(&self) -> Bytes {
        let wish = self.wish.filter(|wish| wish.total <= self.request);
        wish.map_or(self.used, |wish| wish.total.max(self.used))
    }

    /// The most that it can use now.
    fn demand(&self) -> Bytes {
        let wish = self.wish.filter(|wish| wish.total <= self.limit);
        wish.map_or(self.used, |wish| wish.total.max(self.used))
    }
}

/// Divides `memory`, all memory of a device that the tasks can use, among its tenants. The grants,
/// by tenant, never exceed the memory together, unless the tenants use more already.
///
/// An agent first applies the grants that are lower than before, then reads the use again: a task
/// may have grown meanwhile.
#[must_use]
pub fn divide(memory: Bytes, tenants: &[Tenant]) -> Vec<Grant> {
    let entitled: Vec<Bytes> = tenants.iter().map(Tenant::entitled).collect();
    let needed = sum(entitled.iter().copied());
    let (bytes, keep) = match memory.checked_sub(needed) {
        Some(free) => (lend(free, tenants, entitled), vec![None; tenants.len()]),
        // More is promised than there is, and nothing is lent: the driver decides, unless some
        // memory is about to be free.
        None if tenants.iter().all(|it| it.loan().is_zero() && !it.leaves()) => {
            let bytes = tenants.iter().map(|tenant| tenant.used.max(tenant.request));
            (bytes.collect(), vec![None; tenants.len()])
        }
        None => {
            let keep = call_back(needed.saturating_sub(memory), tenants);
            (serve(memory, tenants, &keep), keep)
        }
    };
    let grants = tenants.iter().zip(bytes).zip(keep);
    grants
        .map(|((tenant, bytes), keep)| {
            let (bytes, keep) = match tenant.departs {
                false => (bytes, keep),
                // Where it goes, only its request is certain.
                true if tenant.loan().is_zero() => (bytes.min(tenant.request), None),
                true => (tenant.request, Some(tenant.request)),
            };
            Grant { bytes, keep, wish: answer(tenant, bytes) }
        })
        .collect()
}

/// Divides `memory` as [`divide`] does, and moves each call for a loan to the rung of its time. All
/// loans that a task needs for its guaranteed memory are back within `deadline`, or it is late. It
/// waits twice as long at most.
#[must_use]
pub fn decide(
    memory: Bytes,
    deadline: Millis,
    tenants: &[Tenant],
    now: Timestamp,
) -> Vec<Decision> {
    let grants = divide(memory, tenants);
    let decision = |(tenant, mut grant): (&Tenant, Grant)| {
        let called = grant.keep.map(|keep| call(tenant, keep, deadline, now));
        if called.is_some_and(|called| called.rung == Rung::Notify) {
            grant.bytes = tenant.used;
        }
        let waits = tenant.wish.filter(|_| grant.wish == Some(WishAnswer::Wait));
        let waited = waits.map_or(Millis::ZERO, |wish| now.since(wish.since));
        if waited >= deadline.saturating_add(deadline) && waits.is_some() {
            grant.wish = Some(WishAnswer::No);
        }
        let is_late = waits.is_some() && waited >= deadline;
        Decision { grant, called, act: act(tenant, called), is_late }
    };
    tenants.iter().zip(grants).map(decision).collect()
}

/// The call for a loan, at the rung of its time.
fn call(tenant: &Tenant, keep: Bytes, deadline: Millis, now: Timestamp) -> Called {
    // A task that gave back everything that was called begins anew.
    let before = tenant.called.filter(|it| tenant.used > it.keep || it.rung >= Rung::Move);
    let since = before.map_or(now, |before| before.since);
    let due = Rung::at(now.since(since), deadline);
    let reached = match due {
        Rung::Notify | Rung::Cap => due,
        // It leaves with its loan, which then has to find room.
        _ if tenant.departs => Rung::Move,
        // Its memory is on its way to elsewhere, and would be lost for nothing.
        Rung::Stop if !tenant.is_leaving => Rung::Stop,
        _ if tenant.can_move => Rung::Move,
        _ if tenant.can_pause => Rung::Pause,
        _ => Rung::Cap,
    };
    let rung = before.map_or(reached, |before| reached.max(before.rung));
    Called { since, keep, rung }
}

fn act(tenant: &Tenant, called: Option<Called>) -> Option<Act> {
    let leaves = tenant.departs && !tenant.is_leaving;
    let Some(called) = called else {
        return if leaves { Some(Act::Leave) } else { tenant.called.map(|_| Act::Back) };
    };
    if leaves && called.rung >= Rung::Move {
        return Some(Act::Leave);
    }
    let before = tenant.called.filter(|before| before.since == called.since);
    match (before.map(|before| before.rung), called.rung) {
        (Some(before), rung) if before == rung => {
            let is_less =
                before <= Rung::Cap && tenant.called.is_some_and(|it| called.keep < it.keep);
            is_less.then_some(Act::Notify)
        }
        (None, Rung::Notify | Rung::Cap) => Some(Act::Notify),
        (Some(_), Rung::Notify | Rung::Cap) => None,
        (_, Rung::Move) => Some(Act::Move),
        (_, Rung::Pause) => Some(Act::Pause),
        (_, Rung::Stop) => Some(Act::Stop),
    }
}

impl Rung {
    fn at(waited: Millis, deadline: Millis) -> Self {
        let (waited, sixth) = (waited.get(), deadline.get() / 6);
        match waited {
            _ if waited >= sixth.saturating_mul(4) => Self::Stop,
            _ if waited >= sixth.saturating_mul(2) => Self::Move,
            _ if waited >= sixth => Self::Cap,
            _ => Self::Notify,
        }
    }

    /// The time between TERM and KILL of a task that is stopped.
    #[must_use]
    pub fn grace(deadline: Millis) -> Millis {
        Millis::new(deadline.get() / 6)
    }
}

fn answer(tenant: &Tenant, granted: Bytes) -> Option<WishAnswer> {
    tenant.wish.map(|wish| match wish.total {
        total if total <= granted => WishAnswer::Yes,
        total if total <= tenant.request => WishAnswer::Wait,
        _ => WishAnswer::No,
    })
}

/// Lends free memory to those that wish for more than their request, and lets those that use less
/// grow up to it without asking. The rest stays free for the next wish.
fn lend(mut free: Bytes, tenants: &[Tenant], mut granted: Vec<Bytes>) -> Vec<Bytes> {
    for ix in borrowers(tenants) {
        // Part of an allocation is of no use.
        let more = tenants[ix].demand().saturating_sub(granted[ix]);
        if let Some(left) = free.checked_sub(more) {
            granted[ix] = tenants[ix].demand();
            free = left;
        }
    }
    for (tenant, granted) in tenants.iter().zip(&mut granted) {
        let more = tenant.request.saturating_sub(*granted).min(free);
        *granted = granted.saturating_add(more);
        free = free.saturating_sub(more);
    }
    granted
}

/// The tenants that wish for more than their request and at most their limit. First those with the
/// smallest loan relative to the request, so that borrowers share in proportion to their requests,
/// then those that wait longest.
fn borrowers(tenants: &[Tenant]) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..tenants.len()).filter(|ix| tenants[*ix].demand() > tenants[*ix].entitled()).collect();
    order.sort_by(|one, other| {
        let [one, other] = [&tenants[*one], &tenants[*other]];
        let part = |tenant: &Tenant, of: &Tenant| {
            let loan = tenant.demand().saturating_sub(tenant.request);
            u128::from(loan.get()) * u128::from(of.request.get())
        };
        let since = |tenant: &Tenant| tenant.wish.map(|wish| wish.since);
        (part(one, other), since(one)).cmp(&(part(other, one), since(other)))
    });
    order
}

/// What each borrower may keep so that `missing` becomes free. Those that were called before give
/// first, so that no call begins again elsewhere; then the largest loan, the lowest priority and
/// the newest task. Never below a request.
fn call_back(mut missing: Bytes, tenants: &[Tenant]) -> Vec<Option<Bytes>> {
    let mut order: Vec<usize> = (0..tenants.len()).collect();
    order.sort_by_key(|ix| {
        let tenant = &tenants[*ix];
        let called = tenant.called.map_or(Timestamp::MAX, |called| called.since);
        (called, Reverse(tenant.loan()), tenant.priority, Reverse(tenant.started_at))
    });
    let mut keep = vec![None; tenants.len()];
    for ix in order {
        let taken = tenants[ix].loan().min(missing);
        if !taken.is_zero() {
            keep[ix] = Some(tenants[ix].used.saturating_sub(taken));
            missing = missing.saturating_sub(taken);
        }
    }
    keep
}

/// The grants while loans are called back: free memory goes to the guaranteed wishes,
/// the oldest first, and no other task grows.
fn serve(memory: Bytes, tenants: &[Tenant], keep: &[Option<Bytes>]) -> Vec<Bytes> {
    let used = sum(tenants.iter().map(|tenant| tenant.used));
    let mut free = memory.saturating_sub(used);
    let mut grants: Vec<Bytes> =
        tenants.iter().zip(keep).map(|(tenant, keep)| keep.unwrap_or(tenant.used)).collect();
    let mut waiting: Vec<usize> =
        (0..tenants.len()).filter(|ix| tenants[*ix].entitled() > tenants[*ix].used).collect();
    waiting.sort_by_key(|ix| tenants[*ix].wish.map(|wish| wish.since));
    for ix in waiting {
        let more = tenants[ix].entitled().saturating_sub(tenants[ix].used).min(free);
        grants[ix] = grants[ix].saturating_add(more);
        free = free.saturating_sub(more);
    }
    grants
}

fn sum(bytes: impl IntoIterator<Item = Bytes>) -> Bytes {
    bytes.into_iter().fold(Bytes::ZERO, Bytes::saturating_add)
}
