//! Whether the memory of a task is on its devices while it is paused, for its loans or by the
//! server. Memory that comes back comes back as a whole, so it needs room first.

use std::cmp::Reverse;

use gpool_model::id::TaskId;
use gpool_model::unit::Bytes;
use serde::{Deserialize, Serialize};

use crate::loans::{Decision, Tenant};

/// Whether the memory of a task is on its devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryPresence {
    #[default]
    Here,
    /// It is about to be paused, because it keeps memory that was called back.
    Leaving,
    /// The task is paused for that.
    Away,
    /// The server paused the task.
    Paused,
    /// It is being restored after that.
    Returning,
    /// It is being restored, because the server resumed it.
    Resuming,
    /// A new agent found it off its devices, and its shepherd has not said yet what becomes of it:
    /// it may come to other devices, by an order of an earlier agent.
    Unsettled,
}

impl MemoryPresence {
    /// Whether the memory of the task is not on its devices.
    #[must_use]
    pub fn is_away(self) -> bool {
        matches!(self, Self::Away | Self::Paused)
    }

    /// Whether its memory is being restored. The other tasks must not grow meanwhile: a restore
    /// without room fails for ever.
    #[must_use]
    pub fn comes_back(self) -> bool {
        matches!(self, Self::Returning | Self::Resuming)
    }

    /// The presence after it was noted that the task is `next`.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        match (self, next) {
            // The server's order came meanwhile; the task returns when both agree.
            (Self::Away, Self::Paused) => Self::Away,
            _ => next,
        }
    }

    /// The presence of a task that could not leave its devices. It may be on its way back, or
    /// paused by the server, since the order to leave.
    #[must_use]
    pub fn stayed(self) -> Self {
        match self {
            Self::Leaving => Self::Here,
            _ => self,
        }
    }
}

/// The memory that a device reserves for absent tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// Whether memory is reserved for a task that is being restored.
    pub is_frozen: bool,
    /// By tenant, whether it is away, may come to other devices, or comes back and has no room yet.
    withheld: Vec<bool>,
}

/// Reserves the memory of tasks that are being restored, one after the other, where there is room
/// for all of it: first of those that have all of it granted, since their restore may have begun.
/// Of one without room only the request counts: the other tasks keep theirs.
pub fn reserve(usable: Bytes, tenants: &mut [(&mut Tenant, MemoryPresence)]) -> Reserved {
    let present = tenants.iter().filter(|(_, presence)| !presence.comes_back());
    let used = present.map(|(tenant, _)| tenant.used);
    let mut used = used.fold(Bytes::ZERO, Bytes::saturating_add);
    let mut is_frozen = false;
    let mut withheld: Vec<bool> =
        tenants.iter().map(|(_, it)| it.is_away() || *it == MemoryPresence::Unsettled).collect();
    let mut returning: Vec<usize> = (0..tenants.len()).collect();
    returning.retain(|ix| tenants[*ix].1.comes_back());
    returning.sort_by_key(|ix| tenants[*ix].0.granted < tenants[*ix].0.used);
    for ix in returning {
        let tenant = &mut *tenants[ix].0;
        let with_it = used.saturating_add(tenant.used);
        if with_it <= usable {
            // It comes back as a whole or not at all.
            tenant.request = tenant.request.max(tenant.used);
            tenant.limit = tenant.limit.max(tenant.request);
            (used, is_frozen) = (with_it, true);
        } else {
            tenant.used = tenant.used.min(tenant.request);
            withheld[ix] = true;
        }
    }
    Reserved { is_frozen, withheld }
}

impl Reserved {
    /// Keeps each task from growing while another one is being restored, and grants nothing to a
    /// task that is not on the device: a restore begins once all memory of the task is granted.
    pub fn apply<'t>(&self, plan: &mut [Decision], tenants: impl Iterator<Item = &'t Tenant>) {
        for (decision, tenant) in plan.iter_mut().zip(tenants).filter(|_| self.is_frozen) {
            decision.grant.bytes = decision.grant.bytes.min(tenant.used);
        }
        for (decision, _) in plan.iter_mut().zip(&self.withheld).filter(|(_, it)| **it) {
            decision.grant.bytes = Bytes::ZERO;
        }
    }
}

/// Whether a device has room for `needed` bytes of a task that was paused for its loans, without
/// memory that the `others` requested: otherwise it might have to leave at once.
///
/// Tasks that are away too do not hold each other up: those behind `task` in one order for all
/// devices of the node leave it the room of their requests. A task that the server paused has none:
/// the server gave its booking away, and loans are called back once it resumes.
pub fn can_return(
    usable: Bytes,
    needed: Bytes,
    task: (TaskId, &Tenant),
    others: impl Iterator<Item = (TaskId, Tenant, MemoryPresence)>,
) -> bool {
    let turn = |id: TaskId, tenant: &Tenant| (Reverse(tenant.priority), tenant.started_at, id);
    let own = turn(task.0, task.1);
    let counts = |(id, tenant, presence): &(TaskId, Tenant, MemoryPresence)| match presence {
        MemoryPresence::Paused => false,
        MemoryPresence::Away => turn(*id, tenant) < own,
        MemoryPresence::Here
        | MemoryPresence::Leaving
        | MemoryPresence::Returning
        | MemoryPresence::Resuming
        | MemoryPresence::Unsettled => true,
    };
    let taken = others.filter(counts).map(|(_, tenant, _)| tenant.used.max(tenant.request));
    taken.fold(needed, Bytes::saturating_add) <= usable
}
