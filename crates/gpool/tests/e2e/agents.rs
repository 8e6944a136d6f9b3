//! Nodes on other machines: an agent joins over the network, and jobs there outlive it, the server,
//! and cuts between them. The other machine is a folder of its own; all bytes to the server pass
//! through a relay, which can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpool_model::job::JobState;
use gpool_wire::JobCreate;

use crate::harness::{
    Cluster, Gate, Machine, Running, is_root, membership, program, skip, until_so,
};
use crate::recovery::waits_at;

/// A relay between an agent and its server.
struct Relay {
    address: SocketAddr,
    /// While it is cut, bytes wait as in a network that loses every packet.
    is_cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let relay = Self { address, is_cut: Arc::clone(&is_cut), streams: Arc::clone(&streams) };
        std::thread::spawn(move || {
            for agent in listener.incoming().map_while(Result::ok) {
                // While the server is away, the agent sees a closed connection.
                let Ok(server) = TcpStream::connect(server) else { continue };
                let both = [agent.try_clone().unwrap(), server.try_clone().unwrap()];
                streams.lock().unwrap().extend(both);
                carry(agent.try_clone().unwrap(), server.try_clone().unwrap(), &is_cut);
                carry(server, agent, &is_cut);
            }
        });
        relay
    }

    /// Stops all bytes. With `is_heard`, both ends hear of it.
    fn cut(&self, is_heard: bool) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..).filter(|_| is_heard) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn heal(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: &Arc<AtomicBool>) {
    let is_cut = Arc::clone(is_cut);
    std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(n_read @ 1..) = from.read(&mut bytes) {
            while is_cut.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(10));
            }
            if to.write_all(&bytes[..n_read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    });
}

/// A cluster with these settings; a new server of it has the same address.
fn cluster_at(settings: &str, variables: &[(&str, &str)]) -> (Cluster, SocketAddr) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listen = address.to_string();
    let mut cluster = Cluster::unstarted(&["--devices", "sim:1xT4-16G", "--listen", &listen]);
    let file = cluster.path("gpool.toml");
    std::fs::write(&file, settings).unwrap();
    let config = [("GPOOL_CONFIG", file.to_str().unwrap())];
    let all = config.iter().chain(variables);
    cluster.variables = all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    cluster.up();
    (cluster, address)
}

#[test]
fn a_machine_joins_by_the_printed_command_and_runs_jobs() {
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    machine.join("lab2");
    let line = "echo on $GPOOL_NODE; echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | wc -l; exit 3";
    let id = cluster.sh(&["--gpus", "2"], line);
    assert_eq!(cluster.gpool(["wait", &id]).code, 3);
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "on lab2\n2\n");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "1"], &waits_at(&gate));
    let followed = cluster.start(["logs", "-f", &id]);
    followed.until_says("begun");
    assert_eq!(cluster.gpool(["exec", &id, "--", "sh", "-c", "echo $GPOOL_NODE"]).ok(), "lab2\n");
    gate.open();
    assert_eq!(followed.end().out, "begun\ndone\n");
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));

    // It answers, so it is drained before it is removed; then its certificate is worth nothing.
    cluster.gpool(["node", "remove", "lab2"]).refused(7, &["GP0738", "gpool drain lab2"]);
    cluster.gpool(["drain", "lab2", "--reason", "it leaves"]).ok();
    cluster.gpool(["node", "remove", "lab2"]).ok();
    machine.end().refused(5, &["GP0531", "the node was removed"]);
    assert_eq!(membership(&cluster, "lab2"), None);
    machine.start(&[]);
    machine.end().refused(5, &["GP0531"]);
    // It may join again, with a new token.
    machine.join("lab3");
    let audit = cluster.gpool(["audit", "--object", "nodes/lab2"]).ok();
    assert!(audit.contains("POST /nodes") && audit.contains("DELETE /nodes/{name}"), "{audit}");
}

