//! Evictions and claims. An evicted job is ordered to leave, and the beneficiary claims the freed
//! devices. A claim waits for the tasks in its way ([`Control::in_the_way`]), for whatever reason
//! they leave. When they have left, the job starts like any other.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::agent::{Order, PartTasks, TaskOrder};
use gpool_model::job::StopCause;
use gpool_model::{
    Allocation, AllocationState, Exit, JobId, NodeName, PauseCause, Phase, Placement, PoolName,
    Sharer, TakenBack,
};
use gpool_world::JobRow;

use crate::control::Control;

/// Whether a job only claims its devices: no node knows about the job.
pub(crate) fn is_claim(allocations: &[Allocation]) -> bool {
    let claimed = |it: &Allocation| matches!(it.state, AllocationState::Claimed { .. });
    !allocations.is_empty() && allocations.iter().all(claimed)
}

/// Whether a task only claims its devices.
pub(crate) fn is_claimed(allocation: &Allocation) -> bool {
    matches!(allocation.state, AllocationState::Claimed { .. })
}

impl Control {
    /// Evicts a job for another.
    pub(crate) fn take_back(&mut self, job: JobId, why: TakenBack, beneficiary: JobId, exit: Exit) {
        match exit {
            Exit::Pause => self.pause_one(job, PauseCause::TakenBack { why, beneficiary }),
            Exit::Checkpoint | Exit::Requeue | Exit::Kill => {
                self.stop(job, StopCause::TakenBack { why, beneficiary, exit });
            }
        }
    }

    /// Starts the jobs that can have what they claim, once the agents there have reported: the
    /// server sends no orders to an agent before that.
    pub(crate) fn come_into_claims(&mut self) {
        if self.is_full {
            return;
        }
        let claimants: Vec<JobId> = self.world.claimants().collect();
        for id in claimants {
            let mut job = self.job(id);
            let goes_on = matches!(job.phase, Phase::Paused { .. });
            let (allocations, since) = match &mut job.phase {
                Phase::Starting { allocations, since }
                | Phase::Paused { allocations, since, .. } => (allocations, since),
                _ => continue,
            };
            let mut is_changed = false;
            for allocation in allocations.iter_mut() {
                let (node, slots) = (allocation.node.clone(), allocation.slots.clone());
                let AllocationState::Claimed { after } = &mut allocation.state else { continue };
                let before = after.clone();
                after.retain(|task| self.world.is_in_the_way(*task));
                if after.is_empty() {
                    // Another claim may have taken the room.
                    *after = self.in_the_way(id, &Placement { node, slots }, BTreeSet::new());
                }
                is_changed |= *after != before;
            }
            let waits = |it: &Allocation| match &it.state {
                AllocationState::Claimed { after } => {
                    let node = self.world.node(&it.node);
                    !after.is_empty() || !node.is_some_and(|row| row.node.is_reachable())
                }
                _ => false,
            };
            if allocations.iter().any(waits) {
                if is_changed {
                    self.put_job(job);
                }
                continue;
            }
            if goes_on {
                self.go_on_now(id);
                continue;
            }
            for allocation in allocations.iter_mut() {
                allocation.state = AllocationState::Placed;
            }
            *since = self.now;
            let allocations = allocations.clone();
            self.put_job(job);
            self.order_start(id, allocations);
        }
    }

    /// Requeues jobs that claim devices of a job which keeps them: its pause failed. Jobs that were
    /// about to resume on them stay paused.
    pub(crate) fn give_up_claims_on(&mut self, id: JobId) {
        let waits = |it: &Allocation| match &it.state {
            AllocationState::Claimed { after } => after.iter().any(|task| task.job == id),
            _ => false,
        };
        let has_claim = |claimant: &JobId| {
            let row = self.world.job(*claimant);
            row.is_some_and(|row| row.job.phase.allocations().iter().any(waits))
        };
        let claimants: Vec<JobId> = self.world.claimants().filter(has_claim).collect();
        for claimant in claimants {
            match self.job(claimant).phase {
                Phase::Starting { .. } => {
                    self.give_up_claim(claimant, &StopCause::TaskRefused { rank: 0 });
                }
                Phase::Paused { .. } => self.stay_paused(claimant),
                _ => {}
            }
        }
    }

