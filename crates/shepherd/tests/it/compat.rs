//! The environment variables of other schedulers, for scripts written for them. They repeat gpool's
//! own variables under the other scheduler's names. Pure.

use std::sync::Arc;

use gpool_model::NodeName;

use crate::environment::{member, order};
use gpool_model::Compat;
use gpool_shepherd::compat::{variables, with_task_id};

fn of(compat: Compat, task: &str) -> Vec<String> {
    let mut order = order(task);
    Arc::make_mut(&mut order.spec).memory = Some(gpool_model::Bytes::from_gib(2));
    let text = |value: Vec<u8>| String::from_utf8(value).expect("text");
    let all = variables(compat, &order).into_iter();
    all.map(|(name, value)| format!("{name}={}", text(value))).collect()
}

#[test]
fn slurm_variables_describe_the_job() {
    let all = of(Compat::Slurm, "7#3/0");
    for expected in [
        "SLURM_JOB_ID=7",
        "SLURM_JOBID=7",
        "SLURM_GPUS_ON_NODE=2",
        "SLURM_GPUS=2",
        "SLURM_GPUS_PER_NODE=2",
        "SLURM_JOB_GPUS=2,5",
        "SLURM_CPUS_PER_TASK=2",
        "SLURM_MEM_PER_NODE=2048",
        "SLURM_RESTART_COUNT=2",
        "SLURM_SUBMIT_DIR=/",
    ] {
        assert!(all.iter().any(|one| one == expected), "{expected} in {all:?}");
    }
    assert!(!all.iter().any(|one| one.starts_with("SLURM_ARRAY")), "{all:?}");
    assert!(!all.iter().any(|one| one.starts_with("SLURM_NTASKS")), "{all:?}");
}

#[test]
fn slurm_variables_describe_the_other_tasks() {
    let all = variables(Compat::Slurm, &member()).into_iter();
    let text = |value: Vec<u8>| String::from_utf8(value).expect("text");
    let all: Vec<String> = all.map(|(name, value)| format!("{name}={}", text(value))).collect();
    for expected in [
        "SLURM_JOB_NODELIST=lab0,lab1",
        "SLURM_NNODES=2",
        "SLURM_NTASKS=4",
        "SLURM_TASKS_PER_NODE=2(x2)",
        "SLURM_NODEID=1",
        "SLURM_PROCID=3",
        "SLURM_LOCALID=1",
    ] {
        assert!(all.iter().any(|one| one == expected), "{expected} in {all:?}");
    }
}

#[test]
fn slurm_variables_count_the_tasks_of_each_node() {
    let mut order = member();
    order.nodes = ["lab0", "lab0", "lab1", "lab1", "lab2"].map(NodeName::new).into();
    let all = variables(Compat::Slurm, &order);
    let each = all.iter().find(|(name, _)| *name == "SLURM_TASKS_PER_NODE");
    assert_eq!(each.map(|(_, value)| &value[..]), Some(&b"2(x2),1"[..]));
}

#[test]
fn the_index_of_gflow_is_filled_into_arguments() {
    let order = order("7.4#1/0");
    for (word, filled) in [
        ("$GFLOW_ARRAY_TASK_ID", "4"),
        ("a-${GFLOW_ARRAY_TASK_ID}.txt", "a-4.txt"),
        ("$$GFLOW_ARRAY_TASK_ID$HOME", "$4$HOME"),
        ("$GFLOW_ARRAY_TASK_IDS", "$GFLOW_ARRAY_TASK_IDS"),
        ("${GFLOW_ARRAY_TASK_ID:-1}", "${GFLOW_ARRAY_TASK_ID:-1}"),
    ] {
        assert_eq!(with_task_id(word, &order), filled);
    }
}

#[test]
fn array_elements_have_different_ids() {
    let all = of(Compat::Slurm, "7.4#1/0");
    for expected in ["SLURM_JOB_ID=1073748996", "SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=4"] {
        assert!(all.iter().any(|one| one == expected), "{expected} in {all:?}");
    }
    assert_eq!(of(Compat::Gflow, "7.4#1/0"), ["GFLOW_ARRAY_TASK_ID=4", "GFLOW_JOB_ID=1073748996"]);
    assert_eq!(of(Compat::Gflow, "7#1/0"), ["GFLOW_ARRAY_TASK_ID=0", "GFLOW_JOB_ID=7"]);
    assert!(of(Compat::Valohai, "7.4#1/0").contains(&"VH_TASK_ID=7".to_owned()));
}
