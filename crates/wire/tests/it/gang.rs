//! Jobs of several tasks: requests and answers.

use gpool_model::{Gang, Refusal};
use gpool_wire::gang::gang;
use gpool_wire::{JobCreate, Quantity};

fn asked(nodes: Option<&str>, each: Option<u32>) -> Result<Gang, String> {
    let nodes = nodes.map(Quantity::from);
    let create = JobCreate { nodes, tasks_per_node: each, ..JobCreate::default() };
    gang(&create).map_err(|refusal| match refusal {
        Refusal::Invalid { field, why } => format!("{field}: {why}"),
        other => format!("{other:?}"),
    })
}

#[test]
fn nodes_and_tasks_are_numbers_from_one() {
    assert_eq!(asked(None, None), Ok(Gang::SINGLE));
    assert_eq!(asked(Some("2"), Some(4)).map(Gang::n_tasks), Ok(8));
    let grows = asked(Some("2-4"), Some(2)).expect("a range");
    assert_eq!((grows.n_tasks(), grows.nodes_most), (4, 4));
    assert_eq!(asked(Some("2-2"), None).map(Gang::n_tasks), Ok(2), "as Slurm writes it");
    for (nodes, each, why) in [
        (Some("0"), None, "nodes: a job has 1 to 16384 tasks"),
        (None, Some(0), "tasks_per_node: a job has 1 to"),
        (Some("20000"), None, "nodes: a job has 1 to"),
        (Some("4-2"), None, "write 2-4"),
        (Some("2-20000"), None, "nodes: a job has 1 to 16384 tasks"),
        (Some("two"), None, "\"two\" is not a number of nodes"),
        (Some("-1"), None, "\"-1\" is not a number of nodes"),
    ] {
        let refused = asked(nodes, each).expect_err("refused");
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn tasks_anywhere_are_a_number_of_tasks() {
    let of = |tasks: &str, change: &dyn Fn(&mut JobCreate)| {
        let mut create = JobCreate { tasks: Some(tasks.into()), ..JobCreate::default() };
        change(&mut create);
        gang(&create).map_err(|refusal| format!("{refusal:?}"))
    };
    let grows = of("4-8", &|_| {}).expect("a range");
    assert_eq!((grows.n_tasks(), grows.nodes_most, grows.anywhere), (4, 8, true));
    assert_eq!(of("1", &|_| {}), Ok(Gang::SINGLE));
    assert_eq!(of("1-3", &|_| {}).map(|gang| gang.anywhere), Ok(true));
    for (tasks, change, why) in [
        ("0", &(|_: &mut JobCreate| {}) as &dyn Fn(&mut JobCreate), "1 to 16384 tasks"),
        ("x", &|_| {}, "not a number of tasks"),
        ("8-4", &|_| {}, "write 4-8"),
        ("4", &|create| create.nodes = Some("2".into()), "leave tasks_per_node out"),
        ("4", &|create| create.tasks_per_node = Some(1), "leave tasks_per_node out"),
        ("4", &|create| create.torchrun = true, "once per node"),
    ] {
        let refused = of(tasks, change).expect_err("refused");
        assert!(refused.contains(why), "{refused}");
    }
}
