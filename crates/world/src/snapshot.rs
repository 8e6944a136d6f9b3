//! What the scheduler reads: a view, not a copy.

use gpool_model::Timestamp;

use crate::world::World;

/// The state of the cluster at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// The state, advanced to `now` ([`World::advance`]).
    pub world: &'a World,
    pub now: Timestamp,
}
