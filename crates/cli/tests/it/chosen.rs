//! The nodes that a Slurm job may use: `--nodelist`, `--exclude`, `--constraint` and `--exclusive`.

use gpool_cli::foreign::flag::{ParseOutcome, PassedFlag};
use gpool_cli::foreign::slurm::flags::SBATCH;
use gpool_cli::foreign::slurm::translate::translate;

fn given(line: &str) -> Vec<PassedFlag> {
    let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
    match SBATCH.read(&line).expect("flags") {
        ParseOutcome::Args(said) => said.flags,
        ParseOutcome::Help(_) => Vec::new(),
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