    /// Requeues or ends a job that only claims its devices.
    pub(crate) fn give_up_claim(&mut self, id: JobId, cause: &StopCause) {
        let hold = match cause {
            StopCause::Requeued { hold, .. } => *hold,
            StopCause::TakenBack { .. }
            | StopCause::TaskFailed { .. }
            | StopCause::TaskRefused { .. } => false,
            StopCause::Cancelled { .. }
            | StopCause::TooManyFailed { .. }
            | StopCause::GangEnded { .. } => {
                return self.end_unstarted(id, cause.end_cause(), self.now);
            }
        };
        let mut job = self.job(id);
        let since = self.now;
        job.generation = job.generation.next();
        job.phase = match hold {
            true => Phase::Held { by: job.holder_next(), since, missing: None },
            false => Phase::Pending { since },
        };
        self.put_job(job);
    }

    /// Orders the nodes of a job to run its tasks.
    pub(crate) fn order_start(&mut self, id: JobId, allocations: Vec<Allocation>) {
        for allocation in allocations {
            let row = self.world.job(id).expect("only jobs that are there are started");
            let order = Box::new(self.task_order(row, &allocation));
            self.order(&allocation.node, Order::Run(order));
        }
    }

    /// Returns the order to run a task.
    pub(crate) fn task_order(&self, row: &JobRow, allocation: &Allocation) -> TaskOrder {
        let nodes = match row.job.phase.allocations() {
            [_] => Vec::new(),
            all => all.iter().map(|it| it.node.clone()).collect(),
        };
        let master_addr = row.spec.joins.as_ref().map_or(&nodes, |joins| &joins.nodes);
        let master_addr = self.master_addr(master_addr, &allocation.node);
        let pool = self.pool_of(&allocation.node);
        let spec = match row.spec.of_task(allocation.task.rank) {
            Cow::Borrowed(_) => Arc::clone(&row.spec),
            Cow::Owned(of_part) => Arc::new(of_part),
        };
        TaskOrder {
            term: self.world.cluster().term,
            generation: row.job.generation,
            has_gate: self.needs_gate(&spec, &pool),
            sharer: self.sharer(row, &pool),
            parts: row.spec.parts.iter().map(PartTasks::of).collect(),
            spec,
            allocation: allocation.clone(),
            pool,
            nodes,
            master_addr,
        }
    }

    /// Returns a job as others on devices of a pool see it. The agent knows no rules of pools.
    pub(crate) fn sharer(&self, row: &JobRow, pool: &PoolName) -> Option<Sharer> {
        let sharer = row.spec.sharer(row.spec.owner.uid)?;
        let of_pool = self.world.policy().of_pool(Some(pool)).share_with;
        let with = Some(sharer.with.unwrap_or(of_pool));
        Some(Sharer { with, priority: row.job.priority, ..sharer })
    }

    /// Returns the address at which a task on `own` reaches the first node of its gang: on the same
    /// machine that is localhost, whatever the names of the nodes.
    fn master_addr(&self, nodes: &[NodeName], own: &NodeName) -> String {
        let node = |name: &NodeName| self.world.node(name).map(|row| &row.node);
        let Some(first) = nodes.first() else { return "127.0.0.1".to_owned() };
        let address = |name| node(name).map_or("", |node| &*node.facts.address);
        let is_same = match (address(first), address(own)) {
            // Containers of one machine have its boot ID and addresses of their own.
            (one, other) if !one.is_empty() && !other.is_empty() => one == other,
            _ => node(first).map(|it| &it.boot_id) == node(own).map(|it| &it.boot_id),
        };
        match address(first) {
            _ if is_same || first == own => "127.0.0.1".to_owned(),
            "" => first.to_string(),
            address => address.to_owned(),
        }
    }
}
