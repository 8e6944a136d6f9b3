//! The layout of a step: the tasks of the job that it uses, and the processes in each. Pure.

use gpool_cli::failure::Result;
use gpool_compat::testing::{Asked, Host, StepProcess, plan};

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
            let of = |process: &StepProcess| {
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
    assert_eq!(text, "srun: node z is not a node of the job");
    let text = of(Asked { n: Some(3), per_node: Some(2), ..Asked::default() });
    assert_eq!(text, "srun: 3 processes are more than the maximum of 2 on 1 nodes");
}