#[test]
fn jobs_on_another_machine_use_the_api_of_their_server() {
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    machine.join("lab2");
    let gate = Gate::new(&cluster, "gate");
    let line = format!(
        "{gpool} show $GPOOL_JOB_ID --json | grep -o '\"node\": \"lab2\"'; \
         {gpool} submit -q -- true; {gpool} drain lab2 --reason no; echo $?; {wait}",
        gpool = program().display(),
        wait = gate.line()
    );
    let id = cluster.sh(&["--gpus", "1"], &line);
    let output = || cluster.gpool(["logs", &id, "--stdout"]).out;
    until_so("it has tried", || output().lines().count() == 3);
    assert_eq!(output(), "\"node\": \"lab2\"\n2\n5\n");
    assert_eq!(cluster.until_ended("2").state, JobState::Succeeded);
    // Beside its jobs, the machine reaches nothing there.
    let socket = cluster.path("lab2/agent/api.sock");
    let outside = |words: &[&str]| {
        let mut command = cluster.command();
        command.env("GPOOL_SOCKET", &socket).args(words);
        Running::start(&mut command, None).end()
    };
    outside(&["queue"]).ok();
    // Another agent on the folder is refused, and leaves the socket as it is.
    let mut second = Machine::new(&cluster, "lab2", "none");
    second.start(&[]);
    second.end().refused(1, &["another agent uses"]);
    outside(&["queue"]).ok();
    gate.open();
    cluster.until_ended(&id);
    outside(&["queue"]).refused(5, &["has no job on node lab2"]);
}

#[test]
fn tokens_of_nodes_serve_once_for_the_server_that_made_them() {
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let invite = |words: &[&str]| {
        let made = cluster.gpool([&["node", "add", "lab2", "--json"], words].concat()).json();
        (made["server"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
    };
    let try_to_join = |folder: &str, server: &str, token: &str| {
        let mut machine = Machine::new(&cluster, folder, "none");
        machine.start(&["--join", server, token]);
        machine.end()
    };
    let (server, replaced) = invite(&[]);
    let (_, token) = invite(&[]);
    let refused = &["GP0531", "the join token is not valid", "gpool nodes add"];
    try_to_join("a", &server, &replaced).refused(5, refused);
    try_to_join("b", &server, "gn_wrong").refused(5, &["GP0311"]);
    let (secret, _) = token.split_once('@').unwrap();
    let other = format!("{secret}@SHA256:other");
    try_to_join("c", &server, &other).refused(5, &["GP0311", "is not the server of this token"]);
    let mut machine = Machine::new(&cluster, "d", "none");
    machine.start(&["--join", &server, &token]);
    machine.until_connected("lab2");
    try_to_join("e", &server, &token).refused(5, refused);
    // The same command on the same machine, as a script repeats it: the agent goes on.
    for _ in 0..3 {
        let mut again = Machine::new(&cluster, "d", "none");
        again.start(&["--join", &server, &token]);
        again.end().refused(1, &["another agent uses"]);
    }
    let elsewhere = ["--join", "https://127.0.0.1:1", &token];
    let mut again = Machine::new(&cluster, "d", "none");
    again.start(&elsewhere);
    again.end().refused(1, &["GP0220", "this machine is node lab2 of", "enrollment.json"]);
    machine.kill_agent();
    machine.start(&["--join", &server, &token]);
    machine.until_connected("lab2");
    let (_, expired) = invite(&["--expires", "1s"]);
    until_so("the token has expired", || {
        let tokens = std::fs::read_to_string(cluster.state().join("nodes.json")).unwrap();
        let tokens: serde_json::Value = serde_json::from_str(&tokens).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u128::from(tokens["tokens"][0]["expires_at"].as_u64().unwrap()) < now.as_millis()
    });
    try_to_join("f", &server, &expired).refused(5, refused);
    // A new machine takes the place of the old one with a token of the same node.
    let (_, token) = invite(&[]);
    let mut newer = Machine::new(&cluster, "g", "sim:1xA100-80G");
    newer.start(&["--join", &server, &token]);
    machine.end().refused(5, &["GP0531", "joined again on another machine"]);
    newer.until_connected("lab2");

    for (words, says) in [
        (&["node", "add", "lab1"][..], "of the server's own machine"),
        (&["node", "add", "../x"], "begins with a letter"),
        (&["node", "add", "lab3", "--expires", "90d"], "from 1s to 30d"),
    ] {
        cluster.gpool(words).refused(2, &["GP0101", says]);
    }
    let alone = Cluster::new("none");
    alone.gpool(["node", "add", "lab2"]).refused(1, &["does not listen on the network"]);
    let mut machine = Machine::new(&alone, "lab2", "none");
    machine.start(&[]);
    machine.end().refused(1, &["GP0220", "has not joined"]);
}

/// Changes the file of an enrollment.
fn enroll(machine: &Machine<'_>, change: impl FnOnce(&mut serde_json::Value)) {
    let path = machine.path("agent/enrollment.json");
    let mut stored = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut stored);
    std::fs::write(&path, stored.to_string()).unwrap();
}

#[test]
fn certificates_are_renewed_and_an_expired_one_needs_a_token() {
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let mut machine = Machine::new(&cluster, "lab2", "none");
    machine.join("lab2");
    let certificate = |machine: &Machine<'_>| {
        let mut certificate = String::new();
        enroll(machine, |stored| certificate = stored["certificate"].as_str().unwrap().to_owned());
        certificate
    };
    let first = certificate(&machine);
    machine.kill_agent();
    enroll(&machine, |stored| stored["renew_at"] = 0.into());
    machine.start(&[]);
    machine.until_says("the certificate is renewed");
    assert_ne!(certificate(&machine), first);
    machine.kill_agent();
    machine.start(&[]);
    machine.until_connected("lab2");
    machine.kill_agent();
    enroll(&machine, |stored| stored["expires_at"] = 0.into());
    machine.start(&[]);
    machine.end().refused(1, &["has expired"]);
    machine.join("lab2");
}

