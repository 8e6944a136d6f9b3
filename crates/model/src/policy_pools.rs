//! Pools that have a policy of their own: of six settings, by which jobs are ordered and placed.

use std::collections::BTreeMap;

use crate::id::PoolName;
use crate::policy::Policy;

impl Policy {
    /// The one that decides about jobs that name a pool, or none.
    #[must_use]
    pub fn of_pool(&self, pool: Option<&PoolName>) -> &Self {
        pool.and_then(|pool| self.pools.get(pool)).unwrap_or(self)
    }

    /// Where a job stands that names a pool, or none: the pool, if that has a policy of its own.
    #[must_use]
    pub fn domain<'a>(&self, pool: Option<&'a PoolName>) -> Option<&'a PoolName> {
        pool.filter(|pool| self.pools.contains_key(*pool))
    }

    /// It, and those of pools.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        self.pools.values().chain([self])
    }

    /// This one with what `other` says of order and place.
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
            pools: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Lets the policies of pools say of users and projects what this one does.
    pub fn align_pools(&mut self) {
        let pools = std::mem::take(&mut self.pools);
        let aligned = pools.into_iter().map(|(pool, own)| (pool, self.with_order_of(&own)));
        self.pools = aligned.collect();
    }
}
