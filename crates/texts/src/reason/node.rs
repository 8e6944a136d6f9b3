//! Reasons for nodes and devices that take no new jobs, or only some.

use gpool_model::Reason as R;
use gpool_model::{DeviceUuid, Lack, NodeLack, NodeName, Timestamp};
use serde_json::{Value, json};

use super::{About, Explanation, about, free_words, gpus, span_words};
use crate::time::Time;
use crate::words::only_words;

pub(super) const ABOUT: &[About] = &[
    about(
        "agent_unreachable",
        "The node's agent does not answer, so no job starts there.",
        "gpool nodes; jobs start again when the agent is back",
    ),
    about(
        "gpu_not_allowed",
        "An admin has excluded the GPU from new jobs.",
        "an admin allows it again: gpool gpus allow all",
    ),
    about(
        "gpu_unhealthy",
        "The driver reports a fault of the GPU, so no job gets it.",
        "gpool gpus shows the fault; an admin must check the machine",
    ),
    about(
        "image_pull",
        "A node pulls the image of its container. The job holds no GPUs meanwhile.",
        "wait; it starts once the node has the image",
    ),
    about(
        "maintenance_soon",
        "It would not end before a maintenance window of the node begins.",
        "with a shorter --time it may end before that",
    ),
    about(
        "no_container_engine",
        "It runs in a container (--image), and no node has an engine for containers.",
        "install podman, docker, apptainer or enroot on a node, and restart its agent",
    ),
    about(
        "node_drained",
        "The node is drained: no new job starts there.",
        "gpool nodes has the reason",
    ),
    about(
        "node_lacks",
        "A node lacks its working directory, its environment, its image or an account for its user.",
        "create it there, then gpool release JOB; or submit the job again with another one",
    ),
    about(
        "node_occupied",
        "It needs a node without other jobs (--exclusive), or another such job has the node.",
        "it starts when the other jobs have ended; gpool edit --no-exclusive removes the condition",
    ),
    about(
        "only_in_pool",
        "It may only run in one pool of nodes (--pool).",
        "gpool pool lists the nodes of each pool; without --pool a job may run on any node",
    ),
    about(
        "only_on_nodes",
        "It may only run on some nodes (--node, --not-node, --where).",
        "gpool nodes -o wide shows the labels of nodes; gpool edit changes the filter",
    ),
    about(
        "paused_on",
        "It is paused and continues on its own GPUs; some of them are in use.",
        "gpool gpus shows their jobs; gpool requeue restarts it from the beginning on any GPUs",
    ),
    about(
        "paused_on_missing",
        "It is paused with memory of GPUs that are out of service.",
        "it continues once they are back; gpool requeue restarts it from the beginning on any GPUs",
    ),
    about(
        "reserved_for_other",
        "The free GPUs or nodes are reserved for others.",
        "with a shorter --time it may end before the reservation begins",
    ),
    about(
        "unmanaged_process",
        "A process outside gpool uses the GPU.",
        "gpool gpus shows the process; jobs can use the GPU when it has ended",
    ),
];

pub(super) fn explain(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::UnmanagedProcess { node, index, device, pid, user, name } => {
            let text = format!(
                "A process outside gpool uses GPU {index} of {node}: pid {pid}{}{}",
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
            format!("An admin has excluded GPU {index} of {node} from new jobs"),
            of_device(node, *index, device, []),
        ),
        R::NodeDrained { node, index, by, reason } => {
            let what = index.map_or_else(|| node.to_string(), |gpu| format!("GPU {gpu} of {node}"));
            let until = by
                .map(|by| format!(" and must be empty by {}", Time(by).short()))
                .unwrap_or_default();
            let facts = vec![
                ("node", json!(node)),
                ("gpu", json!(index)),
                ("by", json!(by.map(Time))),
                ("reason", json!(reason)),
            ];
            (format!("{what} is drained{until}: {reason}"), facts)
        }
        R::NodeLacks { lack, held_since } => node_lacks(lack, *held_since),
        R::NodeOccupied { node, exclusive } => {
            let text = match exclusive {
                true => format!(
                    "It needs a node without other jobs (--exclusive), and other jobs run on {node}"
                ),
                false => format!("A job with --exclusive has {node} for itself"),
            };
            (text, vec![("node", json!(node)), ("exclusive", json!(exclusive))])
        }
        R::AgentUnreachable { node, since } => {
            let since = since.map(Time);
            let when = since.map(|since| format!(" since {}", since.short())).unwrap_or_default();
            let text = format!("The agent of {node} does not answer{when}");
            (text, vec![("node", json!(node)), ("since", json!(since))])
        }
        R::PausedOn { node, indexes, free } => {
            let listed: Vec<String> = indexes.iter().map(ToString::to_string).collect();
            let noun = gpus(u32::try_from(indexes.len()).unwrap_or(u32::MAX));
            let (listed, free_words) = (listed.join(","), free_words(*free));
            let text =
                format!("It needs its own {noun} {listed} of {node} to continue, and {free_words}");
            (text, vec![("node", json!(node)), ("gpus", json!(indexes)), ("free", json!(free))])
        }
        R::PausedOnMissing { node, indexes, why } => {
            let listed: Vec<String> = indexes.iter().map(ToString::to_string).collect();
            let noun = gpus(u32::try_from(indexes.len()).unwrap_or(u32::MAX));
            let text = format!(
                "It needs its own {noun} {} of {node} to continue, out of service ({why})",
                listed.join(",")
            );
            (text, vec![("node", json!(node)), ("gpus", json!(indexes)), ("why", json!(why))])
        }
        _ => return of_containers(reason).or_else(|| told_of_choice(reason)),
    })
}

