//! Pools of nodes, and jobs that ask for a pool.

use crate::harness::{Cluster, Gate, until_so};
use crate::recovery::says;

const NODES: &str = r#"
[[node]]
name = "n1"
pool = "batch"
[[node.device]]
model = "NVIDIA H100-80G"
memory = "80G"
count = 2

[[node]]
name = "n2"
[[node.device]]
model = "NVIDIA H100-80G"
memory = "80G"
count = 4

[[node]]
name = "n3"
pool = "batch"
"#;

fn cluster() -> Cluster {
    let mut cluster = Cluster::unstarted(&[]);
    let file = cluster.path("nodes.toml");
    std::fs::write(&file, NODES).unwrap();
    cluster.set_flags(&["--devices", file.to_str().unwrap()]);
    cluster.up();
    cluster
}

fn node_of(cluster: &Cluster, id: &str) -> String {
    cluster.job(id).placement[0].node.clone()
}

/// The nodes of each pool.
fn pools(cluster: &Cluster) -> Vec<(String, Vec<String>)> {
    let pools = cluster.client().pools().unwrap().items;
    pools.into_iter().map(|pool| (pool.name, pool.nodes)).collect()
}

fn names(pools: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect();
    pools.iter().map(|(name, nodes)| ((*name).to_owned(), owned(nodes))).collect()
}

#[test]
fn a_job_runs_in_its_pool_or_is_refused_at_once() {
    let cluster = cluster();
    assert_eq!(pools(&cluster), names(&[("batch", &["n1", "n3"]), ("default", &["n2"])]));
    says(&cluster.gpool(["pool"]), &["batch", "2 of 2", "n1 n3", "4 of 4"]);
    says(&cluster.gpool(["nodes"]), &["batch", "default"]);
    let words = "echo $GPOOL_NODE $GPOOL_POOL";
    for (pool, node) in [("batch", "n1"), ("default", "n2")] {
        let id = cluster.sh(&["--gpus", "1", "--pool", pool], words);
        assert_eq!(cluster.until_ended(&id).request.pool.as_deref(), Some(pool));
        assert_eq!(cluster.stdout_of(&id), format!("{node} {pool}\n"));
        says(&cluster.gpool(["show", &id]), &[&format!("pool {pool}")]);
    }
    let refused = |words: &[&str], code: i32, why: &[&str]| {
        let words: Vec<&str> = ["submit"].iter().chain(words).copied().collect();
        cluster.gpool(words.iter().chain(&["--", "true"])).refused(code, why);
    };
    refused(&["--pool", "bach"], 6, &["no pool \"bach\"", "batch, default", "--pool batch"]);
    refused(&["--pool", "a b"], 2, &["pool", "letters"]);
    // The other pool has as many GPUs.
    let why = ["--pool batch allows only the nodes of that pool"];
    refused(&["--pool", "batch", "--gpus", "3"], 4, &why);
    // A script, the environment or the command line sets the pool; the command line takes
    // precedence.
    let script = cluster.work().join("job.sh");
    let text = format!("#!/bin/sh\n# GPOOL --pool batch\n#SBATCH --mem=1G\n{words}\n");
    std::fs::write(&script, text).unwrap();
    let script = script.to_str().unwrap();
    let of_script = cluster.submit([script]);
    let of_flag = cluster.submit(["--pool", "default", "--gpus", "1", script]);
    std::fs::write(cluster.work().join("other.sh"), "#!/bin/sh\n#SBATCH -p batch\ntrue\n").unwrap();
    let of_slurm = cluster.submit(["other.sh"]);
    std::fs::write(cluster.work().join("gone.sh"), "#!/bin/sh\n#SBATCH -p gone\ntrue\n").unwrap();
    cluster.gpool(["submit", "gone.sh"]).refused(6, &["no pool \"gone\"", "GPOOL_SLURM_NAMES"]);
    let mut command = cluster.command();
    command.env("GPOOL_SLURM_NAMES", "any").args(["submit", "gone.sh"]);
    let ran = crate::harness::Running::start(&mut command, None).end();
    says(&ran, &["there is no pool \"gone\"; the job may run on any node"]);
    let mut command = cluster.command();
    command.env("GPOOL_SUBMIT_POOL", "batch").args(["submit", "--", "true"]);
    let of_variable = crate::harness::Running::start(&mut command, None).end().ok();
    for (id, pool) in [
        (of_script.as_str(), "batch"),
        (&of_flag, "default"),
        (&of_slurm, "batch"),
        (of_variable.trim(), "batch"),
    ] {
        assert_eq!(cluster.until_ended(id).request.pool.as_deref(), Some(pool));
    }
}

