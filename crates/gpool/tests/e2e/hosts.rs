//! Server and agents on separate hosts: joins by the page, work everywhere, and faults of the
//! network between them.

use std::net::Ipv4Addr;

use gpool_model::job::JobState;

use crate::harness::{Cluster, Cut, Gate, Hosts, Machine, membership, until_so};
use crate::recovery::waits_at;

/// The page that tells how to add a machine.
const PAGE: &str = include_str!("../../../../docs/operating/nodes.md");

/// A server on the host `s`, with these settings beside its address.
fn server_on(hosts: &Hosts, settings: &str) -> Cluster {
    let mut cluster =
        Cluster::unstarted(&["--devices", "sim:1xA100-80G", "--listen", "0.0.0.0:7443"]);
    cluster.within = hosts.on("s");
    let file = cluster.path("gpool.toml");
    // The host names of the hosts are one, so tasks can't meet by them.
    let own = hosts.address("s");
    let names = format!("tls_names = [\"{own}\"]\naddress = \"{own}\"\n{settings}");
    std::fs::write(&file, names).unwrap();
    let config = ("GPOOL_CONFIG".to_owned(), file.display().to_string());
    let lease = ("GPOOL_WRONGPOINT".to_owned(), "server-remote-lease=return(4000)".to_owned());
    cluster.variables = vec![config, lease];
    cluster.up();
    cluster
}

/// A job on one host, with the address of the first node of its gang.
fn is_on(cluster: &Cluster, id: &str, node: &str) -> bool {
    cluster.job(id).placement.iter().any(|it| it.node == node)
}

