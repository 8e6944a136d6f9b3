//! Several nodes on one machine: each has its own agent, folder and devices, and an event on one
//! does not affect the others.

use gpool_wire::{Became, Before};
use serde_json::Value;

use crate::harness::{Cluster, Gate, Ran, Running, kill_9, skip, until_so};
use crate::recovery::{says, waits_at};

/// Three nodes with different GPU models.
const THREE: &str = r#"
[[node]]
name = "n1"
cpus = 3
memory = "5G"
[[node.device]]
model = "NVIDIA H100-80G"
memory = "80G"
count = 2

[[node]]
name = "n2"
[[node.device]]
model = "NVIDIA A100-40G"
memory = "40G"
count = 2

[[node]]
name = "n3"
[[node.device]]
model = "NVIDIA L40S-48G"
memory = "48G"
"#;

/// A GPU model of each node.
const MODELS: [(&str, &str); 3] = [("n1", "h100"), ("n2", "a100"), ("n3", "l40s")];

/// A cluster with the nodes of this file, not started yet.
fn unstarted(text: &str) -> Cluster {
    let mut cluster = Cluster::unstarted(&[]);
    let file = cluster.path("nodes.toml");
    std::fs::write(&file, text).unwrap();
    cluster.set_flags(&["--devices", file.to_str().unwrap()]);
    cluster
}

fn three() -> Cluster {
    let mut cluster = unstarted(THREE);
    cluster.up();
    cluster
}

/// One job on each node, which waits at the gate of that name.
fn one_on_each(cluster: &Cluster) -> Vec<(String, Gate)> {
    let job = |(node, model): (&str, &str)| {
        let gate = Gate::new(cluster, node);
        let id = cluster.sh(&["--gpus", model], &format!("echo $GPOOL_NODE; {}", waits_at(&gate)));
        until_so("it has begun", || cluster.stdout_of(&id).ends_with("begun\n"));
        (id, gate)
    };
    MODELS.map(job).into()
}

fn node_of(cluster: &Cluster, id: &str) -> String {
    cluster.job(id).placement[0].node.clone()
}

