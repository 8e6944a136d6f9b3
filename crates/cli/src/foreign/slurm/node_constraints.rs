//! The nodes that a Slurm job may use: `--nodelist`, `--exclude`, `--constraint` and `--exclusive`.

use gpool_model::hostlist;

use crate::failure::Result;
use crate::foreign::flag::{PassedFlag, invalid};
use crate::foreign::translated::Translated;

/// Translates the flags; the later of two wins.
///
/// # Errors
/// A value is not valid, or gpool has no such condition.
pub fn translate(given: &[PassedFlag], all: &mut Translated) -> Result<()> {
    let last = |long: &str| given.iter().rev().find(|given| given.flag.long == long);
    for (long, flag_name) in [("nodelist", "node"), ("exclude", "not-node")] {
        if let Some(flag) = last(long) {
            n_named(flag)?;
            all.flag(flag_name, &flag.value, flag);
        }
    }
    if let Some(flag) = last("constraint") {
        constraint(flag, all)?;
    }
    if let Some(flag) = last("exclusive") {
        all.switch("exclusive", flag);
        if !flag.value.is_empty() {
            let (name, value) = (flag.flag.spelling(), &flag.value);
            all.remarks
                .push(format!("{name}={value}: no other job runs on its nodes, of any user"));
        }
    }
    Ok(())
}

/// The number of nodes in a list.
pub fn n_named(flag: &PassedFlag) -> Result<u64> {
    match hostlist::nodes(&flag.value) {
        Ok(nodes) => Ok(nodes.len() as u64),
        Err(error) => Err(invalid(flag, "is not a list of nodes")
            .why(error.to_string())
            .tip("lab1,node[1-4]")),
    }
}

/// Translates `a100&ssd`, `a100|h100`: labels of nodes, or models of their GPUs.
fn constraint(flag: &PassedFlag, all: &mut Translated) -> Result<()> {
    let value = flag.value.as_str();
    if value.contains(['(', ')', '[', ']', '*', ',']) || value.contains('&') && value.contains('|')
    {
        let failure = invalid(flag, "mixes & and |, or has other operators");
        return Err(failure.tip("--constraint='a100&ssd' or --constraint='rack1|rack2'"));
    }
    for rule in value.split('&') {
        if let Err(error) = gpool_model::NodeRule::parse(rule) {
            let failure = invalid(flag, "does not match a label").why(error.to_string());
            return Err(failure.tip("gpool nodes -o wide   (shows the labels of nodes)"));
        }
        all.leniently("where", rule, flag);
    }
    Ok(())
}