#[test]
fn jobs_run_as_the_account_that_the_node_names() {
    if !is_root() {
        return skip("only root can run jobs as other users");
    }
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    let settings = machine.path("gpool.toml");
    std::fs::write(&settings, "users = { root = \"daemon\" }\n").unwrap();
    machine.settings = Some(settings.clone());
    machine.join("lab2");
    let run = |line: &str| cluster.sh(&["--gpus", "1", "--cwd", "/"], line);
    let id = run("id -un; exit 4");
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(4));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "daemon\n");
    machine.kill_agent();
    std::fs::write(&settings, "users = { root = \"no-such-account\" }\n").unwrap();
    machine.start(&[]);
    machine.until_says("connected");
    let held = run("true");
    cluster.until_is(&held, "held");
    let why = cluster.why(&held);
    assert!(why.contains("no account no-such-account, for user root"), "{why}");
    // A job is held if its folder is not there.
    machine.kill_agent();
    std::fs::write(&settings, "").unwrap();
    machine.start(&[]);
    machine.until_says("connected");
    let elsewhere = JobCreate {
        command: vec!["true".to_owned()],
        gpus: Some("1".to_owned()),
        directory: Some("/no/such/folder".to_owned()),
        ..JobCreate::default()
    };
    let held = cluster.client().submit(&elsewhere, None).unwrap().id;
    cluster.until_is(&held, "held");
    let why = cluster.why(&held);
    assert!(why.contains("/no/such/folder") && why.contains("lab2"), "{why}");
}

#[test]
fn a_job_goes_to_a_node_that_has_what_it_needs() {
    if !is_root() {
        return skip("only root can run jobs as other users");
    }
    let cluster = Cluster::with(&["--devices", "sim:1xA100-80G", "--listen", "127.0.0.1:0"]);
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    let settings = machine.path("gpool.toml");
    std::fs::write(&settings, "users = { root = \"no-such-account\" }\n").unwrap();
    machine.settings = Some(settings);
    machine.join("lab2");
    let gate = Gate::new(&cluster, "filler");
    let filler = cluster.sh(&["--gpus", "1", "--node", "lab1"], &waits_at(&gate));
    cluster.until_is(&filler, "running");
    let id = cluster.sh(&["--gpus", "1"], "echo $GPOOL_NODE $GPOOL_ATTEMPT");
    let why = || cluster.why(&id);
    until_so("lab2 refused it", || why().contains("It waits for another node: lab2 can't run it"));
    assert!(why().contains("no account no-such-account"), "{}", why());
    assert_eq!(cluster.job(&id).state, JobState::Pending);
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "lab1 2\n");
    // No other node has two GPUs.
    let large = cluster.sh(&["--gpus", "2"], "true");
    cluster.until_is(&large, "held");
}