#[test]
fn each_job_runs_where_its_devices_are_and_knows_where() {
    let cluster = three();
    let listed = cluster.gpool(["nodes", "--json"]).json();
    let of = |name: &str| -> Value {
        let items = listed["items"].as_array().unwrap();
        items.iter().find(|node| node["name"] == name).unwrap().clone()
    };
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    assert_eq!((&of("n1")["n_gpus"], &of("n3")["n_gpus"]), (&2.into(), &1.into()));
    assert_eq!((&of("n1")["cpus"], &of("n1")["memory"]), (&3.0.into(), &(5u64 << 30).into()));
    let gpus = cluster.client().gpus().unwrap().items;
    let words = "echo $GPOOL_NODE $GPOOL_NODELIST $CUDA_VISIBLE_DEVICES $GPOOL_DIR";
    for (node, model) in MODELS {
        let id = cluster.sh(&["--gpus", model], words);
        let ended = cluster.until_ended(&id);
        assert_eq!((ended.run.exit_code, node_of(&cluster, &id).as_str()), (Some(0), node));
        assert_eq!(ended.placement[0].devices, [0], "indexes are per node");
        let first = gpus.iter().find(|gpu| gpu.node == node && gpu.index == 0).unwrap();
        let folder = cluster.state().join("nodes").join(node).join("jobs").join(&id).join("1");
        let expected = format!("{node} {node} {} {}\n", first.uuid, folder.display());
        assert_eq!(cluster.stdout_of(&id), expected);
        says(&cluster.gpool(["show", &id]), &[&format!("{node}: GPU 0")]);
    }
    // More than one node has is refused, even if the nodes together have it.
    let ran = cluster.gpool(["submit", "--gpus", "5", "--", "true"]);
    ran.refused(4, &["2"]);
    let ran = cluster.gpool(["submit", "--cpus", "3", "--gpus", "h100:2", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    cluster.gpool(["submit", "--cpus", "4", "--gpus", "h100", "--", "true"]).refused(4, &["n1"]);
    let metrics = cluster.client().metrics().unwrap();
    for (node, _) in MODELS {
        assert!(metrics.contains(&format!("node=\"{node}\"")), "{metrics}");
    }
}

#[test]
fn after_a_kill_each_agent_finds_its_own_jobs_again() {
    let mut cluster = three();
    let jobs = one_on_each(&cluster);
    cluster.kill();
    // Without a server, the jobs are found in the folders of their nodes.
    let ran = cluster.gpool(["queue"]);
    ran.refused(3, &["3 jobs run without it; the next server takes over"]);
    for (id, _) in &jobs {
        let ran = cluster.gpool(["logs", id]);
        assert_eq!((ran.code, ran.out.ends_with("begun\n")), (3, true), "{ran:?}");
    }
    let (ended, gate) = &jobs[1];
    gate.open();
    let out = cluster.state().join("nodes/n2/jobs").join(ended).join("1/stdout");
    until_so("it is done", || std::fs::read_to_string(&out).unwrap().ends_with("done\n"));
    cluster.up();
    let recovery = cluster.client().recovery().unwrap();
    assert_eq!(recovery.before, Before::Killed);
    let became: Vec<Became> = recovery.jobs.iter().map(|job| job.became).collect();
    // The shepherd may note its end a moment after the output.
    assert!(became.iter().all(|became| *became != Became::Lost), "{recovery:?}");
    assert_eq!((became[0], became[2]), (Became::WentOn, Became::WentOn));
    assert!(recovery.unexpected.is_empty(), "{recovery:?}");
    assert_eq!(cluster.until_ended(ended).run.exit_code, Some(5));
    // Each is reached through the agent of its node.
    for ((id, _), (node, _)) in jobs.iter().zip(MODELS).filter(|(_, (node, _))| *node != "n2") {
        assert_eq!(node_of(&cluster, id), node);
        let ran = cluster.gpool(["exec", id, "--", "sh", "-c", "echo $GPOOL_NODE"]);
        assert_eq!((ran.code, ran.out.trim()), (0, node), "{ran:?}");
        assert_eq!(cluster.stdout_of(id), format!("{node}\nbegun\n"));
    }
    jobs[0].1.open();
    assert_eq!(cluster.until_ended(&jobs[0].0).run.exit_code, Some(5));
    cluster.gpool(["signal", "KILL", &jobs[2].0]).ok();
    assert_eq!(cluster.until_ended(&jobs[2].0).run.signal, Some(9));
    let claims = |node: &str| cluster.state().join("nodes").join(node).join("tasks");
    for (node, _) in MODELS {
        until_so("nothing is claimed", || {
            std::fs::read_dir(claims(node)).unwrap().next().is_none()
        });
    }
}

#[test]
fn an_event_on_one_node_does_not_affect_the_others() {
    let cluster = three();
    let words = ["sim", "break", "0", "--why", "Xid 79"];
    cluster.gpool(words).refused(2, &["is on several nodes; give one of n1, n2, n3", "n1:0"]);
    cluster.gpool(["sim", "break", "n4:0"]).refused(6, &["no node \"n4\"", "n1, n2, n3"]);
    cluster.gpool(["sim", "break", "n3:1"]).refused(2, &["the node has devices 0 to 0"]);
    cluster.gpool(["sim", "break", "n2:0", "--why", "Xid 79"]).ok();
    cluster.gpool(["sim", "add-process", "n2:1", "--pid", "4000001", "--user", "eve"]).ok();
    let states = || -> Vec<(String, String)> {
        let gpus = cluster.client().gpus().unwrap().items;
        let state = |gpu: &gpool_wire::Gpu| serde_json::json!(gpu.state).as_str().unwrap().into();
        gpus.iter().map(|gpu| (format!("{}:{}", gpu.node, gpu.index), state(gpu))).collect()
    };
    let expected = [
        ("n1:0", "free"),
        ("n1:1", "free"),
        ("n2:0", "unhealthy"),
        ("n2:1", "unmanaged"),
        ("n3:0", "free"),
    ];
    let expected = expected.map(|(gpu, state)| (gpu.to_owned(), state.to_owned()));
    until_so("two of them are out of use", || states() == expected);
    let waits = cluster.sh(&["--gpus", "a100"], "true");
    says(&cluster.gpool(["why", &waits]), &["n2", "eve"]);
    cluster.gpool(["drain", "n1", "--reason", "new fans"]).ok();
    let drained = cluster.sh(&["--gpus", "h100"], "true");
    let runs = cluster.sh(&["--gpus", "l40s"], "true");
    assert_eq!(cluster.until_ended(&runs).run.exit_code, Some(0));
    says(&cluster.gpool(["why", &drained]), &["n1", "new fans"]);
    assert_eq!(cluster.job(&drained).state.as_str(), "pending");
    // If every node fits, it runs where capacity is free.
    let any = cluster.sh(&["--gpus", "1"], "true");
    cluster.until_ended(&any);
    assert_eq!(node_of(&cluster, &any), "n3");
    cluster.gpool(["undrain", "n1"]).ok();
    cluster.until_ended(&drained);
    cluster.gpool(["sim", "heal", "n2:0"]).ok();
    assert_eq!(cluster.until_ended(&waits).placement[0].devices, [0]);
    cluster.gpool(["gpus", "allow", "1"]).refused(2, &["several nodes"]);
    cluster.gpool(["gpus", "allow", "--node", "n1", "1"]).ok();
    let one = cluster.sh(&["--gpus", "h100"], "true");
    assert_eq!(cluster.until_ended(&one).placement[0].devices, [1]);
    assert_eq!(cluster.gpool(["gpus", "n1:1"]).code, 0);
}

#[test]
fn a_dead_shepherd_affects_only_its_own_node() {
    let cluster = three();
    let jobs = one_on_each(&cluster);
    kill_9(cluster.shepherd(&jobs[1].0));
    assert_eq!(cluster.until_ended(&jobs[1].0).state.as_str(), "lost");
    for (id, gate) in [&jobs[0], &jobs[2]] {
        gate.open();
        assert_eq!(cluster.until_ended(id).run.exit_code, Some(5));
    }
    // Its node works as before.
    let again = cluster.sh(&["--gpus", "a100"], "true");
    assert_eq!(cluster.until_ended(&again).run.exit_code, Some(0));
}

#[test]
fn up_names_its_nodes_and_down_stops_them_all() {
    let cluster = unstarted(THREE);
    let up = |devices: &str, flags: &[&str]| -> Ran {
        let words = ["up", "--devices", devices];
        cluster.gpool(words.iter().chain(flags))
    };
    let file = cluster.path("nodes.toml");
    let file = file.to_str().unwrap();
    let ran = up(file, &[]);
    says(&ran, &[", 3 nodes", "n1: 2 × NVIDIA H100-80G", "n3: 1 × NVIDIA L40S-48G", "ready."]);
    let gates = one_on_each(&cluster);
    says(&cluster.gpool(["doctor"]), &["n1, n2, n3"]);
    let dump = cluster.gpool(["debug", "dump", "-o", "-"]).json();
    assert_eq!(dump["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(dump["nodes_state"].as_array().unwrap().len(), 3);
    assert_eq!(dump["shepherds"].as_array().unwrap().len(), 3);
    cluster.gpool(["down"]).ok();
    // Jobs on each node continue, so no node may be left out.
    let two = THREE.split("[[node]]\nname = \"n3\"").next().unwrap();
    let fewer = cluster.path("fewer.toml");
    std::fs::write(&fewer, two).unwrap();
    let ran = up(fewer.to_str().unwrap(), &[]);
    ran.refused(
        1,
        &["1 job runs on node n3, and this server would have nodes n1, n2", "include n3"],
    );
    let ran = up("sim:1xH100-80G", &["--name", "lab1"]);
    ran.refused(1, &["runs on node", "would have node lab1"]);
    says(&up(file, &[]), &["took over 3 running jobs"]);
    cluster.gpool(["down", "--now"]).ok();
    until_so("no process is left", || cluster.processes().is_empty());
    drop(gates);
    // Without running jobs a node may be removed, and a node that remains alone keeps its folder.
    up(fewer.to_str().unwrap(), &[]).ok();
    let id = cluster.sh(&["--gpus", "a100"], "echo $GPOOL_DIR");
    cluster.until_ended(&id);
    cluster.gpool(["down"]).ok();
    up("sim:1xA100-40G", &["--name", "n2"]).ok();
    let alone = cluster.sh(&["--gpus", "a100"], "echo $GPOOL_DIR");
    cluster.until_ended(&alone);
    for id in [id, alone] {
        assert!(cluster.stdout_of(&id).contains("nodes/n2/jobs"));
    }
    cluster.gpool(["down"]).ok();
    until_so("no process is left", || cluster.processes().is_empty());
}

#[test]
fn one_node_becomes_several_only_when_none_of_its_jobs_runs() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "1"], &waits_at(&gate));
    until_so("it has begun", || cluster.stdout_of(&id).starts_with("begun"));
    cluster.kill();
    let alike = ["up", "--devices", "2x(sim:1xH100-80G)", "--name", "lab1"];
    cluster.gpool(alike).refused(1, &["1 job runs on node lab1", "lab1-1, lab1-2"]);
    let file = cluster.path("nodes.toml");
    std::fs::write(&file, "[[node]]\nname = \"lab1\"\n[[node]]\nname = \"lab2\"\n").unwrap();
    let ran = cluster.gpool(["up", "--devices", file.to_str().unwrap()]);
    ran.refused(1, &["was started when there was one node here", "with that node"]);
    cluster.up();
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
    cluster.down(&[]);
    cluster.gpool(["up", "--devices", file.to_str().unwrap()]).ok();
    // The output of its jobs is still there.
    assert_eq!(cluster.stdout_of(&id), "begun\ndone\n");
    cluster.gpool(["down"]).ok();
    until_so("no process is left", || cluster.processes().is_empty());
}

#[test]
fn invalid_nodes_are_refused_before_anything_starts() {
    let cluster = unstarted("[[node]]\nname = \"a\"\n[[node]]\nname = \"a\"\n");
    let file = cluster.path("nodes.toml");
    let file = file.to_str().unwrap();
    let up = |devices: &str, flags: &[&str]| {
        let words = ["up", "--devices", devices];
        cluster.gpool(words.iter().chain(flags))
    };
    up(file, &[]).refused(2, &["nodes.toml:4:8", "node \"a\" is given twice"]);
    std::fs::write(file, "[[node]]\nname = \"../a\"\n").unwrap();
    up(file, &[]).refused(2, &["nodes.toml:2:8", "for example n1"]);
    std::fs::write(file, THREE).unwrap();
    up(file, &["--name", "x"]).refused(2, &["--name", "sets the names of its nodes"]);
    up(file, &["--gpus", "0"]).refused(2, &["--gpus", "gpool gpus allow --node n1 0"]);
    up("65x(sim:1xT4-16G)", &[]).refused(2, &["1 to 64"]);
    up("2x(sim:1xT4-16G)", &["--name", "a b"]).refused(2, &["--name", "several nodes"]);
    assert!(!cluster.state().exists(), "nothing was made");
}

#[test]
fn several_equal_nodes_are_written_as_one_word() {
    let cluster = Cluster::new("3x(sim:2xH100-80G)");
    let ids: Vec<String> = (0..3).map(|_| cluster.sh(&["--gpus", "2"], "sleep 1000")).collect();
    for id in &ids {
        cluster.until_is(id, "running");
    }
    let mut nodes: Vec<String> = ids.iter().map(|id| node_of(&cluster, id)).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["lab1-1", "lab1-2", "lab1-3"]);
    let gpus = cluster.client().gpus().unwrap().items;
    let mut uuids: Vec<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    uuids.sort_unstable();
    uuids.dedup();
    assert_eq!(uuids.len(), 6, "the UUIDs differ");
}

