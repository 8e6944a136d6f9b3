//! What it costs to make room on a node.

use std::cmp::Reverse;

use gpool_model::ResourceKind;
use gpool_model::attained::Level;

use crate::evict::Lent;
use crate::projects::Projects;
use crate::saturation::Saturation;

/// What making room on a node would cost; the least is chosen.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// More than twice of what is asked for would go.
    is_wasteful: bool,
    /// Of who is furthest from being over its share.
    saturation: Reverse<Saturation>,
    /// Of who has had least GPU-time.
    level: Reverse<Level>,
    gpus: u64,
    priority: i32,
    lost: u64,
    n_jobs: usize,
    board_ix: usize,
}

impl Cost {
    /// Whether it is less than any cost there is where nobody is further over its share than that.
    pub fn is_below(&self, saturation: Reverse<Saturation>) -> bool {
        !self.is_wasteful && self.saturation < saturation
    }
}

/// What it costs that these go so that something is there which counts for `unit`, by kind.
pub(crate) fn cost(projects: &Projects, victims: &[&Lent], unit: &[u64], board_ix: usize) -> Cost {
    let gpus_at = projects.position(&ResourceKind::Gpu);
    let gpus: u64 = victims.iter().map(|it| it.amounts[gpus_at]).sum();
    let orders = || victims.iter().map(|it| it.order);
    Cost {
        is_wasteful: gpus > unit[gpus_at].saturating_mul(2),
        saturation: orders().map(|it| it.saturation).max().expect("somebody goes"),
        level: orders().map(|it| it.level).max().unwrap_or(Reverse(0)),
        gpus,
        priority: orders().map(|it| it.priority).max().unwrap_or(0),
        lost: orders().map(|it| it.lost).fold(0, u64::saturating_add),
        n_jobs: victims.len(),
        board_ix,
    }
}
