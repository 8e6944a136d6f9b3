//! A copy of the world for readers, while the world itself changes. Both share the rows of jobs
//! until these change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::outbox::Outbox;
use crate::world::World;

impl World {
    /// Returns a copy of the world as it is now. It leaves out what no reader uses: answered
    /// requests, subscriptions and messages on their way, and changes that are not committed yet.
    #[must_use]
    pub fn still(&self) -> Self {
        Self {
            revision: self.revision,
            cluster: self.cluster.clone(),
            policy: self.policy.clone(),
            clock: self.clock,
            projects: self.projects.clone(),
            n_capping: self.n_capping,
            n_limiting_slots: self.n_limiting_slots,
            holdings: self.holdings.clone(),
            nodes: self.nodes.clone(),
            node_by_name: self.node_by_name.clone(),
            nodes_in_order: self.nodes_in_order.clone(),
            jobs: self.jobs.clone(),
            queue: self.queue.clone(),
            pending_by_like: self.pending_by_like.clone(),
            holding: self.holding.clone(),
            asks: self.asks.clone(),
            claimants: self.claimants.clone(),
            leaving: self.leaving.clone(),
            dependents: self.dependents.clone(),
            dependencies: self.dependencies.clone(),
            elements: self.elements.clone(),
            n_element_rows: self.n_element_rows,
            n_arrays: self.n_arrays,
            n_with_share_rule: self.n_with_share_rule,
            gangs: self.gangs.clone(),
            groups: self.groups.clone(),
            n_by_state: self.n_by_state.clone(),
            users: self.users.clone(),
            timers: self.timers.clone(),
            rotations: self.rotations.clone(),
            recent_ends: self.recent_ends.clone(),
            recent_arrays: self.recent_arrays.clone(),
            recent_order: VecDeque::new(),
            ends: self.ends.clone(),
            past: self.past.clone(),
            requests: BTreeMap::new(),
            reservations: self.reservations.clone(),
            drained: self.drained.clone(),
            alarms: self.alarms.clone(),
            requests_by_age: BTreeSet::new(),
            requests_of: BTreeMap::new(),
            outbox: Outbox::default(),
            subscriptions: BTreeMap::new(),
            changed: BTreeSet::new(),
            n_changes: self.n_changes,
            ended: Vec::new(),
        }
    }
}