#[test]
fn a_node_whose_agent_hangs_gets_no_new_jobs_and_says_since_when() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    let mut cluster = Cluster::unstarted(&["--devices", "2x(sim:1xT4-16G)"]);
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, "node_lease = \"3s\"\n").unwrap();
    let settings = ("GPOOL_CONFIG".to_owned(), settings.display().to_string());
    cluster.variables.push(settings.clone());
    cluster
        .variables
        .push(("GPOOL_STUCKPOINT".to_owned(), "agent-launch-before=1*off->pause".to_owned()));
    cluster.up();
    let before = cluster.sh(&["--node", "lab1-1"], "sleep 600");
    cluster.until_is(&before, "running");
    let stuck = cluster.sh(&["--node", "lab1-1"], "true");
    let node = |cluster: &Cluster, name: &str| {
        let nodes = cluster.client().nodes().unwrap().items;
        nodes.into_iter().find(|node| node.name == name).unwrap()
    };
    until_so("the agent is silent", || node(&cluster, "lab1-1").silent_since.is_some());
    assert!(!node(&cluster, "lab1-1").connected);
    assert!(node(&cluster, "lab1-2").connected, "its agent does nothing and is heard");
    let table = cluster.gpool(["nodes", "-o", "wide"]).ok();
    assert!(table.contains("unreachable") && table.contains("silent since"), "{table}");
    let waiting = cluster.sh(&["--gpus", "1", "--node", "lab1-1"], "true");
    let why = cluster.gpool(["why", &waiting]).ok();
    assert!(why.contains("The agent of lab1-1 does not answer since"), "{why}");
    assert_eq!(cluster.job(&waiting).state.as_str(), "pending");
    let why = cluster.gpool(["why", &before]).ok();
    assert!(why.contains("No answer from the agent of lab1-1 for "), "{why}");
    // Another server has no such fault.
    cluster.kill();
    cluster.variables = vec![settings];
    cluster.up();
    assert_eq!(cluster.until_ended(&stuck).run.exit_code, Some(0));
    assert_eq!(cluster.until_ended(&waiting).run.exit_code, Some(0));
    assert_eq!(node(&cluster, "lab1-1").silent_since, None);
}

