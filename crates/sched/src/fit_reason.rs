//! Why a fit has no place: the one reason of a shape in a plan.

use std::cmp::Reverse;
use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::{Device, Drain, GpuRequest, Node, NodeName, Reason, ResourceKind, Share};

use crate::capacity::{Capacity, HostResources, NodeCapacity};

/// The most excluded nodes that are named.
const LEFT_OUT_MAX: usize = 16;

/// Returns why the tasks of a fit have no place in the present capacity. Unless it `is_shown`,
/// nodes are counted only as far as that decides whether enough of them may become free.
pub(crate) fn reason(capacity: &Capacity<'_>, fit: &Fit, is_shown: bool) -> Reason {
    if !fit.at.is_empty() {
        return paused_on(capacity, fit);
    }
    if fit.gang.nodes > 1 {
        return nodes_not_free(capacity, fit, is_shown);
    }
    if let Some(reason) = nowhere(capacity, fit) {
        return reason;
    }
    let need = fit.n_devices_on_node();
    let n_devices = usize::try_from(need).unwrap_or(usize::MAX);
    let ranks = capacity.ranks(&fit.gpus);
    let most_fitting = |at: usize| capacity.nodes[at].most_fitting(&ranks, fit);
    let is_here = |at: &usize| fit.may_be_on(&capacity.nodes[*at].row.node);
    let here = |n_least| capacity.with_free(n_least).filter(is_here);
    let n_least = if fit.gpus.share().is_some() { 0 } else { n_devices };
    let mut enough: Vec<usize> =
        here(n_least).filter(|at| most_fitting(*at) >= n_devices).collect();
    if !enough.is_empty() {
        enough.sort_unstable();
        let nodes: Vec<&NodeCapacity<'_>> =
            enough.into_iter().map(|at| &capacity.nodes[at]).collect();
        return host_shortage(&nodes, fit);
    }
    if let Some(share) = fit.gpus.share() {
        let not_allowed = share_not_allowed(capacity, fit, share);
        return not_allowed.unwrap_or_else(|| share_not_free(capacity, fit, share));
    }
    // Only these nodes have free devices. Of equal nodes, the first by name.
    let some_free = || here(1);
    let total: usize = some_free().map(|ix| capacity.nodes[ix].n_free_of(&ranks, None, &[])).sum();
    let most = some_free().map(|ix| (most_fitting(ix), Reverse(ix))).max();
    let first = capacity.nodes.iter().position(|node| node.takes(fit));
    let none = (0, Reverse(first.unwrap_or(0)));
    let (most, Reverse(at)) = most.filter(|(most, _)| *most > 0).unwrap_or(none);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (total, of_instances) = (count(total), fit.gpus.is_of_instances());
    if total < need {
        return Reason::GpusNotFree { need, free: total, of_instances };
    }
    let node = capacity.nodes[at].name().clone();
    Reason::GpusNotFreeTogether { need, free: count(most), node, of_instances }
}

/// Why a paused job can't resume on its devices.
fn paused_on(capacity: &Capacity<'_>, fit: &Fit) -> Reason {
    let is_there = |node: &&NodeCapacity<'_>| fit.may_be_on(&node.row.node);
    let nodes: Vec<&NodeCapacity<'_>> = capacity.nodes.iter().filter(is_there).collect();
    if let Some(away) = nodes.iter().find(|node| !node.row.node.is_reachable()) {
        return unreachable(away);
    }
    if let Some(reason) = nodes.iter().find_map(|node| drained_as_a_whole(node)) {
        return reason;
    }
    if let Some(reason) = nodes.iter().find_map(|node| fit.out_of_service(&node.row.node)) {
        return reason;
    }
    let mut own = nodes.iter().map(|node| {
        let row = &node.row.node;
        let devices = row.devices.iter().enumerate();
        let own = devices.filter(|(_, device)| fit.may_have(row, &device.uuid));
        let own = own.map(|(ix, device)| (device.index, node.device_fits(ix, fit)));
        let (indexes, fits): (Vec<u32>, Vec<bool>) = own.unzip();
        (node.name().clone(), indexes, fits.into_iter().map(u32::from).sum())
    });
    let is_short = |(_, indexes, free): &(_, Vec<u32>, u32)| indexes.len() > *free as usize;
    let short = if fit.gpus.is_none() { None } else { own.find(is_short) };
    if let Some((node, indexes, free)) = short {
        return Reason::PausedOn { node, indexes, free };
    }
    let is_short = |node: &&NodeCapacity<'_>| needs_of(node, fit).first_short(node.free).is_some();
    match nodes.iter().any(is_short) {
        true => host_shortage(&nodes, fit),
        false => {
            let node = fit.at.first().map_or(NodeName::new("any"), |place| place.node.clone());
            Reason::PausedOn { node, indexes: Vec::new(), free: 0 }
        }
    }
}