#[test]
fn a_second_host_joins_as_the_page_says_and_a_gang_takes_both() {
    let Some(hosts) = Hosts::new(&["s", "a"]) else { return };
    let cluster = server_on(&hosts, "");
    for step in ["$ gpool up --listen 0.0.0.0:7443", "$ gpool nodes add big2"] {
        assert!(PAGE.contains(step), "{step}");
    }
    let printed = cluster.gpool(["nodes", "add", "big2"]).ok();
    let (command, token) = printed.trim().rsplit_once(' ').unwrap();
    assert_eq!(command, format!("gpool agent --join https://{}:7443", hosts.address("s")));
    let on_page = PAGE.lines().find_map(|line| line.strip_prefix("$ sudo gpool agent --join "));
    assert!(on_page.unwrap().starts_with("https://lab1:7443 gn_"), "{on_page:?}");
    let mut machine = Machine::new(&cluster, "big2", "sim:1xA100-80G").on(hosts.on("a"));
    let words: Vec<&str> = command.split(' ').skip(2).chain([token]).collect();
    machine.start(&words);
    machine.until_connected("big2");
    let nodes = cluster.client().nodes().unwrap().items;
    let address = |name: &str| nodes.iter().find(|it| it.name == name).unwrap().address.clone();
    assert_eq!(address("big2"), Some(hosts.address("a").to_string()));

    // Each task of the gang reaches the first one by its address. The first may be on either.
    let line = "
        echo rank $RANK at $GPOOL_NODE
        if [ $RANK = 0 ]; then
            python3 -c 'import os, socket
s = socket.create_server((\"0.0.0.0\", int(os.environ[\"MASTER_PORT\"])))
print(\"met\", s.accept()[0].recv(100).decode().strip())'
        else
            until exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; do sleep 0.1; done 2>/dev/null
            echo $GPOOL_NODE >&3
        fi";
    let id = cluster.submit(["--nodes", "2", "--gpus", "1", "--", "bash", "-c", line]);
    let ended = cluster.until_ended(&id);
    assert_eq!(ended.run.exit_code, Some(0), "{ended:?}");
    let output = cluster.gpool(["logs", &id]).ok();
    let (first, other) = match ended.placement[0].node.as_str() {
        "lab1" => ("lab1", "big2"),
        _ => ("big2", "lab1"),
    };
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    let met = format!("0: met {other}");
    let ranks = [format!("0: rank 0 at {first}"), format!("1: rank 1 at {other}")];
    assert_eq!(lines, [&met, &ranks[0], &ranks[1]]);
}

/// An all-reduce over the gang, and a barrier, with the variables that torchrun would set.
const TORCH: &str = "
import torch, torch.distributed as dist
dist.init_process_group('gloo')
one = torch.ones(1000) * (dist.get_rank() + 1)
dist.all_reduce(one)
dist.barrier()
print('sum', int(one[0]), 'of', dist.get_world_size())
";

#[test]
fn torch_trains_over_two_hosts_with_gloo() {
    let python = "/usr/bin/python3";
    let has_torch = std::process::Command::new(python).args(["-c", "import torch"]).output();
    if !has_torch.is_ok_and(|it| it.status.success()) {
        return crate::harness::skip("no torch: Debian's package python3-torch has it");
    }
    let Some(hosts) = Hosts::new(&["s", "a"]) else { return };
    let cluster = server_on(&hosts, "");
    let mut machine = Machine::new(&cluster, "lab2", "sim:1xA100-80G").on(hosts.on("a"));
    machine.join("lab2");
    let gang = ["--nodes", "2", "--gpus", "1", "--torchrun"];
    // Gloo resolves the host name, which both hosts share.
    let interface =
        "export GLOO_SOCKET_IFNAME=$(ip -o -4 addr | awk '$2 != \"lo\" {print $2; exit}')";
    let line = format!("{interface}; exec {python} -c \"$TORCH\"");
    let variable = format!("TORCH={TORCH}");
    let words = [&["-e", &variable][..], &gang, &["--", "bash", "-c", &line]].concat();
    let id = cluster.submit(words);
    let ended = cluster.until_ended(&id);
    let output = cluster.gpool(["logs", &id]).out;
    assert_eq!(ended.run.exit_code, Some(0), "{output}");
    assert_eq!(ended.placement.len(), 2);
    assert!(output.contains("0: sum 3 of 2") && output.contains("1: sum 3 of 2"), "{output}");
}

#[test]
fn cuts_of_every_kind_end_no_job_and_lose_no_output() {
    let Some(hosts) = Hosts::new(&["s", "a"]) else { return };
    let cluster = server_on(&hosts, "node_lease = \"3s\"\n");
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G").on(hosts.on("a"));
    machine.join("lab2");
    for cut in Cut::ALL {
        let gate = Gate::new(&cluster, &format!("{cut:?}"));
        let line = waits_at(&gate);
        let kept = cluster.sh(&["--gpus", "2"], &line);
        until_so("it has begun", || cluster.gpool(["logs", &kept]).out.starts_with("begun"));
        if !hosts.cut("a", cut) {
            crate::harness::skip(&format!("this machine can't cut a host: {cut:?}"));
            gate.open();
            cluster.until_ended(&kept);
            continue;
        }
        until_so("it is silent", || membership(&cluster, "lab2").as_deref() != Some("connected"));
        assert!(cluster.why(&kept).contains("lab2"), "{cut:?}");
        gate.open();
        hosts.heal("a");
        let ended = cluster.until_ended(&kept);
        assert_eq!((ended.run.exit_code, ended.run.attempt), (Some(5), 1), "{cut:?}");
        assert_eq!(cluster.gpool(["logs", &kept]).ok(), "begun\ndone\n", "{cut:?}");
    }
    // A link that comes and goes, and another address behind it.
    let gate = Gate::new(&cluster, "flapping");
    let id = cluster.sh(&["--gpus", "2"], &waits_at(&gate));
    until_so("it has begun", || cluster.gpool(["logs", &id]).out.starts_with("begun"));
    for _ in 0..5 {
        assert!(hosts.cut("a", Cut::LinkDown));
        hosts.heal("a");
    }
    hosts.give_address("a", Ipv4Addr::new(10, 77, 0, 99));
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
    // The old connection is dead, which takes the agent a moment to see.
    until_so("its output is there", || cluster.gpool(["logs", &id]).out == "begun\ndone\n");
    // A slow link delays output, and no order.
    if hosts.slow_down("a", "1mbit") {
        let line = "head -c 300000 /dev/zero | tr '\\0' x; echo; exit 4";
        let id = cluster.sh(&["--gpus", "2"], line);
        assert_eq!(cluster.until_ended(&id).run.exit_code, Some(4));
        assert_eq!(cluster.gpool(["logs", &id]).ok().len(), 300_001);
    }
}

#[test]
fn a_fenced_job_behind_a_cut_ends_there_before_it_begins_elsewhere() {
    let Some(hosts) = Hosts::new(&["s", "a"]) else { return };
    let cluster = server_on(&hosts, "node_lease = \"3s\"\n");
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G").on(hosts.on("a"));
    machine.join("lab2");
    let small = Gate::new(&cluster, "small");
    let filler = cluster.sh(&["--gpus", "1"], &waits_at(&small));
    cluster.until_is(&filler, "running");
    assert!(is_on(&cluster, &filler, "lab1"));
    // Each run holds a lock file while it runs; two at once would fail.
    let lock = cluster.path("lock");
    let line = format!(
        "mkdir {lock} || {{ echo twice; exit 9; }}; trap 'rmdir {lock}; exit 8' TERM; \
         echo $GPOOL_NODE $GPOOL_ATTEMPT; while :; do sleep 0.1; done",
        lock = lock.display()
    );
    let id = cluster.sh(&["--gpus", "1", "--on-node-lost", "requeue"], &line);
    until_so("it runs", || cluster.gpool(["logs", &id]).out.starts_with("lab2 1"));
    assert!(hosts.cut("a", Cut::Unheard));
    small.open();
    cluster.until_ended(&filler);
    until_so("it runs again", || {
        let job = cluster.job(&id);
        job.state == JobState::Running && job.placement[0].node == "lab1"
    });
    until_so("it says where", || cluster.gpool(["logs", &id]).out.starts_with("lab1 2"));
    hosts.heal("a");
    until_so("it is back", || membership(&cluster, "lab2").as_deref() == Some("connected"));
    let job = cluster.job(&id);
    assert_eq!((job.state, job.run.attempt), (JobState::Running, 2), "its end came late");
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
}

/// The length of the cut of the story. With the usual lease, 60 s are past it.
fn cut_seconds() -> u64 {
    let seconds = std::env::var("GPOOL_CUT_SECONDS").ok();
    seconds.map_or(10, |seconds| seconds.parse().unwrap())
}

#[test]
fn three_machines_lose_no_job_to_a_dead_agent_a_long_cut_and_a_dead_machine() {
    let Some(hosts) = Hosts::new(&["s", "a", "b"]) else { return };
    let cluster = server_on(&hosts, "node_lease = \"3s\"\n");
    let mut second = Machine::new(&cluster, "lab2", "sim:1xA100-80G").on(hosts.on("a"));
    second.join("lab2");
    let gate = Gate::new(&cluster, "gate");
    let kept = cluster.sh(&["--gpus", "1", "--node", "lab2"], &waits_at(&gate));
    until_so("it has begun", || cluster.gpool(["logs", &kept]).out.starts_with("begun"));
    second.kill_agent();
    if !hosts.cut("a", Cut::Unheard) {
        return crate::harness::skip("this machine can't cut a host");
    }
    // The cut lasts past the lease, and the agent starts behind it.
    second.start(&[]);
    let began = std::time::Instant::now();
    until_so("it is lost", || membership(&cluster, "lab2").as_deref() == Some("lost"));
    let rest = std::time::Duration::from_secs(cut_seconds()).saturating_sub(began.elapsed());
    std::thread::sleep(rest);
    gate.open();
    hosts.heal("a");
    let ended = cluster.until_ended(&kept);
    assert_eq!((ended.run.exit_code, ended.run.attempt), (Some(5), 1));
    until_so("its output is there", || cluster.gpool(["logs", &kept]).out == "begun\ndone\n");

    let mut third = Machine::new(&cluster, "lab3", "sim:1xA100-80G").on(hosts.on("b"));
    third.join("lab3");
    second.until_connected("lab2");
    let all = cluster.sh(&["--nodes", "3", "--gpus", "1"], "echo $GPOOL_NODE");
    assert_eq!(cluster.until_ended(&all).run.exit_code, Some(0));
    let output = cluster.gpool(["logs", &all]).ok();
    let mut nodes: Vec<&str> = output.lines().map(|line| &line[3..]).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["lab1", "lab2", "lab3"]);

    // Each run notes its node; two at once would fail.
    let runs = cluster.path("runs");
    let line = format!(
        "echo $GPOOL_NODE $GPOOL_ATTEMPT >> {runs}; test $GPOOL_ATTEMPT = 2 || exec sleep 1000",
        runs = runs.display()
    );
    let rule = ["--gpus", "1", "--on-node-lost", "requeue", "--not-node", "lab1,lab2"];
    let again = cluster.sh(&rule, &line);
    cluster.until_is(&again, "running");
    third.power_off();
    until_so("it waits for another node", || cluster.job(&again).run.attempt == 2);
    cluster.gpool(["edit", &again, "--not-node", "lab1"]).ok();
    assert_eq!(cluster.until_ended(&again).run.exit_code, Some(0));
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "lab3 1\nlab2 2\n");
}
