//! The layout of a step: the tasks of the job that it uses, and the processes in each. Pure.

use std::collections::BTreeSet;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};

/// A task of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its rank in the job.
    pub rank: u32,
    pub node: String,
    /// Its default number of processes.
    pub usual: u32,
}

/// The requested layout of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayoutRequest {
    /// Number of processes.
    pub n: Option<u32>,
    pub nodes: Option<u32>,
    /// Processes on each node, or the most of them if `n` is given.
    pub per_node: Option<u32>,
    /// The only nodes to use; empty means all.
    pub only: Vec<String>,
    /// Nodes to avoid.
    pub not: Vec<String>,
    /// Number of first nodes to skip.
    pub skip: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepProcess {
    /// The index of its host in the plan.
    pub host: usize,
    /// Its number on its node.
    pub local: u32,
}

/// The processes of a step, by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub hosts: Vec<Host>,
    pub processes: Vec<StepProcess>,
}

impl Plan {
    /// The nodes, each once, in order.
    pub fn nodes(&self) -> Vec<&str> {
        nodes(&self.hosts)
    }

    /// The number of processes on each node.
    pub fn by_node(&self) -> Vec<u32> {
        let of = |node: &&str| self.on_node(node).count();
        self.nodes().iter().map(|node| u32::try_from(of(node)).unwrap_or(u32::MAX)).collect()
    }

    /// The ranks of the processes on a node.
    pub fn on_node<'p>(&'p self, node: &'p str) -> impl Iterator<Item = usize> + 'p {
        let all = self.processes.iter().enumerate();
        all.filter(move |(_, process)| self.hosts[process.host].node == node).map(|(rank, _)| rank)
    }
}

/// The hosts of one of several equal parts of a job.
pub fn of_part(hosts: &[Host], (part, n_parts): (usize, usize)) -> &[Host] {
    let each = hosts.len() / n_parts.max(1);
    let end = if part + 1 == n_parts { hosts.len() } else { (part + 1) * each };
    hosts.get(part * each..end).unwrap_or(hosts)
}

/// The nodes of hosts, each once, in order.
pub fn nodes(hosts: &[Host]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    hosts.iter().map(|host| host.node.as_str()).filter(|node| seen.insert(*node)).collect()
}

/// Places the processes of a step. If it does not need all tasks, it uses the first ones in
/// `order`, a list of ranks.
///
/// # Errors
/// The job has too few nodes, or not the requested ones.
pub fn plan(all: &[Host], order: &[u32], request: &LayoutRequest) -> Result<Plan> {
    let place = |rank: u32| order.iter().position(|other| *other == rank);
    let mut selected = select(all, &place, request)?;
    let n_nodes = u32::try_from(nodes(&selected).len()).unwrap_or(u32::MAX);
    let most = request.per_node.map(|each| each.saturating_mul(n_nodes));
    let usual = || selected.iter().map(|host| host.usual).sum();
    let n = request.n.or(most).unwrap_or_else(usual).max(1);
    if let Some(most) = most.filter(|most| n > *most) {
        return Err(refused(&format!(
            "{n} processes are more than the maximum of {most} on {n_nodes} nodes"
        )));
    }
    let n_hosts = usize::try_from(n).unwrap_or(usize::MAX).min(selected.len());
    selected.sort_by_key(|host| place(host.rank));
    let mut hosts: Vec<Host> = selected.into_iter().take(n_hosts).collect();
    hosts.sort_by_key(|host| host.rank);
    let parts = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
    let mut processes: Vec<StepProcess> = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let more = u32::try_from(at).is_ok_and(|at| at < n % parts);
        for _ in 0..n / parts + u32::from(more) {
            let before = processes.iter().filter(|other| hosts[other.host].node == host.node);
            let local = u32::try_from(before.count()).unwrap_or(u32::MAX);
            processes.push(StepProcess { host: at, local });
        }
    }
    Ok(Plan { hosts, processes })
}

/// The hosts on the nodes that a step may use.
fn select(
    all: &[Host],
    place: &dyn Fn(u32) -> Option<usize>,
    request: &LayoutRequest,
) -> Result<Vec<Host>> {
    let known = nodes(all);
    if let Some(node) = request.only.iter().find(|node| !known.contains(&node.as_str())) {
        return Err(refused(&format!("node {node} is not a node of the job"))
            .why(format!("the job has {}", known.join(", "))));
    }
    let skip = usize::try_from(request.skip).unwrap_or(usize::MAX);
    let is_wanted = |node: &&&str| {
        let names = |list: &[String]| list.iter().any(|name| name == **node);
        (request.only.is_empty() || names(&request.only)) && !names(&request.not)
    };
    let mut usable: Vec<&str> = known.iter().skip(skip).filter(is_wanted).copied().collect();
    let wanted = match request.nodes.map(usize::try_from) {
        None => usable.len(),
        Some(n) => n.unwrap_or(usize::MAX),
    };
    if wanted > usable.len() || usable.is_empty() {
        let least = wanted.max(1);
        return Err(refused(&format!(
            "the step needs {least} nodes, and the job has {} for it",
            usable.len()
        )));
    }
    let first = |node: &&str| {
        all.iter().filter(|host| host.node == **node).filter_map(|host| place(host.rank)).min()
    };
    usable.sort_by_key(first);
    let chosen = &usable[..wanted];
    Ok(all.iter().filter(|host| chosen.contains(&host.node.as_str())).cloned().collect())
}

fn refused(what: &str) -> Failure {
    Failure::new(errors::USAGE, format!("srun: {what}"))
}
