//! The records of nodes and partitions in `scontrol show`.
//!
//! Source: its output in Slurm 24.11, also for keys without a value.

use gpool_wire::Node;

use super::cells::DEFAULT_POOL;
use super::hostlist;
use super::node_cells::{self as cells, One, whole};
use super::record::ScontrolRecord;

/// The record of a node; with details, also the GPUs in use.
#[must_use]
pub fn of_node(one: &One<'_>) -> ScontrolRecord {
    let node = one.node;
    let mut record = ScontrolRecord::default();
    let pair = |key: &'static str, text: &str| (key, text.to_owned());
    let or = |cell: cells::Cell, absent: &str| cell(one).unwrap_or_else(|| absent.to_owned());
    record.line(&[
        ("NodeName", node.name.clone()),
        pair("Arch", std::env::consts::ARCH),
        ("CoresPerSocket", whole(node.cpus).to_string()),
    ]);
    record.line(&[
        ("CPUAlloc", whole(node.cpus_used).to_string()),
        ("CPUEfctv", whole(node.cpus).to_string()),
        ("CPUTot", whole(node.cpus).to_string()),
        pair("CPULoad", "N/A"),
    ]);
    record.line(&[("AvailableFeatures", or(cells::features, "(null)"))]);
    record.line(&[("ActiveFeatures", or(cells::features, "(null)"))]);
    record.line(&[("Gres", or(cells::gres, "(null)"))]);
    record.line(&[("GresUsed", or(cells::gres_used, "(null)"))]);
    record.line(&[
        ("NodeAddr", node.name.clone()),
        ("NodeHostName", node.name.clone()),
        pair("Port", "6818"),
        ("Version", node.version.clone()),
    ]);
    record.line(&[("OS", node.system.clone())]);
    record.line(&[
        ("RealMemory", (node.memory >> 20).to_string()),
        ("AllocMem", (node.memory_used >> 20).to_string()),
        ("FreeMem", cells::free_mebibytes(node).to_string()),
        pair("Sockets", "1"),
        pair("Boards", "1"),
    ]);
    record.line(&[
        ("State", cells::state(node).parts.join("+")),
        pair("ThreadsPerCore", "1"),
        pair("TmpDisk", "0"),
        pair("Weight", "1"),
        pair("Owner", "N/A"),
        pair("MCS_label", "N/A"),
    ]);
    record.line(&[("Partitions", node.pool.clone())]);
    record.line(&[pair("BootTime", "None"), pair("SlurmdStartTime", "None")]);
    record.line(&[pair("LastBusyTime", "Unknown"), pair("ResumeAfterTime", "None")]);
    record.line(&[("CfgTRES", cells::configured(one))]);
    record.line(&[("AllocTRES", cells::allocated(one))]);
    record.line(&[pair("CurrentWatts", "0"), pair("AveWatts", "0")]);
    if let Some(reservation) = cells::reservation(one) {
        record.line(&[("ReservationName", reservation)]);
    }
    if let Some(reason) = cells::reason(one) {
        let by = cells::reason_user(one).zip(cells::reason_since(one));
        let by = by.map(|(user, since)| format!(" [{user}@{since}]")).unwrap_or_default();
        record.line(&[("Reason", format!("{reason}{by}"))]);
    }
    record
}

/// The record of a partition: a pool with all nodes of the cluster.
#[must_use]
pub fn of_pool(pool: &gpool_wire::Pool, nodes: &[Node]) -> ScontrolRecord {
    let here = || nodes.iter().filter(|node| node.pool == pool.name);
    let cpus: u64 = here().map(|node| whole(node.cpus)).sum();
    let memory: u64 = here().map(|node| node.memory >> 20).sum();
    let yes_no = |is_so: bool| if is_so { "YES" } else { "NO" }.to_owned();
    let pair = |key: &'static str, text: &str| (key, text.to_owned());
    let mut record = ScontrolRecord::default();
    record.line(&[("PartitionName", pool.name.clone())]);
    let all = |key| pair(key, "ALL");
    record.line(&[all("AllowGroups"), all("AllowAccounts"), all("AllowQos")]);
    record.line(&[
        all("AllocNodes"),
        ("Default", yes_no(pool.name == DEFAULT_POOL)),
        pair("QoS", "N/A"),
    ]);
    let no = |key| pair(key, "NO");
    record.line(&[
        pair("DefaultTime", "NONE"),
        no("DisableRootJobs"),
        no("ExclusiveUser"),
        pair("GraceTime", "0"),
        no("Hidden"),
    ]);
    let unlimited = |key| pair(key, "UNLIMITED");
    record.line(&[
        unlimited("MaxNodes"),
        unlimited("MaxTime"),
        pair("MinNodes", "0"),
        no("LLN"),
        unlimited("MaxCPUsPerNode"),
        unlimited("MaxCPUsPerSocket"),
    ]);
    record.line(&[("Nodes", hostlist::compressed(&pool.nodes))]);
    record.line(&[
        pair("PriorityJobFactor", "1"),
        pair("PriorityTier", "1"),
        no("RootOnly"),
        no("ReqResv"),
        no("OverSubscribe"),
    ]);
    record.line(&[pair("OverTimeLimit", "NONE"), pair("PreemptMode", "OFF")]);
    record.line(&[
        pair("State", if pool.n_connected > 0 { "UP" } else { "DOWN" }),
        ("TotalCPUs", cpus.to_string()),
        ("TotalNodes", pool.nodes.len().to_string()),
        pair("SelectTypeParameters", "NONE"),
    ]);
    record.line(&[pair("JobDefaults", "(null)")]);
    record.line(&[unlimited("DefMemPerNode"), unlimited("MaxMemPerNode")]);
    let tres = format!("cpu={cpus},mem={memory}M,node={},billing={cpus}", pool.nodes.len());
    record.line(&[("TRES", format!("{tres},gres/gpu={}", pool.n_gpus))]);
    record
}
