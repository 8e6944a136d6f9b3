//! Why a fit has no place: the one reason that stands for a shape in a plan.

use gpool_model::plan::Fit;
use gpool_model::{GpuRequest, NodeName, Reason};

use crate::board::{Board, NodeBoard, beside_devices};

/// Why one task of that fit can't be placed on the board as it is.
pub(crate) fn reason(board: &Board<'_>, fit: &Fit) -> Reason {
    let connected: Vec<&NodeBoard<'_>> =
        board.nodes.iter().filter(|node| node.row.node.connected).collect();
    if connected.is_empty() {
        let node = board.nodes.first();
        return Reason::AgentUnreachable {
            node: node.map_or_else(|| NodeName::new("any"), |node| node.name().clone()),
        };
    }
    let need = fit.gpus.n_devices();
    if need > 0
        && let Some(reason) = kind_missing(&connected, fit)
    {
        let mut away = board.nodes.iter().filter(|node| !node.row.node.connected);
        let has_kind = |node: &&NodeBoard<'_>| most_of_a_kind(node, &fit.gpus, |_| true) >= need;
        return match away.find(has_kind) {
            Some(node) => Reason::AgentUnreachable { node: node.name().clone() },
            None => reason,
        };
    }
    let free: Vec<(u32, &NodeBoard<'_>)> =
        connected.iter().map(|node| (n_free_of_a_kind(node, fit), *node)).collect();
    let with_gpus: Vec<&NodeBoard<'_>> =
        free.iter().filter(|(n, _)| *n >= need).map(|(_, node)| *node).collect();
    if !with_gpus.is_empty() {
        return short_beside(&with_gpus, fit);
    }
    let total: u32 = connected.iter().map(|node| n_free(node, fit)).sum();
    // The first of equals in the order of names.
    let (most, node) = free.iter().rev().max_by_key(|(n, _)| *n).expect("some node is connected");
    if total >= need {
        Reason::GpusNotFreeTogether { need, free: *most, node: node.name().clone() }
    } else {
        Reason::GpusNotFree { need, free: total }
    }
}

/// Set where no node has as many devices of one kind, whoever holds them.
fn kind_missing(nodes: &[&NodeBoard<'_>], fit: &Fit) -> Option<Reason> {
    let most =
        nodes.iter().map(|node| most_of_a_kind(node, &fit.gpus, |_| true)).max().unwrap_or(0);
    if most >= fit.gpus.n_devices() {
        return None;
    }
    if let (0, Some(need)) = (most, fit.gpus.least_memory) {
        let devices = nodes.iter().flat_map(|node| &node.row.node.devices);
        let largest = devices.map(|device| device.memory).max().unwrap_or_default();
        return Some(Reason::GpuMemoryTooSmall { need, largest });
    }
    Some(Reason::GpuModelMissing { asked: fit.gpus.clone(), most })
}

/// How many devices a node has, among those at the positions that pass, for the model of the
/// request of which it has most: a task's devices all answer to one model of its request.
pub(crate) fn most_of_a_kind(
    node: &NodeBoard<'_>,
    gpus: &GpuRequest,
    passes: impl Fn(usize) -> bool,
) -> u32 {
    let mut counts = vec![0; gpus.models.len().max(1)];
    for (at, device) in node.row.node.devices.iter().enumerate() {
        if let Some(rank) = gpus.rank_of(device)
            && passes(at)
        {
            counts[rank] += 1;
        }
    }
    counts.into_iter().max().unwrap_or(0)
}

fn n_free_of_a_kind(node: &NodeBoard<'_>, fit: &Fit) -> u32 {
    most_of_a_kind(node, &fit.gpus, |at| node.is_free[at])
}

/// Free devices that the task could use, whatever model of the request they answer to.
fn n_free(node: &NodeBoard<'_>, fit: &Fit) -> u32 {
    let devices = node.row.node.devices.iter().zip(&node.is_free);
    let free = devices.filter(|(device, free)| **free && fit.gpus.rank_of(device).is_some());
    u32::try_from(free.count()).unwrap_or(u32::MAX)
}

/// What is short on nodes that have the devices free: the first kind that is short on one of
/// them, on the node where it is short by least.
fn short_beside(nodes: &[&NodeBoard<'_>], fit: &Fit) -> Reason {
    let needs = beside_devices(fit);
    let kind = nodes.iter().find_map(|node| needs.first_short(&node.free));
    let kind = kind.expect("a node with devices and all else has a place");
    let need = needs.get(&kind);
    let free_of = |node: &NodeBoard<'_>| node.free.get(&kind);
    let short = nodes.iter().rev().filter(|node| free_of(node) < need);
    let node = short.max_by_key(|node| free_of(node)).expect("the kind is short on some node");
    let (free, node) = (free_of(node), node.name().clone());
    Reason::CpuOrMemShort { kind, need, free, node }
}
