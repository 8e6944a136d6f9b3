//! Nodes and partitions in the JSON of `sinfo` and `scontrol show`.
//!
//! Source: the output of Slurm 24.11, also for keys without a value.

use gpool_wire::{Node, Pool};
use serde_json::{Value, json};

use super::hostlist;
use super::json::{Parser, bounded, number, seconds, text, time};
use super::node_cells::{self as cells, One, whole};

/// A group of nodes, as in `sinfo`; `all` are the nodes of all partitions.
#[must_use]
pub fn group(group: &[One<'_>], all: &[Node], parser: Parser) -> Value {
    let Some(first) = group.first() else { return Value::Null };
    let names: Vec<&str> = group.iter().map(|one| one.node.name.as_str()).collect();
    let [used, idle, other] = cells::counts(group);
    let drain = first.node.drain.as_ref();
    let cpus = |of: fn(&Node) -> u64| -> u64 { group.iter().map(|one| of(one.node)).sum() };
    let span = |of: fn(&Node) -> u64| {
        let amounts = group.iter().map(|one| of(one.node));
        let (least, most) = (amounts.clone().min().unwrap_or(0), amounts.max().unwrap_or(0));
        (least, most)
    };
    let range = |(least, most): (u64, u64)| json!({ "minimum": least, "maximum": most });
    let (cores, memory) = (span(|node| whole(node.cpus)), span(|node| node.memory >> 20));
    let (free_least, free_most) = span(cells::free_mebibytes);
    json!({
        "port": 6818,
        "node": { "state": parser.states(cells::state(first.node).parts) },
        "nodes": {
            "allocated": used, "idle": idle, "other": other, "total": group.len(),
            "hostnames": names, "addresses": names, "nodes": names,
        },
        "cpus": {
            "allocated": cpus(|node| whole(node.cpus_used)),
            "idle": cpus(|node| if cells::is_usable(node) { cells::idle_cpus(node) } else { 0 }),
            "other": cpus(|node| if cells::is_usable(node) { 0 } else { cells::idle_cpus(node) }),
            "total": cpus(|node| whole(node.cpus)),
            "minimum": cores.0, "maximum": cores.1,
            "load": range((0, 0)),
            "per_node": { "max": bounded(None) },
        },
        "sockets": range((1, 1)),
        "cores": range(cores),
        "threads": range((1, 1)),
        "disk": range((0, 0)),
        "memory": {
            "minimum": memory.0, "maximum": memory.1,
            "free": { "minimum": number(Some(free_least)), "maximum": number(Some(free_most)) },
            "allocated": cpus(|node| node.memory_used >> 20),
        },
        "weight": range((1, 1)),
        "features": {
            "total": text(cells::features(first)), "active": text(cells::features(first)),
        },
        "gres": { "total": text(cells::gres(first)), "used": text(cells::gres_used(first)) },
        "cluster": "", "comment": "", "extra": "",
        "reason": {
            "description": text(cells::reason(first)),
            "time": seconds(drain.map(|drain| drain.since)),
            "user": text(cells::reason_user(first)),
        },
        "reservation": text(cells::reservation(first)),
        "partition": partition(&first.node.pool, all),
    })
}

#[must_use]
pub fn node(one: &One<'_>, parser: Parser) -> Value {
    let (node, drain) = (one.node, one.node.drain.as_ref());
    let mut value = json!({
        "name": node.name, "address": node.name, "hostname": node.name,
        "architecture": std::env::consts::ARCH, "operating_system": node.system,
        "version": node.version, "port": 6818, "cluster_name": "", "comment": "", "extra": "",
        "boards": 1, "sockets": 1, "cores": whole(node.cpus), "threads": 1,
        "cpus": whole(node.cpus), "effective_cpus": whole(node.cpus), "cpu_load": 0,
        "cpu_binding": 0, "specialized_cores": 0, "specialized_cpus": "",
        "specialized_memory": 0, "temporary_disk": 0, "weight": 1, "owner": "", "mcs_label": "",
        "real_memory": node.memory >> 20, "free_mem": number(Some(cells::free_mebibytes(node))),
        "alloc_memory": node.memory_used >> 20, "alloc_cpus": whole(node.cpus_used),
        "alloc_idle_cpus": cells::idle_cpus(node),
        "features": node.labels, "active_features": node.labels,
    });
    let more = json!({
        "gres": text(cells::gres(one)), "gres_used": text(cells::gres_used(one)),
        "gres_drained": "N/A", "gpu_spec": "",
        "state": parser.states(cells::state(node).parts), "next_state_after_reboot": ["INVALID"],
        "partitions": [node.pool], "reservation": text(cells::reservation(one)),
        "reason": text(cells::reason(one)),
        "reason_changed_at": time(drain.map(|drain| drain.since)),
        "reason_set_by_user": text(cells::reason_user(one)),
        "boot_time": number(Some(0)), "slurmd_start_time": number(Some(0)),
        "last_busy": number(Some(0)), "resume_after": number(Some(0)),
        "instance_id": "", "instance_type": "", "power": {}, "external_sensors": {},
        "tres": cells::configured(one), "tres_used": cells::allocated(one),
        "tres_weighted": whole(node.cpus_used),
    });
    if let (Some(all), Value::Object(more)) = (value.as_object_mut(), more) {
        all.extend(more);
    }
    value
}

/// A partition: a pool with the nodes in it.
#[must_use]
pub fn partition(pool: &str, nodes: &[Node]) -> Value {
    let nodes: Vec<Node> = nodes.iter().filter(|node| node.pool == pool).cloned().collect();
    let pools = Pool::of(&nodes);
    let cpus: u64 = nodes.iter().map(|node| whole(node.cpus)).sum();
    let memory: u64 = nodes.iter().map(|node| node.memory >> 20).sum();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let n_gpus: u32 = pools.iter().map(|pool| pool.n_gpus).sum();
    let tres = format!("cpu={cpus},mem={memory}M,node={},gres/gpu={n_gpus}", names.len());
    let is_up = nodes.iter().any(|node| node.connected);
    json!({
        "name": pool, "alternate": "", "cluster": "", "node_sets": "", "grace_time": 0,
        "nodes": {
            "allowed_allocation": "", "configured": hostlist::compressed(&names),
            "total": names.len(),
        },
        "accounts": { "allowed": "", "deny": "" },
        "groups": { "allowed": "" },
        "qos": { "allowed": "", "deny": "", "assigned": "" },
        "tres": { "billing_weights": "", "configured": tres },
        "select_type": [],
        "cpus": { "task_binding": 0, "total": cpus },
        "defaults": { "memory_per_cpu": 0, "time": number(None), "job": "" },
        "maximums": {
            "cpus_per_node": bounded(None), "cpus_per_socket": bounded(None),
            "memory_per_cpu": 0, "nodes": bounded(None), "shares": 1,
            "oversubscribe": { "jobs": 1, "flags": [] },
            "time": bounded(None), "over_time_limit": number(None),
        },
        "minimums": { "nodes": 0 },
        "priority": { "job_factor": 1, "tier": 1 },
        "timeouts": { "resume": number(None), "suspend": number(None) },
        "partition": { "state": [if is_up { "UP" } else { "DOWN" }] },
        "suspend_time": number(None),
    })
}
