//! The cost of a set of victims.

use std::cmp::Reverse;

use gpool_model::Timestamp;
use gpool_model::attained::Level;

use super::evictable::Evictable;
use crate::capacity::Drawbacks;
use crate::fairshare::Ratio;
use crate::quota_state::GPUS;

/// The cost of a set of victims on a node; the least is chosen.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// The least level of GPU-time among them, where the policy's order asks for that: a victim
    /// that has had less than jobs that stay would replace these in turn.
    level: Reverse<Level>,
    /// The submission of the oldest, where the policy's order asks for GPU-time.
    came_at: Option<Reverse<Timestamp>>,
    /// More than twice the demand would leave.
    is_wasteful: bool,
    /// The share of the project that is least over its share.
    saturation: Reverse<Ratio>,
    gpus: u64,
    priority: i32,
    /// Work that has to run again, and the work of guests that stand still while they leave the
    /// devices of the demand.
    lost: u64,
    n_jobs: usize,
    node_pos: usize,
}

impl Cost {
    /// Whether it is less than any cost of victims of projects that are no further over their
    /// shares than that.
    pub fn is_below(&self, saturation: Reverse<Ratio>) -> bool {
        self.level == Reverse(0) && !self.is_wasteful && self.saturation < saturation
    }
}

/// Returns the cost of these victims for a demand with that charge, by kind, on devices with these
/// drawbacks.
pub(crate) fn cost(
    victims: &[&Evictable],
    charge: &[u64],
    drawbacks: Drawbacks,
    node_pos: usize,
) -> Cost {
    let gpus: u64 = victims.iter().map(|it| it.amounts[GPUS]).sum();
    let orders = || victims.iter().map(|it| it.order);
    Cost {
        level: orders().map(|it| it.level).max().unwrap_or(Reverse(0)),
        came_at: orders().map(|it| it.came_at).max().flatten(),
        is_wasteful: gpus > charge[GPUS].saturating_mul(2),
        saturation: orders().map(|it| it.saturation).max().expect("there is a victim"),
        gpus,
        priority: orders().map(|it| it.priority).max().unwrap_or(0),
        lost: orders().map(|it| it.lost).fold(drawbacks.lost, u64::saturating_add),
        n_jobs: victims.len(),
        node_pos,
    }
}