/// Writes the time into a file of the attempt until it is ended.
const TICKS: &str =
    "while :; do date +%s%N >> ticks-$GPOOL_JOB_ID-$GPOOL_ATTEMPT; sleep 0.05; done";

#[test]
fn a_job_of_a_lost_node_runs_elsewhere_once_its_node_has_ended_it() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    let mut cluster = Cluster::unstarted(&["--devices", "2x(sim:1xT4-16G)"]);
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, "node_lease = \"3s\"\n").unwrap();
    let variables = [
        ("GPOOL_CONFIG", settings.display().to_string()),
        // The agents have leases, as on other machines; the second launch hangs one of them.
        ("GPOOL_WRONGPOINT", "server-agent-lease=return(3000)".to_owned()),
        ("GPOOL_STUCKPOINT", "agent-launch-before=3*off->1*pause->off".to_owned()),
    ];
    cluster.variables.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    cluster.up();
    let submit = |flags: &[&str]| cluster.sh(flags, TICKS);
    let moves = submit(&["--gpus", "1", "--on-node-lost", "requeue"]);
    cluster.until_is(&moves, "running");
    let first = node_of(&cluster, &moves);
    let ends = submit(&["--node", &first, "--on-node-lost", "end"]);
    let waits = submit(&["--node", &first]);
    cluster.until_is(&ends, "running");
    cluster.until_is(&waits, "running");
    let events = events(&cluster);
    let stuck = cluster.sh(&["--node", &first], "true");
    until_so("the job runs on the other node", || {
        let job = cluster.job(&moves);
        job.run.attempt == 2 && job.state.as_str() == "running"
    });
    assert_ne!(node_of(&cluster, &moves), first);
    let ended = cluster.until_ended(&ends);
    assert_eq!((ended.state.as_str(), ended.run.cause.as_deref()), ("lost", Some("node_lost")));
    assert_eq!(cluster.job(&waits).state.as_str(), "running");
    let table = cluster.gpool(["nodes", "-o", "wide"]).ok();
    assert!(table.contains("lost") && table.contains("silent since"), "{table}");
    for word in ["silent", "lost"] {
        events.until_says(&format!("node {first} {word}"));
    }
    // No two attempts ran at once, and the other job was left alone.
    let ticks = |id: &str, attempt: u32| {
        let path = cluster.work().join(format!("ticks-{id}-{attempt}"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| line.parse::<u128>().ok()).collect::<Vec<_>>()
    };
    until_so("the second attempt writes", || !ticks(&moves, 2).is_empty());
    let [first_run, second_run] = [1, 2].map(|attempt| ticks(&moves, attempt));
    assert!(first_run.last().unwrap() < second_run.first().unwrap());
    let n_ticks = ticks(&waits, 1).len();
    until_so("the job that waits for its node goes on", || ticks(&waits, 1).len() > n_ticks);
    // The agent is back, and its reports of the old attempt change nothing.
    cluster.kill();
    cluster.variables.retain(|(name, _)| name == "GPOOL_CONFIG");
    cluster.up();
    assert_eq!(cluster.until_ended(&stuck).run.exit_code, Some(0));
    assert_eq!(cluster.job(&moves).run.attempt, 2);
    assert_eq!(cluster.job(&waits).state.as_str(), "running");
}

