//! The nodes that a Slurm job may use: `--nodelist`, `--exclude`, `--constraint` and `--exclusive`.

use gpool_model::hostlist;

use crate::failure::Result;
use crate::foreign::flag::{Given, invalid};
use crate::foreign::translated::Translated;

/// Translates the flags; the later of two wins.
///
/// # Errors
/// A value is not valid, or gpool has no such condition.
pub fn translate(given: &[Given], all: &mut Translated) -> Result<()> {
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
            let (name, value) = (flag.flag.written(), &flag.value);
            all.remarks.push(format!("{name}={value}: no other job at all runs on its nodes"));
        }
    }
    Ok(())
}

/// The number of nodes in a list.
///
/// # Errors
/// It is not a list of names.
pub fn n_named(flag: &Given) -> Result<u64> {
    match hostlist::nodes(&flag.value) {
        Ok(nodes) => Ok(nodes.len() as u64),
        Err(error) => {
            Err(invalid(flag, "is no list of nodes").why(error.to_string()).tip("lab1,node[1-4]"))
        }
    }
}

/// Translates `a100&ssd`, `a100|h100`: labels of nodes, or models of their GPUs.
fn constraint(flag: &Given, all: &mut Translated) -> Result<()> {
    let value = flag.value.as_str();
    if value.contains(['(', ')', '[', ']', '*', ',']) || value.contains('&') && value.contains('|')
    {
        let failure = invalid(flag, "is more than labels joined by & alone or by | alone");
        return Err(failure.tip("--constraint='a100&ssd' or --constraint='rack1|rack2'"));
    }
    for rule in value.split('&') {
        if let Err(error) = gpool_model::NodeRule::parse(rule) {
            let failure = invalid(flag, "names no label").why(error.to_string());
            return Err(failure.tip("gpool nodes -o wide   (shows the labels of nodes)"));
        }
        all.leniently("where", rule, flag);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::foreign::flag::{Given, Read};
    use crate::foreign::slurm::flags::SBATCH;
    use crate::foreign::slurm::translate::translate;

    fn given(line: &str) -> Vec<Given> {
        let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match SBATCH.read(&line).expect("flags") {
            Read::Said(said) => said.flags,
            Read::Help(_) => Vec::new(),
        }
    }

    fn words(line: &str) -> Vec<String> {
        let all = translate(&given(line)).expect("they are understood");
        all.words.into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn nodes_are_chosen_by_name_label_and_model() {
        assert_eq!(words("-w lab1 -x lab[2-3] x.sh"), ["--node=lab1", "--not-node=lab[2-3]"]);
        assert_eq!(
            words("-C a100&ssd --exclusive x.sh"),
            ["--where=a100", "--lenient", "--where=ssd", "--lenient", "--exclusive"]
        );
        assert_eq!(words("-C rack1|2080ti x.sh"), ["--where=rack1|2080ti", "--lenient"]);
        // A job gets all nodes that it names.
        assert!(words("-w lab[1-3] x.sh").contains(&"--nodes=3".to_owned()));
        for line in ["-C (a&b)|c x.sh", "-C a*2 x.sh", "-C 4 x.sh", "-w ./hosts x.sh"] {
            translate(&given(line)).expect_err("it is refused by name");
        }
    }
}
