//! Why a fit has no place: the one reason that stands for a shape in a plan.

use gpool_model::plan::Fit;
use gpool_model::{NodeName, Reason, ResourceKind};

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
        return reason;
    }
    let free: Vec<(u32, &NodeBoard<'_>)> =
        connected.iter().map(|node| (n_free_of_kind(node, fit), *node)).collect();
    let enough = |n_free: u32| n_free >= need;
    let with_gpus: Vec<&NodeBoard<'_>> =
        free.iter().filter(|(n, _)| enough(*n)).map(|(_, node)| *node).collect();
    if !with_gpus.is_empty() {
        return short_beside(&with_gpus, fit);
    }
    let total: u32 = free.iter().map(|(n, _)| n).sum();
    // The first of equals in the order of names.
    let (most, node) = free.iter().rev().max_by_key(|(n, _)| *n).expect("some node is connected");
    if total >= need {
        Reason::GpusNotFreeTogether { need, free: *most, node: node.name().clone() }
    } else {
        Reason::GpusNotFree { need, free: total }
    }
}

/// Set where no node has as many devices of the kind, whoever holds them.
fn kind_missing(nodes: &[&NodeBoard<'_>], fit: &Fit) -> Option<Reason> {
    let of_kind = |node: &NodeBoard<'_>| {
        let devices = node.row.node.devices.iter();
        devices.filter(|device| fit.gpus.rank_of(device).is_some()).count()
    };
    let most = nodes.iter().map(|node| of_kind(node)).max().unwrap_or(0);
    let most = u32::try_from(most).unwrap_or(u32::MAX);
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

fn n_free_of_kind(node: &NodeBoard<'_>, fit: &Fit) -> u32 {
    let devices = node.row.node.devices.iter().zip(&node.is_free);
    let free = devices.filter(|(device, free)| **free && fit.gpus.rank_of(device).is_some());
    u32::try_from(free.count()).unwrap_or(u32::MAX)
}

/// The kind that is short on the node that comes nearest: the first short kind, on the node that
/// has most of it free.
fn short_beside(nodes: &[&NodeBoard<'_>], fit: &Fit) -> Reason {
    let needs = beside_devices(fit);
    let short = nodes.iter().find_map(|node| needs.first_short(&node.free));
    // Devices of the kind are free, but of several models, so that no set of one kind is.
    let Some(kind) = short else {
        let node = nodes.first().expect("asked only with nodes that have the devices");
        let free = n_free_of_kind(node, fit);
        return Reason::GpusNotFreeTogether {
            need: fit.gpus.n_devices(),
            free,
            node: node.name().clone(),
        };
    };
    let free_of = |node: &NodeBoard<'_>, kind: &ResourceKind| node.free.get(kind);
    let most = nodes.iter().rev().max_by_key(|node| free_of(node, &kind));
    let node = most.expect("asked only with nodes that have the devices");
    Reason::CpuOrMemShort {
        need: needs.get(&kind),
        free: free_of(node, &kind),
        node: node.name().clone(),
        kind,
    }
}
