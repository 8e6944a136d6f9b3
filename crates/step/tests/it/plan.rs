//! The layout of a step: the tasks of the job that it uses, and the processes in each. Pure.

use gpool_cli::failure::Result;
use gpool_step::{Host, LayoutRequest, StepProcess, plan};

fn hosts(nodes: &[(&str, u32)]) -> Vec<Host> {
    let host = |(rank, (node, usual)): (u32, &(&str, u32))| Host {
        rank,
        node: (*node).to_owned(),
        usual: *usual,
    };
    (0..).zip(nodes).map(host).collect()
}

/// The node and the local number of each process.
fn shown(all: &[Host], asked: &LayoutRequest) -> String {
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
    let of = |asked: LayoutRequest| shown(&two, &asked);
    assert_eq!(of(LayoutRequest::default()), "a.0 a.1 b.0");
    assert_eq!(of(LayoutRequest { n: Some(1), ..LayoutRequest::default() }), "a.0");
    assert_eq!(of(LayoutRequest { n: Some(5), ..LayoutRequest::default() }), "a.0 a.1 a.2 b.0 b.1");
    assert_eq!(of(LayoutRequest { nodes: Some(1), ..LayoutRequest::default() }), "a.0 a.1");
    assert_eq!(of(LayoutRequest { per_node: Some(1), ..LayoutRequest::default() }), "a.0 b.0");
    let only = vec!["b".to_owned()];
    assert_eq!(of(LayoutRequest { n: Some(2), only, ..LayoutRequest::default() }), "b.0 b.1");
    assert_eq!(of(LayoutRequest { skip: 1, ..LayoutRequest::default() }), "b.0");
    assert_eq!(of(LayoutRequest { not: vec!["a".to_owned()], ..LayoutRequest::default() }), "b.0");
}

#[test]
fn tasks_without_other_steps_come_first() {
    let three = hosts(&[("a", 1), ("b", 1), ("b", 1)]);
    let one = LayoutRequest { n: Some(1), nodes: Some(1), ..LayoutRequest::default() };
    let ranks = |order: &[u32], asked: &LayoutRequest| -> Result<Vec<u32>> {
        Ok(plan(&three, order, asked)?.hosts.iter().map(|host| host.rank).collect())
    };
    assert_eq!(ranks(&[2, 0, 1], &one), Ok(vec![2]));
    assert_eq!(
        ranks(&[2, 0, 1], &LayoutRequest { n: Some(2), ..LayoutRequest::default() }),
        Ok(vec![0, 2])
    );
    assert_eq!(ranks(&[2, 0, 1], &LayoutRequest::default()), Ok(vec![0, 1, 2]));
}

#[test]
fn tasks_on_one_node_share_its_numbers() {
    let three = hosts(&[("a", 1), ("b", 1), ("b", 1)]);
    assert_eq!(shown(&three, &LayoutRequest::default()), "a.0 b.0 b.1");
    assert_eq!(plan(&three, &[], &LayoutRequest::default()).map(|it| it.by_node()), Ok(vec![1, 2]));
}

#[test]
fn what_the_job_does_not_have_is_refused() {
    let one = hosts(&[("a", 2)]);
    let of = |asked: LayoutRequest| shown(&one, &asked);
    let text = of(LayoutRequest { nodes: Some(2), ..LayoutRequest::default() });
    assert_eq!(text, "srun: the step needs 2 nodes, and the job has 1 for it");
    let text = of(LayoutRequest { only: vec!["z".to_owned()], ..LayoutRequest::default() });
    assert_eq!(text, "srun: node z is not a node of the job");
    let text = of(LayoutRequest { n: Some(3), per_node: Some(2), ..LayoutRequest::default() });
    assert_eq!(text, "srun: 3 processes are more than the maximum of 2 on 1 nodes");
}