#[test]
fn output_is_read_from_the_folders_of_earlier_nodes() {
    let mut cluster = Cluster::new("none");
    let alone = cluster.sh(&[], "echo alone");
    cluster.until_ended(&alone);
    cluster.down(&[]).ok();
    let file = cluster.path("nodes.toml");
    std::fs::write(&file, THREE).unwrap();
    cluster.set_flags(&["--devices", file.to_str().unwrap()]);
    cluster.up();
    assert_eq!(cluster.stdout_of(&alone), "alone\n");
    let on_n2 = cluster.sh(&["--gpus", "a100"], "echo on n2");
    cluster.until_ended(&on_n2);
    cluster.down(&[]).ok();
    std::fs::write(&file, THREE.replace("n2", "n5")).unwrap();
    cluster.up();
    for (id, text) in [(&alone, "alone\n"), (&on_n2, "on n2\n")] {
        assert_eq!(cluster.stdout_of(id), text);
        let path = cluster.job(id).run.logs.unwrap().stdout.unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    }
}

/// Starts `gpool events`, which prints only what happens after it has connected.
fn events(cluster: &Cluster) -> Running {
    let events = cluster.start(["events"]);
    until_so("it is connected", || {
        cluster.sh(&["--hold"], "true");
        events.has_said("held")
    });
    events
}