/// Why a job of several nodes or tasks has no place: the nodes that would be enough are drained or
/// unreachable, or the number that fits now is too small.
fn nodes_not_free(capacity: &Capacity<'_>, fit: &Fit, is_shown: bool) -> Reason {
    let reason = too_few_nodes(capacity, fit, is_shown);
    let able = match reason {
        Reason::NodesNotFree { able, .. } | Reason::TasksNotFree { able, .. } => able,
        _ => fit.gang.nodes,
    };
    let need = fit.n_devices_on_node();
    // The number of units that a node has the devices for.
    let with_devices = |node: &NodeCapacity<'_>, n_devices: u32| {
        let most = fit.most_on(&node.row.node);
        n_devices.checked_div(need).unwrap_or(most).min(most)
    };
    let kept_from = || kept_from(capacity, fit, with_devices);
    (able < fit.gang.nodes).then(kept_from).flatten().unwrap_or(reason)
}

/// The numbers of nodes, or tasks, that fit now and on empty nodes.
pub(crate) fn too_few_nodes(capacity: &Capacity<'_>, fit: &Fit, is_shown: bool) -> Reason {
    let (need, needed) = (fit.n_devices_on_node(), HostResources::needed(fit));
    let n_ranks = fit.gpus.models.len().max(1);
    let sum = |times: &dyn Fn(&NodeCapacity<'_>) -> u32| {
        let open = capacity.nodes.iter().filter(|node| node.takes(fit));
        open.fold(0_u32, |sum, node| match is_shown || sum < fit.gang.nodes {
            true => sum.saturating_add(times(node)),
            false => sum,
        })
    };
    let most = |times: &dyn Fn(&NodeCapacity<'_>, usize) -> u32| {
        (0..n_ranks).map(|rank| sum(&|node| times(node, rank))).max().unwrap_or(0)
    };
    // The number of units that a node has the devices for.
    let with_devices = |node: &NodeCapacity<'_>, n_devices: u32| {
        let most = fit.most_on(&node.row.node);
        n_devices.checked_div(need).unwrap_or(most).min(most)
    };
    let able = most(&|node, rank| {
        let times = with_devices(node, n_of(&node.row.node, &fit.gpus, rank, undrained(node)));
        needed.times_in(HostResources::of_capacity(node.row), times)
    });
    let need_times = fit.gang.nodes;
    let ranks = capacity.ranks(&fit.gpus);
    let free = |node: &NodeCapacity<'_>, rank| {
        let n_devices = node.n_fitting(&ranks, fit, rank, &[]);
        let times = with_devices(node, u32::try_from(n_devices).unwrap_or(u32::MAX));
        needed.times_in(node.free, times)
    };
    let free = if is_shown { most(&free) } else { 0 };
    match fit.gang.anywhere {
        true => Reason::TasksNotFree { need: need_times, free, able, within: None },
        false => Reason::NodesNotFree { need: need_times, free, able, within: None },
    }
}

/// A node with the devices for a part of a job that is drained, or that does not answer. `times` is
/// the number of units for that many devices.
fn kept_from(
    capacity: &Capacity<'_>,
    fit: &Fit,
    times: impl Fn(&NodeCapacity<'_>, u32) -> u32,
) -> Option<Reason> {
    let need = fit.n_devices_on_node();
    let has_kind =
        |node: &&NodeCapacity<'_>| most_that(&node.row.node, &fit.gpus, |_| true) >= need;
    let in_pool = capacity.nodes.iter().filter(|node| fit.may_be_on(&node.row.node));
    let (here, away): (Vec<_>, Vec<_>) = in_pool.partition(|node| node.row.node.is_reachable());
    let is_drained = |node: &&NodeCapacity<'_>| {
        let has = |n_devices| times(node, n_devices);
        !node.row.node.takes_work()
            || has(most_that(&node.row.node, &fit.gpus, undrained(node)))
                < has(most_that(&node.row.node, &fit.gpus, |_| true))
    };
    let drained_node = here.iter().copied().filter(has_kind).find(is_drained);
    if let Some(reason) = drained_node.and_then(|node| drained(node, &fit.gpus)) {
        return Some(reason);
    }
    let away = away.into_iter().find(|node| here.is_empty() || has_kind(node));
    away.map(unreachable)
}

