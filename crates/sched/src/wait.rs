//! Why a fit has no place: the one reason that stands for a shape in a plan.

use std::cmp::Reverse;

use gpool_model::plan::Fit;
use gpool_model::{GpuRequest, NodeName, Reason};

use crate::board::{Board, NodeBoard, Room};

/// Why one task of that fit can't be placed on the board as it is.
pub(crate) fn reason(board: &Board<'_>, fit: &Fit) -> Reason {
    let Some(first_connected) = board.first_connected else {
        let node = board.nodes.first();
        return Reason::AgentUnreachable {
            node: node.map_or_else(|| NodeName::new("any"), |node| node.name().clone()),
        };
    };
    let need = fit.gpus.n_devices();
    if need > 0
        && let Some(reason) = kind_missing(board, fit)
    {
        let mut away = board.nodes.iter().filter(|node| !node.row.node.connected);
        let has_kind = |node: &&NodeBoard<'_>| most_of_a_kind(node, &fit.gpus) >= need;
        return match away.find(has_kind) {
            Some(node) => Reason::AgentUnreachable { node: node.name().clone() },
            None => reason,
        };
    }
    let answers = board.answers(&fit.gpus);
    let n_devices = usize::try_from(need).unwrap_or(usize::MAX);
    let most_free = |board_ix: usize| {
        let node = &board.nodes[board_ix];
        (0..answers.n_ranks).map(|rank| node.n_free_of(&answers, Some(rank))).max().unwrap_or(0)
    };
    let mut with_gpus: Vec<usize> =
        board.with_free(n_devices).filter(|board_ix| most_free(*board_ix) >= n_devices).collect();
    if !with_gpus.is_empty() {
        with_gpus.sort_unstable();
        let nodes: Vec<&NodeBoard<'_>> = with_gpus.into_iter().map(|ix| &board.nodes[ix]).collect();
        return short_beside(&nodes, fit);
    }
    // Elsewhere nothing is free. The first of equals in the order of names.
    let some_free = || board.with_free(1);
    let total: usize = some_free().map(|ix| board.nodes[ix].n_free_of(&answers, None)).sum();
    let most = some_free().map(|ix| (most_free(ix), Reverse(ix))).max();
    let none = (0, Reverse(first_connected));
    let (most, Reverse(at)) = most.filter(|(most, _)| *most > 0).unwrap_or(none);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    if count(total) >= need {
        let node = board.nodes[at].name().clone();
        Reason::GpusNotFreeTogether { need, free: count(most), node }
    } else {
        Reason::GpusNotFree { need, free: count(total) }
    }
}

/// Set where no connected node has as many devices of one kind, whoever holds them.
fn kind_missing(board: &Board<'_>, fit: &Fit) -> Option<Reason> {
    let connected = || board.nodes.iter().filter(|node| node.row.node.connected);
    let counts = || connected().map(|node| most_of_a_kind(node, &fit.gpus));
    let need = fit.gpus.n_devices();
    if counts().any(|count| count >= need) {
        return None;
    }
    let most = counts().max().unwrap_or(0);
    if let (0, Some(need)) = (most, fit.gpus.least_memory) {
        let devices = connected().flat_map(|node| &node.row.node.devices);
        let largest = devices.map(|device| device.memory).max().unwrap_or_default();
        return Some(Reason::GpuMemoryTooSmall { need, largest });
    }
    Some(Reason::GpuModelMissing { asked: fit.gpus.clone(), most })
}

/// How many devices a node has, whoever holds them, for the model of the request of which it has
/// most: a task's devices all answer to one model of its request.
pub(crate) fn most_of_a_kind(node: &NodeBoard<'_>, gpus: &GpuRequest) -> u32 {
    let mut counts = vec![0; gpus.models.len().max(1)];
    for rank in node.row.node.devices.iter().filter_map(|device| gpus.rank_of(device)) {
        counts[rank] += 1;
    }
    counts.into_iter().max().unwrap_or(0)
}

/// What is short on nodes that have the devices free: the first kind that is short on one of
/// them, on the node where it is short by least.
fn short_beside(nodes: &[&NodeBoard<'_>], fit: &Fit) -> Reason {
    let needs = Room::needed(fit);
    let kind = nodes.iter().find_map(|node| needs.first_short(node.free));
    let kind = kind.expect("a node with devices and all else has a place");
    let need = needs.get(&kind);
    let free_of = |node: &NodeBoard<'_>| node.free.get(&kind);
    let short = nodes.iter().rev().filter(|node| free_of(node) < need);
    let node = short.max_by_key(|node| free_of(node)).expect("the kind is short on some node");
    let (free, node) = (free_of(node), node.name().clone());
    Reason::CpuOrMemShort { kind, need, free, node }
}
