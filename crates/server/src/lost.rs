//! GPUs that jobs can't use at the moment although projects are guaranteed them, and nodes of
//! running jobs that do not answer.

use std::collections::BTreeMap;

use gpool_control::project_tree;
use gpool_model::{Device, Job, Node, NodeName, ProjectName, ResourceKind, Timestamp};
use gpool_world::World;

/// Most GPUs that are named.
const NAMED_MAX: usize = 4;

/// Says which GPUs can't be used, with the reason of each, if the others are fewer than all
/// projects together are guaranteed:
/// `1 of 20 GPUs can't be used now: GPU 3 of lab-2 (drained: fan noise; until gpool undrain)`.
pub fn shortfall(world: &World) -> Option<String> {
    let [usable, installed] =
        [world.capacity(), world.installed()].map(|it| it.get(&ResourceKind::Gpu));
    if usable >= installed || guaranteed(world) <= usable {
        return None;
    }
    let nodes = world.nodes_by_name().map(|(_, row)| &row.node);
    let lost: Vec<String> =
        nodes.flat_map(|node| node.devices.iter().filter_map(|it| lost(node, it))).collect();
    let n_more = lost.len().saturating_sub(NAMED_MAX);
    let mut named = lost.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if n_more > 0 {
        named.push_str(&format!(" and {n_more} more"));
    }
    let amount = |milli: u64| gpool_wire::node::cores(milli);
    let (n_lost, all) = (amount(installed - usable), amount(installed));
    Some(format!("{n_lost} of {all} GPUs can't be used now: {named}"))
}

/// The same for a job that waits, if its project or one above it is guaranteed GPUs.
pub fn of_project(world: &World, project: &ProjectName) -> Option<String> {
    let projects = world.projects();
    let children = project_tree::children(projects);
    let path = world.upwards(project);
    let mut promised = path.filter_map(|it| {
        let amount = project_tree::guaranteed(projects, &children, it, &ResourceKind::Gpu);
        Some((&it.name, amount.finite().filter(|amount| *amount > 0)?))
    });
    let (name, amount) = promised.next()?;
    let amount = gpool_wire::node::cores(amount);
    Some(format!("Project {name} is guaranteed {amount} GPUs, but {}", shortfall(world)?))
}

/// Says which nodes of a job do not answer, and for how long:
/// `No answer from the agent of lab-2 for 45s: the state of the job there is the last known one`.
pub fn silent_nodes(world: &World, job: &Job, now: Timestamp) -> Option<String> {
    let nodes = job.phase.allocations().iter().filter_map(|it| {
        let silence = world.node(&it.node)?.node.silence?;
        Some((&it.node, now.since(silence.since)))
    });
    let nodes: BTreeMap<&NodeName, _> = nodes.collect();
    let longest = nodes.values().max()?;
    let names: Vec<&str> = nodes.keys().map(|it| it.as_str()).collect();
    let agents = if names.len() == 1 { "agent" } else { "agents" };
    Some(format!(
        "No answer from the {agents} of {} for {longest}: the state of the job there is the last \
         known one",
        names.join(", ")
    ))
}

/// The GPUs that all projects together are guaranteed, in thousandths.
fn guaranteed(world: &World) -> u64 {
    let projects = world.projects();
    let children = project_tree::children(projects);
    let tops = projects.values().filter(|it| it.parent.is_none());
    let finite = tops.filter_map(|it| {
        project_tree::guaranteed(projects, &children, it, &ResourceKind::Gpu).finite()
    });
    finite.fold(0, u64::saturating_add)
}

/// A GPU for jobs that can't be used, with the reason, and when that ends.
fn lost(node: &Node, device: &Device) -> Option<String> {
    let is_installed = node.allows(&device.uuid) && !device.is_divided();
    if !is_installed || (node.takes_work() && node.may_give(device)) {
        return None;
    }
    let place = format!("{}:{}", node.name, device.index);
    let why = if let Some(fault) = device.health.fault() {
        fault
    } else if let Some(process) = device.unmanaged.first() {
        let name = process.name.as_deref().unwrap_or("a process");
        format!("until {name}, pid {}, which gpool did not start, has ended", process.pid)
    } else if let Some(drain) = node.drain_of(&device.uuid) {
        let of = if node.drain.is_some() { node.name.to_string() } else { place.clone() };
        format!("drained: {}; until gpool undrain {of}", drain.reason)
    } else if !node.is_reachable() {
        format!("until the agent of {} answers", node.name)
    } else {
        "until the job on it, which booked another one, has left".to_owned()
    };
    Some(format!("{place} ({why})"))
}