/// Why no node has enough devices for a share, if some node has room for it, but not beside jobs
/// that may share a device with it.
fn share_not_allowed(capacity: &Capacity<'_>, fit: &Fit, share: Share) -> Option<Reason> {
    let need = fit.n_devices_on_node();
    let anyone = Fit { sharer: None, ..fit.clone() };
    let ranks = capacity.ranks(&fit.gpus);
    let most = |node: &NodeCapacity<'_>, fit: &Fit| {
        u32::try_from(node.most_fitting(&ranks, fit)).unwrap_or(u32::MAX)
    };
    let mut nodes = capacity.nodes.iter().filter(|node| node.takes(fit));
    let found = nodes.find(|node| most(node, &anyone) >= need)?;
    let devices = found.row.node.devices.iter().enumerate();
    let has_room = |(ix, device): &(usize, &Device)| {
        fit.gpus.rank_of(device).is_some() && found.has_room(*ix, Some(share))
    };
    let mut with_room = devices.filter(has_room);
    let (job, with) = with_room.find_map(|(ix, _)| found.stranger(ix, fit, None))?;
    let (free, node) = (most(found, fit), found.name().clone());
    Some(Reason::ShareNotAllowed { need, free, node, job, with })
}

/// Why no node has enough devices with room for a share: on the node with the most, the first by
/// name of equal nodes.
fn share_not_free(capacity: &Capacity<'_>, fit: &Fit, share: Share) -> Reason {
    let ranks = capacity.ranks(&fit.gpus);
    let with_room = |node: &NodeCapacity<'_>| node.most_fitting(&ranks, fit);
    let open = || capacity.nodes.iter().filter(|node| node.takes(fit));
    let best = open().rev().max_by_key(|node| with_room(node)).expect("some node takes work");
    let free = open().flat_map(|node| {
        let devices = node.row.node.devices.iter().enumerate();
        let of_kind = devices.filter(|(_, device)| fit.gpus.rank_of(device).is_some());
        of_kind.map(|(device_ix, _)| node.free_for_share(device_ix))
    });
    Reason::GpuShareNotFree {
        need: fit.n_devices_on_node(),
        share,
        free: u32::try_from(with_room(best)).unwrap_or(u32::MAX),
        node: best.name().clone(),
        largest: free.max().unwrap_or_default(),
    }
}

/// Why no node that takes work has enough devices of one kind, allocated or not: the nodes with
/// enough are drained or unreachable, or there are none. `None` if a node has enough.
fn nowhere(capacity: &Capacity<'_>, fit: &Fit) -> Option<Reason> {
    let need = fit.n_devices_on_node();
    let all = || capacity.nodes.iter().filter(|node| fit.may_be_on(&node.row.node));
    let open = |node: &&NodeCapacity<'_>| node.row.node.takes_work();
    if all().filter(open).any(|node| most_that(&node.row.node, &fit.gpus, undrained(node)) >= need)
    {
        return None;
    }
    if fit.in_container && capacity.nodes.iter().all(|it| it.row.node.facts.engine.is_none()) {
        return Some(Reason::NoEngine);
    }
    if all().next().is_none()
        && let Some(reason) = left_out(capacity.nodes.iter().map(|node| &node.row.node), fit)
    {
        return Some(reason);
    }
    if all().next().is_none()
        && let Some(lack) = fit.lacking_nodes.first()
    {
        return Some(Reason::NodeLacks { lack: lack.clone(), held_since: None });
    }
    // If no agent answers, the devices are unknown.
    let here: Vec<_> = all().filter(|node| node.row.node.is_reachable()).collect();
    Some(kept_from(capacity, fit, |_, n_devices| n_devices).unwrap_or_else(
        || match here.is_empty() {
            true => Reason::AgentUnreachable { node: NodeName::new("any"), since: None },
            false => kind_missing(&here, fit),
        },
    ))
}

/// Returns the nodes that the pool, or the choice of nodes, of a fit excludes.
pub(crate) fn left_out<'n>(nodes: impl Iterator<Item = &'n Node>, fit: &Fit) -> Option<Reason> {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let all: Vec<&Node> = nodes.collect();
    let is_of_pool = |node: &&Node| fit.pool.as_ref().is_none_or(|pool| *pool == node.pool);
    let of_pool: Vec<&Node> = all.iter().copied().filter(is_of_pool).collect();
    if let Some(pool) = &fit.pool
        && (of_pool.is_empty() || fit.nodes.is_none() && of_pool.len() < all.len())
    {
        return Some(Reason::OnlyInPool { pool: pool.clone(), n_nodes: count(of_pool.len()) });
    }
    let nodes = fit.nodes.as_ref()?;
    let out = of_pool.iter().filter(|node| !nodes.allows(node));
    let out: Vec<NodeName> = out.map(|node| node.name.clone()).collect();
    let (n_left_out, n_nodes) = (count(out.len()), count(of_pool.len() - out.len()));
    let left_out = out.into_iter().take(LEFT_OUT_MAX).collect();
    let nodes = Arc::clone(nodes);
    (n_left_out > 0).then_some(Reason::OnlyOnNodes { nodes, n_nodes, n_left_out, left_out })
}

