//! Task slots that nodes keep for jobs with GPUs. The rules know task slots of one kind only, so no
//! more jobs without GPUs are offered to them than can have one.

use gpool_model::plan::Fit;
use gpool_model::{Reason, ResourceKind};

use crate::board::{Board, NodeBoard};

/// The slots that tasks without GPUs can have at once, where a node keeps others.
pub(super) struct PlainSlots {
    left: u64,
    /// A node that keeps slots, by its position on the board; `None` where none does.
    kept_by: Option<usize>,
}

impl PlainSlots {
    pub fn of(board: &Board<'_>) -> Self {
        let open = || board.nodes.iter().enumerate().filter(|(_, it)| it.row.node.takes_work());
        let keeps =
            |(_, it): &(usize, &NodeBoard<'_>)| it.row.node.plain_tasks() < it.row.node.tasks();
        let free = |(_, it): (usize, &NodeBoard<'_>)| it.free.get(&ResourceKind::PlainTasks);
        let left = open().map(free).fold(0, u64::saturating_add);
        Self { left, kept_by: open().find(keeps).map(|(at, _)| at) }
    }

    /// Why a job is not offered, if it would need more than is left.
    pub fn short(&self, board: &Board<'_>, fit: &Fit) -> Option<Reason> {
        let at = self.kept_by.filter(|_| needed(fit) > self.left)?;
        let node = &board.nodes[at].row.node;
        Some(Reason::SlotsKeptForGpus {
            node: node.name.clone(),
            need: u64::from(fit.gang.tasks_per_node),
            free: self.left,
            most: node.plain_tasks(),
            slots: node.tasks(),
        })
    }

    /// A job is offered.
    pub fn take(&mut self, fit: &Fit) {
        self.left = self.left.saturating_sub(needed(fit));
    }
}

fn needed(fit: &Fit) -> u64 {
    if fit.gpus.is_none() { u64::from(fit.gang.n_tasks()) } else { 0 }
}
