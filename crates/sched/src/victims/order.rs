//! Who goes first to make room on a node, and what it costs.

use std::cmp::Reverse;

use gpool_model::attained::Level;
use gpool_model::{JobId, ResourceKind, Timestamp};

use crate::dominant_share::DominantShare;
use crate::pipeline::reclaim::Lent;
use crate::quota_state::Projects;

/// Who goes first: whose project is furthest over its share, then the lower priority, then what
/// makes others larger or has had most GPU-time, then what loses least work, then the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoesFirst {
    pub saturation: Reverse<DominantShare>,
    pub priority: i32,
    /// Whether it is a job by itself, and does not make another one larger.
    pub stays: bool,
    /// How much GPU-time it has had, where the order asks for that.
    pub level: Reverse<Level>,
    /// When it came, where the order asks for GPU-time.
    pub came_at: Option<Reverse<Timestamp>>,
    /// Thousandths of a device times milliseconds that have to be run again.
    pub lost: u64,
    pub started_at: Reverse<Timestamp>,
    pub job: Reverse<JobId>,
}

/// What making room on a node would cost; the least is chosen.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// Of who has had least GPU-time, where that is asked: whoever had less than others that stay
    /// would go before those in turn, and so many would change places for one.
    level: Reverse<Level>,
    /// When the oldest of them came, where that is asked.
    came_at: Option<Reverse<Timestamp>>,
    /// More than twice of what is asked for would go.
    is_wasteful: bool,
    /// Of who is furthest from being over its share.
    saturation: Reverse<DominantShare>,
    gpus: u64,
    priority: i32,
    lost: u64,
    n_jobs: usize,
    node_pos: usize,
}

impl Cost {
    /// Whether it is less than any cost there is where nobody is further over its share than that.
    pub fn is_below(&self, saturation: Reverse<DominantShare>) -> bool {
        self.level == Reverse(0) && !self.is_wasteful && self.saturation < saturation
    }
}

/// What it costs that these go so that something is there which counts for `unit`, by kind.
pub(crate) fn cost(projects: &Projects, victims: &[&Lent], unit: &[u64], node_pos: usize) -> Cost {
    let gpus_at = projects.position(&ResourceKind::Gpu);
    let gpus: u64 = victims.iter().map(|it| it.amounts[gpus_at]).sum();
    let orders = || victims.iter().map(|it| it.order);
    Cost {
        level: orders().map(|it| it.level).max().unwrap_or(Reverse(0)),
        came_at: orders().map(|it| it.came_at).max().flatten(),
        is_wasteful: gpus > unit[gpus_at].saturating_mul(2),
        saturation: orders().map(|it| it.saturation).max().expect("somebody goes"),
        gpus,
        priority: orders().map(|it| it.priority).max().unwrap_or(0),
        lost: orders().map(|it| it.lost).fold(0, u64::saturating_add),
        n_jobs: victims.len(),
        node_pos,
    }
}