/// The drain of a node that would have enough devices.
fn drained(node: &NodeCapacity<'_>, gpus: &GpuRequest) -> Option<Reason> {
    if let Some(reason) = drained_as_a_whole(node) {
        return Some(reason);
    }
    let row = &node.row.node;
    let mut devices = row.devices.iter().filter(|device| gpus.rank_of(device).is_some());
    devices.find_map(|device| {
        let Drain { by, reason, .. } = row.drain_of(&device.uuid)?;
        let (index, reason) = (Some(device.index), reason.clone());
        Some(Reason::NodeDrained { node: row.name.clone(), index, by: *by, reason })
    })
}

fn drained_as_a_whole(node: &NodeCapacity<'_>) -> Option<Reason> {
    let Drain { by, reason, .. } = node.row.node.drain.as_ref()?;
    let (node, reason) = (node.name().clone(), reason.clone());
    Some(Reason::NodeDrained { node, index: None, by: *by, reason })
}

fn unreachable(node: &NodeCapacity<'_>) -> Reason {
    let (node, since) = (node.name().clone(), node.row.node.silent_since());
    Reason::AgentUnreachable { node, since }
}

/// The reason where no connected node has enough devices of one kind.
fn kind_missing(here: &[&NodeCapacity<'_>], fit: &Fit) -> Reason {
    let counts = here.iter().map(|node| most_that(&node.row.node, &fit.gpus, |_| true));
    let most = counts.max().unwrap_or(0);
    if let (0, Some(need)) = (most, fit.gpus.memory_needed()) {
        let devices = here.iter().flat_map(|node| &node.row.node.devices);
        let largest = devices.map(|device| device.memory).max().unwrap_or_default();
        // Otherwise their model or enforcement does not match.
        if largest < need {
            return Reason::GpuMemoryTooSmall { need, largest };
        }
    }
    Reason::GpuModelMissing { asked: fit.gpus.clone(), most }
}

fn undrained(node: &NodeCapacity<'_>) -> impl Fn(&Device) -> bool {
    |device| node.row.node.drain_of(&device.uuid).is_none()
}

/// Returns the number of devices of a node that pass a test, allocated or not, for the requested
/// model that it has most of: the devices of a task are all of one model of its request.
pub(crate) fn most_that(node: &Node, gpus: &GpuRequest, test: impl Fn(&Device) -> bool) -> u32 {
    (0..gpus.models.len().max(1)).map(|rank| n_of(node, gpus, rank, &test)).max().unwrap_or(0)
}

/// The number of devices of a node that are of a model of the request and pass a test.
fn n_of(node: &Node, gpus: &GpuRequest, rank: usize, test: impl Fn(&Device) -> bool) -> u32 {
    let is_of = |device: &&Device| gpus.rank_of(device) == Some(rank) && test(device);
    u32::try_from(node.devices.iter().filter(is_of).count()).unwrap_or(u32::MAX)
}

/// The host resources that a fit needs of a node: for all its tasks there if it is paused.
fn needs_of(node: &NodeCapacity<'_>, fit: &Fit) -> HostResources {
    let times = if fit.at.is_empty() { 1 } else { fit.most_on(&node.row.node) };
    HostResources::needed(fit).times(times)
}

/// The host resource that is short on nodes with free devices: the first kind that is short on one
/// of them, on the node with the most of it.
fn host_shortage(nodes: &[&NodeCapacity<'_>], fit: &Fit) -> Reason {
    let kind = nodes.iter().find_map(|node| needs_of(node, fit).first_short(node.free));
    let kind = kind.expect("a node with devices and all else has a place");
    let need_of = |node: &NodeCapacity<'_>| needs_of(node, fit).get(&kind);
    let free_of = |node: &NodeCapacity<'_>| node.free.get(&kind);
    let short = nodes.iter().rev().filter(|node| free_of(node) < need_of(node));
    let short = short.max_by_key(|node| free_of(node)).expect("the kind is short on some node");
    let (need, free, node) = (need_of(short), free_of(short), short.name().clone());
    match kind {
        ResourceKind::Node => Reason::NodeOccupied { node, exclusive: fit.is_exclusive() },
        ResourceKind::PlainTasks => {
            let short = short.row;
            let (most, slots) = (short.node.plain_tasks(), short.node.tasks());
            Reason::SlotsKeptForGpus { node, need, free, most, slots }
        }
        kind => Reason::CpuOrMemShort { kind, need, free, node },
    }
}
