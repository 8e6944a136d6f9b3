//! The layout of a step: the tasks of the job that it uses, and the processes in each. Pure.

use std::collections::BTreeSet;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};

/// A task of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its rank in the job.
    pub rank: u32,
    /// Its node.
    pub node: String,
    /// Its default number of processes.
    pub usual: u32,
}

/// The requested layout of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Number of processes.
    pub n: Option<u32>,
    /// Number of nodes.
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

/// One process of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The index of its host in the plan.
    pub host: usize,
    /// Its number on its node.
    pub local: u32,
}

/// The processes of a step, by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The hosts in use.
    pub hosts: Vec<Host>,
    /// The processes.
    pub processes: Vec<Process>,
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

/// The nodes of hosts, each once, in order.
fn nodes(hosts: &[Host]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    hosts.iter().map(|host| host.node.as_str()).filter(|node| seen.insert(*node)).collect()
}

/// Places the processes of a step. If it does not need all tasks, it uses the first ones in
/// `order`, a list of ranks.
///
/// # Errors
/// The job has too few nodes, or not the requested ones.
pub fn plan(all: &[Host], order: &[u32], asked: &Asked) -> Result<Plan> {
    let place = |rank: u32| order.iter().position(|other| *other == rank);
    let mut selected = select(all, &place, asked)?;
    let n_nodes = u32::try_from(nodes(&selected).len()).unwrap_or(u32::MAX);
    let most = asked.per_node.map(|each| each.saturating_mul(n_nodes));
    let usual = || selected.iter().map(|host| host.usual).sum();
    let n = asked.n.or(most).unwrap_or_else(usual).max(1);
    if let Some(most) = most.filter(|most| n > *most) {
        return Err(refused(&format!("{n} processes are more than {most} on {n_nodes} nodes")));
    }
    let n_hosts = usize::try_from(n).unwrap_or(usize::MAX).min(selected.len());
    selected.sort_by_key(|host| place(host.rank));
    let mut hosts: Vec<Host> = selected.into_iter().take(n_hosts).collect();
    hosts.sort_by_key(|host| host.rank);
    let parts = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
    let mut processes: Vec<Process> = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let more = u32::try_from(at).is_ok_and(|at| at < n % parts);
        for _ in 0..n / parts + u32::from(more) {
            let before = processes.iter().filter(|other| hosts[other.host].node == host.node);
            let local = u32::try_from(before.count()).unwrap_or(u32::MAX);
            processes.push(Process { host: at, local });
        }
    }
    Ok(Plan { hosts, processes })
}

/// The hosts on the nodes that a step may use.
fn select(all: &[Host], place: &dyn Fn(u32) -> Option<usize>, asked: &Asked) -> Result<Vec<Host>> {
    let known = nodes(all);
    if let Some(node) = asked.only.iter().find(|node| !known.contains(&node.as_str())) {
        return Err(refused(&format!("node {node} is not one of the job's"))
            .why(format!("the job has {}", known.join(", "))));
    }
    let skip = usize::try_from(asked.skip).unwrap_or(usize::MAX);
    let is_wanted = |node: &&&str| {
        let names = |list: &[String]| list.iter().any(|name| name == **node);
        (asked.only.is_empty() || names(&asked.only)) && !names(&asked.not)
    };
    let mut usable: Vec<&str> = known.iter().skip(skip).filter(is_wanted).copied().collect();
    let wanted = match asked.nodes.map(usize::try_from) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(nodes: &[(&str, u32)]) -> Vec<Host> {
        let host = |(rank, (node, usual)): (u32, &(&str, u32))| Host {
            rank,
            node: (*node).to_owned(),
            usual: *usual,
        };
        (0..).zip(nodes).map(host).collect()
    }

    /// The node and the local number of each process.
    fn shown(all: &[Host], asked: &Asked) -> String {
        match plan(all, &[], asked) {
            Err(failure) => failure.what().to_owned(),
            Ok(plan) => {
                let of = |process: &Process| {
                    format!("{}.{}", plan.hosts[process.host].node, process.local)
                };
                plan.processes.iter().map(of).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn processes_go_to_nodes_as_slurm_places_them() {
        let two = hosts(&[("a", 2), ("b", 1)]);
        let of = |asked: Asked| shown(&two, &asked);
        assert_eq!(of(Asked::default()), "a.0 a.1 b.0");
        assert_eq!(of(Asked { n: Some(1), ..Asked::default() }), "a.0");
        assert_eq!(of(Asked { n: Some(5), ..Asked::default() }), "a.0 a.1 a.2 b.0 b.1");
        assert_eq!(of(Asked { nodes: Some(1), ..Asked::default() }), "a.0 a.1");
        assert_eq!(of(Asked { per_node: Some(1), ..Asked::default() }), "a.0 b.0");
        let only = vec!["b".to_owned()];
        assert_eq!(of(Asked { n: Some(2), only, ..Asked::default() }), "b.0 b.1");
        assert_eq!(of(Asked { skip: 1, ..Asked::default() }), "b.0");
        assert_eq!(of(Asked { not: vec!["a".to_owned()], ..Asked::default() }), "b.0");
    }

    #[test]
    fn tasks_without_other_steps_come_first() {
        let three = hosts(&[("a", 1), ("b", 1), ("b", 1)]);
        let one = Asked { n: Some(1), nodes: Some(1), ..Asked::default() };
        let ranks = |order: &[u32], asked: &Asked| -> Result<Vec<u32>> {
            Ok(plan(&three, order, asked)?.hosts.iter().map(|host| host.rank).collect())
        };
        assert_eq!(ranks(&[2, 0, 1], &one), Ok(vec![2]));
        assert_eq!(ranks(&[2, 0, 1], &Asked { n: Some(2), ..Asked::default() }), Ok(vec![0, 2]));
        assert_eq!(ranks(&[2, 0, 1], &Asked::default()), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn tasks_on_one_node_share_its_numbers() {
        let three = hosts(&[("a", 1), ("b", 1), ("b", 1)]);
        assert_eq!(shown(&three, &Asked::default()), "a.0 b.0 b.1");
        assert_eq!(plan(&three, &[], &Asked::default()).map(|it| it.by_node()), Ok(vec![1, 2]));
    }

    #[test]
    fn what_the_job_does_not_have_is_refused() {
        let one = hosts(&[("a", 2)]);
        let of = |asked: Asked| shown(&one, &asked);
        let text = of(Asked { nodes: Some(2), ..Asked::default() });
        assert_eq!(text, "srun: the step needs 2 nodes, and the job has 1 for it");
        let text = of(Asked { only: vec!["z".to_owned()], ..Asked::default() });
        assert_eq!(text, "srun: node z is not one of the job's");
        let text = of(Asked { n: Some(3), per_node: Some(2), ..Asked::default() });
        assert_eq!(text, "srun: 3 processes are more than 2 on 1 nodes");
    }
}