#[test]
fn a_job_waits_for_its_pool_even_if_others_have_free_gpus() {
    let cluster = cluster();
    let first = cluster.sh(&["--gpus", "2", "--pool", "batch"], "sleep 1000");
    cluster.until_is(&first, "running");
    let waits = cluster.sh(&["--gpus", "1", "--pool", "batch"], "echo $GPOOL_NODE $GPOOL_POOL");
    let any = cluster.sh(&["--gpus", "1"], "true");
    assert_eq!(cluster.until_ended(&any).run.exit_code, Some(0));
    assert_eq!(
        (node_of(&cluster, &any).as_str(), cluster.job(&waits).state.as_str()),
        ("n2", "pending")
    );
    let why = cluster.why(&waits);
    for words in ["It needs 1 GPU, and none is free.", "It may only run in pool batch, on 2 nodes."]
    {
        assert!(why.contains(words), "{why}");
    }
    // A node with a free GPU moves to the pool.
    cluster.gpool(["pool", "move", "n2", "batch"]).ok();
    assert_eq!(cluster.until_ended(&waits).run.exit_code, Some(0));
    assert_eq!(cluster.stdout_of(&waits), "n2 batch\n");
    assert_eq!(pools(&cluster), names(&[("batch", &["n1", "n2", "n3"])]));
}

#[test]
fn nodes_are_moved_while_jobs_run_and_stay_moved() {
    let mut cluster = cluster();
    let runs = cluster.sh(&["--gpus", "4", "--pool", "default"], "sleep 1000");
    cluster.until_is(&runs, "running");
    cluster.gpool(["pool", "move", "n2", "n9", "night"]).refused(6, &["n9"]);
    cluster.gpool(["pool", "move", "n2", "a/b"]).refused(2, &["pool"]);
    assert_eq!(pools(&cluster), names(&[("batch", &["n1", "n3"]), ("default", &["n2"])]));
    cluster.gpool(["pool", "move", "n2", "n3", "night"]).ok();
    let moved = names(&[("batch", &["n1"]), ("night", &["n2", "n3"])]);
    assert_eq!(pools(&cluster), moved);
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
    // A job for a pool without nodes waits, and the reason is shown.
    let empty = cluster.gpool(["submit", "--pool", "default", "--", "true"]);
    empty.refused(6, &["no pool", "batch, night"]);
    let words = ["--pool", "default", "--allow-unsatisfiable", "--gpus", "1"];
    let waits = cluster.sh(&words, "true");
    says(&cluster.gpool(["why", &waits]), &["It may only run in pool default, which has no nodes"]);
    cluster.kill();
    cluster.up();
    // The file's pools of n1 and n3 apply at each start; the file sets none for n2.
    assert_eq!(pools(&cluster), names(&[("batch", &["n1", "n3"]), ("night", &["n2"])]));
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
    cluster.gpool(["cancel", &runs]).ok();
    cluster.gpool(["pool", "move", "n2", "default"]).ok();
    until_so("it runs", || cluster.job(&waits).state.is_end());
}

