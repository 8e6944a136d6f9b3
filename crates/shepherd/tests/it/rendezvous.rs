//! The variables that let the tasks of a job find each other, for PyTorch and `torchrun`.
//!
//! `torchrun` takes each of its options from a variable as well: `PET_` and the option's name
//! (`torch.distributed.argparse_util`).

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::NodeName;

use crate::environment::{member, order};
use gpool_model::agent::TaskOrder;
use gpool_model::{Attempt, Gang, JobId, Joins};
use gpool_shepherd::rendezvous::{TaskPosition, variables};

fn told(order: &TaskOrder) -> BTreeMap<&'static str, String> {
    let all = variables(order, &TaskPosition::of(order));
    all.into_iter().map(|(name, value)| (name, String::from_utf8(value).unwrap())).collect()
}

fn with(mut order: TaskOrder, gang: Gang, torchrun: bool) -> TaskOrder {
    let spec = Arc::make_mut(&mut order.spec);
    (spec.gang, spec.torchrun) = (gang, torchrun);
    order
}

#[test]
fn a_single_task_gets_no_variables_unless_torchrun_asks() {
    assert_eq!(told(&order("7#1/0")), BTreeMap::new());
    let told = told(&with(order("7#1/0"), Gang::SINGLE, true));
    assert_eq!(&*told["PET_NNODES"], "1");
    assert_eq!(&*told["PET_MASTER_ADDR"], "127.0.0.1");
    assert_eq!(told["PET_MASTER_PORT"], told["MASTER_PORT"]);
    assert!(!told.contains_key("PET_RDZV_BACKEND"));
}

#[test]
fn a_joining_task_belongs_to_the_run_that_it_joins() {
    let gang = Gang::new(2, 2).and_then(|gang| gang.growing_to(4)).unwrap();
    let first = told(&with(member(), gang, true));
    let mut joiner = with(order("9#3/1"), Gang::new(1, 2).unwrap(), true);
    joiner.nodes = vec![NodeName::new("lab5"); 2];
    joiner.master_addr = "lab0.net".to_owned();
    Arc::make_mut(&mut joiner.spec).joins = Some(Box::new(Joins {
        job: JobId::single(7),
        attempt: Attempt(2),
        gang,
        nodes: vec![NodeName::new("lab0")],
        first_rank: 4,
    }));
    let joined = told(&joiner);
    for name in ["MASTER_ADDR", "MASTER_PORT", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_NNODES"] {
        assert_eq!(first[name], joined[name], "{name}");
    }
    assert_eq!(&*first["PET_NNODES"], "2:4");
    assert_eq!((&*joined["RANK"], &*joined["NODE_RANK"]), ("5", "2"));
    assert_eq!(&*joined["GPOOL_JOINS"], "7");
    assert_eq!(&*first["PET_RDZV_ID"], "7.2");
}
