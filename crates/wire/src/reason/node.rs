//! Reasons for nodes and devices that take no new jobs, or only some.

use gpool_model::Reason as R;
use gpool_model::{DeviceUuid, NodeName};
use serde_json::{Value, json};

use super::{About, Told, about, gpus, span_words};
use crate::chosen::only_words;
use crate::time::Time;

pub(super) const ABOUT: &[About] = &[
    about(
        "agent_unreachable",
        "The node's agent does not answer, so nothing is started there.",
        "gpool status; it goes on by itself when the agent is back",
    ),
    about("gpu_not_allowed", "An admin keeps the GPUs from new jobs.", "gpool gpus allow all"),
    about(
        "gpu_unhealthy",
        "The driver reports a fault of the GPU; it is given to nobody.",
        "gpool gpus shows the fault; an admin looks at the machine",
    ),
    about(
        "maintenance_soon",
        "It would not end before a maintenance of the node begins.",
        "a shorter --time may fit before it",
    ),
    about("node_drained", "The node takes no new work.", "gpool nodes shows until when and why"),
    about(
        "node_occupied",
        "It wants a node alone (--exclusive) where other jobs run, or such a job has the node.",
        "it starts when the others have ended; gpool edit --no-exclusive lets it run beside others",
    ),
    about(
        "only_in_pool",
        "It was submitted for one pool of nodes (--pool), so others are not looked at.",
        "gpool pool shows which nodes are in it; without --pool it may run on any",
    ),
    about(
        "only_on_nodes",
        "It was submitted for some nodes only (--node, --not-node, --where).",
        "gpool nodes -o wide shows the labels of nodes; gpool edit changes which it may use",
    ),
    about(
        "paused_on",
        "It is paused, and goes on on the devices that it had; not all of them are free.",
        "gpool gpus shows who has them; gpool requeue runs it again anywhere, from its start",
    ),
    about(
        "reserved_for_other",
        "What is free is reserved for somebody else.",
        "a shorter --time may fit before the reservation begins",
    ),
    about(
        "unmanaged_process",
        "A process outside gpool uses the GPU.",
        "gpool gpus shows whose it is; it is given out when that has ended",
    ),
];

pub(super) fn told(reason: &R) -> Option<Told> {
    Some(match reason {
        R::UnmanagedProcess { node, index, device, pid, user, name } => {
            let text = format!(
                "GPU {index} of {node} is used outside gpool: pid {pid}{}{}",
                name.as_ref().map(|name| format!(" {name}")).unwrap_or_default(),
                user.as_ref().map(|user| format!(" (user {user})")).unwrap_or_default(),
            );
            let more = [("pid", json!(pid)), ("user", json!(user)), ("name", json!(name))];
            (text, of_device(node, *index, device, more))
        }
        R::GpuUnhealthy { node, index, device, why } => (
            format!("GPU {index} of {node} can't be used: {why}"),
            of_device(node, *index, device, [("why", json!(why))]),
        ),
        R::GpuNotAllowed { node, index, device } => (
            format!("GPU {index} of {node} is kept from new work by an admin"),
            of_device(node, *index, device, []),
        ),
        R::NodeDrained { node, index, by, reason } => {
            let what = index.map_or_else(|| node.to_string(), |gpu| format!("GPU {gpu} of {node}"));
            let until = by.map(|by| format!(" by {}", Time(by).short())).unwrap_or_default();
            let facts = vec![
                ("node", json!(node)),
                ("gpu", json!(index)),
                ("by", json!(by.map(Time))),
                ("reason", json!(reason)),
            ];
            (format!("{what} is drained{until}: {reason}"), facts)
        }
        R::NodeOccupied { node, exclusive } => {
            let text = match exclusive {
                true => format!(
                    "it wants a node without other jobs (--exclusive), and {node} runs some"
                ),
                false => format!("{node} runs a job that has the node alone (--exclusive)"),
            };
            (text, vec![("node", json!(node)), ("exclusive", json!(exclusive))])
        }
        R::AgentUnreachable { node } => {
            (format!("the agent of {node} does not answer"), vec![("node", json!(node))])
        }
        R::PausedOn { node, indexes, free } => {
            let listed: Vec<String> = indexes.iter().map(ToString::to_string).collect();
            let listed = listed.join(", ");
            let text = format!(
                "it is paused on {node} (GPU {listed}) and goes on there; {free} of them free"
            );
            (text, vec![("node", json!(node)), ("gpus", json!(indexes)), ("free", json!(free))])
        }
        _ => return told_of_choice(reason),
    })
}

/// Reasons for nodes that the job's filter or a reservation excludes.
fn told_of_choice(reason: &R) -> Option<Told> {
    Some(match reason {
        R::ReservedForOther { reservation, node, n_devices, from, until } => {
            let what = match n_devices {
                0 => node.to_string(),
                n => format!("{n} {} of {node}", gpus(*n)),
            };
            let span = span_words(*from, *until);
            let facts = vec![
                ("reservation", json!(reservation)),
                ("node", json!(node)),
                ("n_devices", json!(n_devices)),
                ("from", json!(Time(*from))),
                ("until", json!(until.map(Time))),
            ];
            (format!("{what} reserved for others by {reservation}, {span}"), facts)
        }
        R::MaintenanceSoon { reservation, node, from, until } => {
            let span = span_words(*from, *until);
            let facts = vec![
                ("reservation", json!(reservation)),
                ("node", json!(node)),
                ("from", json!(Time(*from))),
                ("until", json!(until.map(Time))),
            ];
            (format!("maintenance {reservation} of {node}, {span}"), facts)
        }
        R::OnlyInPool { pool, n_nodes } => {
            let text = match n_nodes {
                0 => format!("no node is in pool {pool}"),
                1 => format!("only nodes of pool {pool}: 1 node"),
                n => format!("only nodes of pool {pool}: {n} nodes"),
            };
            (text, vec![("pool", json!(pool)), ("n_nodes", json!(n_nodes))])
        }
        R::OnlyOnNodes { nodes, n_nodes, n_left_out, left_out } => {
            let facts = vec![
                ("node", json!(nodes.include)),
                ("not_node", json!(nodes.exclude)),
                ("where", json!(nodes.rules)),
                ("n_nodes", json!(n_nodes)),
                ("n_left_out", json!(n_left_out)),
                ("left_out", json!(left_out)),
            ];
            (only_words(nodes, *n_nodes, *n_left_out, left_out), facts)
        }
        _ => return None,
    })
}

fn of_device<const N: usize>(
    node: &NodeName,
    index: u32,
    device: &DeviceUuid,
    more: [(&'static str, Value); N],
) -> Vec<(&'static str, Value)> {
    let facts = [
        ("node", json!(node.to_string())),
        ("gpu", json!(index)),
        ("uuid", json!(device.to_string())),
    ];
    facts.into_iter().chain(more).collect()
}