#[test]
fn a_pool_can_have_its_own_policy_and_lose_it_again() {
    let mut cluster = cluster();
    let set =
        |cluster: &Cluster, words: &[&str]| cluster.gpool([&["policy", "set"][..], words].concat());
    let told = set(&cluster, &["pool.batch=fifo", "pool.batch.planned_starts=all"]).ok();
    assert!(told.contains("pool.batch.order "), "{told}");
    cluster.kill();
    cluster.up();
    let show = cluster.gpool(["policy", "show"]).ok();
    let has = |key: &str, value: &str| {
        let is_it = |line: &str| line.split_whitespace().eq([key, value]);
        assert!(show.lines().any(is_it), "{key} {value} is not in {show}");
    };
    has("pool.batch.order", "age");
    has("pool.batch.planned_starts", "all");
    has("order", "priority,escalated,gpus,age");
    // The larger and older job goes first in that pool, and the smaller one in the other.
    let [mut larger, mut smaller] = [Vec::new(), Vec::new()];
    let gates = ["batch", "default"].map(|pool| {
        let gate = Gate::new(&cluster, pool);
        let n_gpus = if pool == "batch" { "2" } else { "4" };
        let holder = cluster.sh(&["--gpus", n_gpus, "--pool", pool], &gate.line());
        cluster.until_is(&holder, "running");
        let words = ["--gpus", n_gpus, "--pool", pool, "--", "sleep", "0.02"];
        larger.push(cluster.submit(words));
        smaller.push(cluster.submit(["--gpus", "1", "--pool", pool, "--", "sleep", "0.02"]));
        gate
    });
    let why = cluster.gpool(["why", &larger[0]]).ok();
    assert!(!why.contains(&format!(" {} (", smaller[0])), "{why}");
    says(&cluster.gpool(["why", &larger[1]]), &[&format!(" {} (", smaller[1])]);
    gates.iter().for_each(Gate::open);
    larger.iter().chain(&smaller).for_each(|id| drop(cluster.until_ended(id)));
    let started = |id: &str| cluster.job(id).run.started_at.unwrap();
    assert!(started(&larger[0]) < started(&smaller[0]));
    assert!(started(&smaller[1]) < started(&larger[1]));
    // To a file and back.
    let file = cluster.path("site.toml");
    std::fs::write(&file, cluster.gpool(["policy", "show", "--toml"]).ok()).unwrap();
    let told = set(&cluster, &["pool.batch=none"]).ok();
    assert!(told.contains("age → as in the cluster"), "{told}");
    assert!(!cluster.gpool(["policy", "show"]).ok().contains("pool.batch"));
    set(&cluster, &["--file", file.to_str().unwrap()]).ok();
    assert_eq!(cluster.gpool(["policy", "show"]).ok(), show);
    // Another preset for the cluster does not change the pool's policy.
    set(&cluster, &["--preset", "users"]).ok();
    assert!(cluster.gpool(["policy", "show"]).ok().contains("pool.batch.order"));
    says(&set(&cluster, &["pool.bach=fifo"]), &["no node is in pool bach"]);
    let refused = |words: &[&str], why: &[&str]| {
        let before = cluster.gpool(["policy", "show"]).ok();
        set(&cluster, words).refused(2, why);
        assert_eq!(cluster.gpool(["policy", "show"]).ok(), before);
    };
    refused(
        &["pool.batch.lend=no"],
        &["lend can only be set for the whole cluster", "planned_starts"],
    );
    refused(&["pool.batch.order=size"], &["pool.batch.order", "size", "for example"]);
    refused(&["pool.batch=kai"], &["no preset kai", "gpool help runai"]);
    refused(&["pool.batch=best"], &["there is no preset \"best\"", "fifo"]);
    refused(&["pool.=fifo"], &["the name of a pool", "pool.batch.order"]);
    refused(&["pool.batch.colour=red"], &["pool.batch.colour"]);
    refused(&["--preset", "kai"], &["no preset kai", "gpool help runai"]);
}