#[test]
fn a_job_on_another_machine_outlives_its_agent_and_the_server() {
    let (mut cluster, _) = cluster_at("", &[]);
    let gates = ["one", "two"].map(|name| Gate::new(&cluster, name));
    let line = gates.iter().map(Gate::line).collect::<Vec<_>>().join("; echo went on; ");
    let id;
    {
        let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
        machine.join("lab2");
        id = cluster.sh(&["--gpus", "2"], &format!("echo begun; {line}; echo done; exit 5"));
        until_so("it has begun", || cluster.gpool(["logs", &id]).out.starts_with("begun"));
        // The job goes on and ends while its agent is away.
        machine.kill_agent();
        gates[0].open();
        machine.start(&[]);
        machine.until_connected("lab2");
        until_so("it went on", || cluster.gpool(["logs", &id]).out.ends_with("went on\n"));
        machine.kill_agent();
    }
    cluster.kill();
    gates[1].open();
    cluster.up();
    // The server knows the job, and not yet how it ended.
    assert_eq!(cluster.job(&id).state, JobState::Running);
    assert_eq!(membership(&cluster, "lab2").as_deref(), Some("joining"));
    let cluster = &cluster;
    let mut machine = Machine::new(cluster, "lab2", "sim:2xA100-80G");
    machine.start(&[]);
    let ended = cluster.until_ended(&id);
    assert_eq!((ended.run.exit_code, ended.run.attempt), (Some(5), 1));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "begun\nwent on\ndone\n");
    assert_eq!(cluster.gpool(["events", &id]).ok().matches("ended").count(), 1);
}

#[test]
fn a_cut_stops_new_jobs_and_no_running_one() {
    let (cluster, address) = cluster_at("node_lease = \"3s\"\n", &[]);
    let relay = Relay::to(address);
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    machine.join_at("lab2", &format!("https://{}", relay.address));
    for is_heard in [true, false] {
        let name = if is_heard { "heard" } else { "unheard" };
        let gate = Gate::new(&cluster, name);
        let id = cluster.sh(&["--gpus", "1"], &waits_at(&gate));
        let id = if cluster.job(&id).placement[0].node == "lab1" {
            // The small GPU is taken; the next job goes to the other machine.
            cluster.sh(&["--gpus", "1"], &waits_at(&gate))
        } else {
            id
        };
        until_so("it has begun", || cluster.gpool(["logs", &id]).out.starts_with("begun"));
        relay.cut(is_heard);
        until_so("it is silent", || membership(&cluster, "lab2").as_deref() == Some("silent"));
        let waiting = cluster.sh(&["--gpus", "2"], "true");
        let why = cluster.why(&waiting);
        assert!(why.contains("lab2"), "{why}");
        assert_eq!(cluster.job(&waiting).state, JobState::Pending);
        let logs = cluster.gpool(["logs", &id]);
        assert!(logs.err.contains("GP0723") && logs.err.contains("lab2"), "{logs:?}");
        // It ends behind the cut, and its output is whole afterwards.
        gate.open();
        gate.open();
        relay.heal();
        let ended = cluster.until_ended(&id);
        assert_eq!((ended.run.exit_code, ended.run.attempt), (Some(5), 1));
        assert_eq!(cluster.gpool(["logs", &id]).ok(), "begun\ndone\n");
        assert_eq!(cluster.until_ended(&waiting).run.exit_code, Some(0));
        for job in cluster.all_ids() {
            cluster.until_ended(&job);
        }
    }
}

#[test]
fn the_jobs_of_a_machine_that_died_run_elsewhere_once() {
    let (cluster, _) = cluster_at(
        "node_lease = \"3s\"\n",
        &[("GPOOL_WRONGPOINT", "server-remote-lease=return(3000)")],
    );
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    machine.join("lab2");
    let runs = cluster.path("runs");
    let line = format!("echo $GPOOL_NODE >> {}; sleep 1000", runs.display());
    let gates = Gate::new(&cluster, "lab1");
    let small = cluster.sh(&["--gpus", "t4"], &waits_at(&gates));
    cluster.until_is(&small, "running");
    let again = cluster.sh(&["--gpus", "1", "--on-node-lost", "requeue"], &line);
    let waits = cluster.sh(&["--gpus", "1"], &line);
    until_so("both run", || {
        std::fs::read_to_string(&runs).unwrap_or_default().lines().count() == 2
    });
    machine.power_off();
    until_so("it is lost", || membership(&cluster, "lab2").as_deref() == Some("lost"));
    gates.open();
    cluster.until_ended(&small);
    until_so("one runs elsewhere", || {
        let job = cluster.job(&again);
        job.state == JobState::Running && job.placement[0].node == "lab1"
    });
    assert_eq!(cluster.job(&waits).state, JobState::Running);
    // The machine is replaced: its jobs end with it.
    cluster.gpool(["node", "remove", "lab2", "--off"]).ok();
    assert_eq!(cluster.until_ended(&waits).state, JobState::Lost);
    until_so("it wrote", || std::fs::read_to_string(&runs).unwrap().lines().count() == 3);
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "lab2\nlab2\nlab1\n");
    cluster.gpool(["cancel", &again]).ok();
    cluster.until_ended(&again);
}