#[test]
fn a_node_that_left_is_removed_for_good() {
    let mut cluster = Cluster::unstarted(&[]);
    let file = cluster.path("nodes.toml");
    std::fs::write(&file, THREE).unwrap();
    cluster.set_flags(&["--devices", file.to_str().unwrap()]);
    cluster.up();
    let stays = cluster.sh(&["--node", "n1"], "sleep 1000");
    cluster.until_is(&stays, "running");
    cluster.gpool(["nodes", "remove", "n3", "--off"]).refused(7, &["it answers", "gpool drain n3"]);
    cluster.kill();
    let (left, _) = THREE.rsplit_once("[[node]]").unwrap();
    std::fs::write(&file, left).unwrap();
    cluster.up();
    assert!(cluster.gpool(["nodes"]).ok().contains("n3"));
    let reserve = ["reserve", "create", "--node", "n3", "--user", "nobody", "--name", "fans"];
    cluster.gpool(reserve).ok();
    cluster.gpool(["nodes", "remove", "n3"]).refused(7, &["reservations name it: fans"]);
    cluster.gpool(["reserve", "cancel", "fans"]).ok();
    let waits = cluster.sh(&["--gpus", "l40s"], "true");
    let events = events(&cluster);
    cluster.gpool(["nodes", "remove", "n3"]).ok();
    events.until_says("node n3 removed");
    assert!(!cluster.gpool(["nodes"]).ok().contains("n3"));
    cluster.gpool(["nodes", "remove", "n3"]).refused(6, &["there is no node \"n3\""]);
    cluster
        .gpool(["submit", "--node", "n3", "--", "true"])
        .refused(4, &["there is no node \"n3\""]);
    assert!(cluster.why(&waits).contains("L40S"), "{}", cluster.why(&waits));
    // Nothing comes back with another server.
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.client().nodes().unwrap().items.len(), 2);
    assert_eq!(cluster.job(&stays).state.as_str(), "running");
}
