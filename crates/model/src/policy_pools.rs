//! Policies of single pools: settings for the queue order and placement of jobs.

use std::collections::BTreeMap;

use crate::id::PoolName;
use crate::policy::Policy;

impl Policy {
    /// The policy that applies to jobs that name this pool, or none.
    #[must_use]
    pub fn of_pool(&self, pool: Option<&PoolName>) -> &Self {
        pool.and_then(|pool| self.pools.get(pool)).unwrap_or(self)
    }

    /// The domain of jobs that name this pool, or none: the pool, if it has a policy of its own.
    #[must_use]
    pub fn domain<'a>(&self, pool: Option<&'a PoolName>) -> Option<&'a PoolName> {
        pool.filter(|pool| self.pools.contains_key(*pool))
    }

    /// This policy and those of its pools.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        self.pools.values().chain([self])
    }

    /// Whether jobs do not accept all others on their devices in some pool.
    #[must_use]
    pub fn has_share_rule(&self) -> bool {
        self.all().any(|policy| !policy.share_with.is_anyone())
    }

    /// This policy with the queue order and placement of `other`.
    #[must_use]
    pub fn with_order_of(&self, other: &Self) -> Self {
        Self {
            preset: other.preset.clone(),
            order: other.order.clone(),
            escalate_after: other.escalate_after,
            device_strategy: other.device_strategy,
            planned_starts: other.planned_starts,
            attained_levels: other.attained_levels.clone(),
            min_run: other.min_run,
            consolidate: other.consolidate,
            mig_auto: other.mig_auto,
            share_with: other.share_with,
            idle: other.idle,
            over_limit: other.over_limit,
            pools: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Copies the settings about users and projects into the policies of pools.
    pub fn align_pools(&mut self) {
        let pools = std::mem::take(&mut self.pools);
        let aligned = pools.into_iter().map(|(pool, own)| (pool, self.with_order_of(&own)));
        self.pools = aligned.collect();
    }
}
