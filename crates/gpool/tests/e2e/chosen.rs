//! Jobs that choose their nodes: by name, by label, or exclusively.

use crate::harness::Cluster;
use crate::recovery::says;

const NODES: &str = r#"
[[node]]
name = "n1"
labels = ["rack=3", "ssd"]
[[node.device]]
model = "NVIDIA H100-80G"
memory = "80G"
count = 2

[[node]]
name = "n2"
labels = ["rack=4"]
[[node.device]]
model = "NVIDIA A100-80G"
memory = "80G"
count = 4

[[node]]
name = "n3"
"#;

fn cluster() -> Cluster {
    let mut cluster = Cluster::unstarted(&[]);
    let file = cluster.path("nodes.toml");
    std::fs::write(&file, NODES).unwrap();
    cluster.set_flags(&["--devices", file.to_str().unwrap()]);
    cluster.up();
    cluster
}

#[test]
fn a_job_runs_on_nodes_of_its_choice_or_is_refused_at_once() {
    let cluster = cluster();
    for (flags, node) in [
        (&["--node", "n[2-3]", "--gpus", "1"][..], "n2"),
        (&["--not-node", "n1,n2"], "n3"),
        (&["--where", "rack=4"], "n2"),
        (&["--where", "h100"], "n1"),
        (&["--where", "!h100", "--where", "rack=3|rack=4"], "n2"),
    ] {
        let id = cluster.sh(flags, "echo $GPOOL_NODE");
        assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0), "{flags:?}");
        assert_eq!(cluster.stdout_of(&id), format!("{node}\n"), "{flags:?}");
    }
    let refused = |words: &[&str], code: i32, why: &[&str]| {
        let words: Vec<&str> = ["submit"].iter().chain(words).copied().collect();
        cluster.gpool(words.iter().chain(&["--", "true"])).refused(code, why);
    };
    refused(&["--node", "n4"], 4, &["no node \"n4\"", "n1, n2, n3", "GP0418"]);
    refused(&["--where", "rack=5"], 4, &["--where rack=5", "rack=3, rack=4, ssd"]);
    refused(
        &["--node", "n1", "--gpus", "4"],
        4,
        &["4 GPUs", "the request allows only some nodes: --node n1"],
    );
    refused(&["--node", "n[3-1]"], 2, &["node"]);
    refused(&["--where", "="], 2, &["label"]);
    // Slurm's flags for the same.
    let script = "#!/bin/sh\n#SBATCH -C ssd -x n2\necho $GPOOL_NODE\n";
    std::fs::write(cluster.work().join("job.sh"), script).unwrap();
    let id = cluster.submit(["job.sh"]);
    cluster.until_ended(&id);
    assert_eq!(cluster.stdout_of(&id), "n1\n");
}

#[test]
fn labels_change_while_jobs_wait_for_them() {
    let mut cluster = cluster();
    let waits = cluster.sh(&["--where", "fast", "--allow-unsatisfiable"], "echo $GPOOL_NODE");
    says(&cluster.gpool(["why", &waits]), &["No node matches --where fast"]);
    cluster.gpool(["nodes", "label", "n9", "fast"]).refused(6, &["n9"]);
    cluster.gpool(["nodes", "label", "n2", "a b"]).refused(2, &["label"]);
    cluster.gpool(["nodes", "label", "n[2-3]", "fast", "rack=9"]).ok();
    assert_eq!(cluster.until_ended(&waits).run.exit_code, Some(0));
    cluster.gpool(["nodes", "label", "n3", "fast-"]).ok();
    let labels = |cluster: &Cluster| -> Vec<String> {
        let nodes = cluster.client().nodes().unwrap().items;
        nodes.into_iter().map(|node| node.labels.join(" ")).collect()
    };
    assert_eq!(labels(&cluster), ["rack=3 ssd", "fast rack=9", "rack=9"]);
    says(&cluster.gpool(["nodes", "-o", "wide"]), &["LABELS", "fast rack=9"]);
    // A pending job may choose other nodes.
    cluster.gpool(["drain", "n1", "--reason", "fans"]).ok();
    let waits = cluster.sh(&["--node", "n1"], "echo $GPOOL_NODE");
    let why = cluster.why(&waits);
    assert!(why.contains("n1 is drained") && why.contains("excluded: n2, n3"), "{why}");
    cluster.gpool(["edit", &waits, "--node", "none", "--where", "fast"]).ok();
    assert_eq!(cluster.until_ended(&waits).run.exit_code, Some(0));
    assert_eq!(cluster.stdout_of(&waits), "n2\n");
    // The labels of n2 in the file apply again at each start; other labels stay.
    cluster.kill();
    cluster.up();
    assert_eq!(labels(&cluster), ["rack=3 ssd", "fast rack=4", "rack=9"]);
}

#[test]
fn an_exclusive_job_has_its_node_alone() {
    let cluster = cluster();
    let beside = cluster.sh(&["--node", "n1"], "sleep 1000");
    cluster.until_is(&beside, "running");
    let alone = cluster.sh(&["--gpus", "1", "--node", "n1", "--exclusive"], "sleep 1000");
    says(
        &cluster.gpool(["why", &alone]),
        &["needs a node without other jobs", "other jobs run on n1"],
    );
    cluster.gpool(["cancel", &beside]).ok();
    cluster.until_is(&alone, "running");
    assert_eq!(cluster.job(&alone).placement[0].devices.len(), 1);
    let other = cluster.sh(&["--node", "n1"], "true");
    says(&cluster.gpool(["why", &other]), &["A job with --exclusive has n1 for itself"]);
    cluster.gpool(["cancel", &alone]).ok();
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
}