fn node_lacks(lack: &NodeLack, held_since: Option<Timestamp>) -> Explanation {
    let NodeLack { node, lack } = lack;
    let (what, path) = match lack {
        Lack::Path(path) => (format!("{path} does not exist on {node}"), Some(path)),
        Lack::Stored(path) => {
            (format!("{path} of the server, which it needs, does not exist"), Some(path))
        }
        Lack::Secret(why) => (why.clone(), None),
        Lack::Account(why) | Lack::Engine(why) | Lack::Image(why) | Lack::Space(why) => {
            (format!("{node} can't run it: {why}"), None)
        }
        Lack::Pull(image) => (format!("{node} pulls {image}"), None),
    };
    let text = match held_since {
        Some(_) => format!("It is held: {what}; gpool release tries again"),
        None => format!("It waits for another node: {what}"),
    };
    let facts = [("since", json!(held_since.map(Time))), ("node", json!(node))];
    (text, facts.into_iter().chain(path.map(|path| ("path", json!(path)))).collect())
}

/// Reasons for the engines and images of nodes.
fn of_containers(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::NoEngine => {
            ("It needs a node that runs containers, and there is none".to_owned(), Vec::new())
        }
        R::ImagePull { node, image, progress } => {
            let progress = Some(progress).filter(|it| !it.is_empty());
            let shown = progress.map(|it| format!(" ({it})")).unwrap_or_default();
            let facts =
                vec![("node", json!(node)), ("image", json!(image)), ("progress", json!(progress))];
            (format!("{node} pulls its image {image}{shown}"), facts)
        }
        _ => return None,
    })
}

/// Reasons for nodes that the job's filter or a reservation excludes.
fn told_of_choice(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::ReservedForOther { reservation, whom, node, n_devices, from, until } => {
            let what = match n_devices {
                0 => format!("{node} is"),
                1 => format!("1 GPU of {node} is"),
                n => format!("{n} GPUs of {node} are"),
            };
            let others = whom.as_deref().unwrap_or("others");
            let span = span_words(*from, *until);
            let facts = vec![
                ("reservation", json!(reservation)),
                ("node", json!(node)),
                ("n_devices", json!(n_devices)),
                ("whom", json!(whom)),
                ("from", json!(Time(*from))),
                ("until", json!(until.map(Time))),
            ];
            (format!("{what} reserved for {others} {span} ({reservation})"), facts)
        }
        R::MaintenanceSoon { reservation, node, from, until } => {
            let span = span_words(*from, *until);
            let facts = vec![
                ("reservation", json!(reservation)),
                ("node", json!(node)),
                ("from", json!(Time(*from))),
                ("until", json!(until.map(Time))),
            ];
            (format!("{node} has maintenance {reservation} {span}"), facts)
        }
        R::OnlyInPool { pool, n_nodes } => {
            let text = match n_nodes {
                0 => format!("It may only run in pool {pool}, which has no nodes"),
                1 => format!("It may only run in pool {pool}, on 1 node"),
                n => format!("It may only run in pool {pool}, on {n} nodes"),
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
