//! Services: replicas by load behind a gateway, with a small HTTP server as replica.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpool_wire::Job;
use serde_json::Value;

use crate::harness::{Cluster, Machine, Ran, until, until_so};

/// The program of the replicas.
const SERVER: &str = include_str!("services/server.py");

/// A cluster with the server's program, and a free port for a service.
pub struct Services {
    pub cluster: Cluster,
    pub port: u16,
}

/// An answer: its status, its head, and its body.
pub type Answer = (u16, String, String);

impl Services {
    pub fn new() -> Self {
        Self::on(Cluster::new("sim:8xH100-80G"))
    }

    pub fn on(cluster: Cluster) -> Self {
        fs::write(cluster.work().join("server.py"), SERVER).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { cluster, port }
    }

    /// Runs `gpool serve` for the service `chat` with the server as replica.
    pub fn serve(&self, flags: &[&str], revision: &str) -> Ran {
        let command = ["--", "python3", "server.py", "{port}", revision];
        self.serve_command(flags, &command)
    }

    pub fn serve_command(&self, flags: &[&str], command: &[&str]) -> Ran {
        let port = self.port.to_string();
        let first = ["serve", "--name", "chat", "--port", &port, "--gpus", "0.5"];
        self.cluster.gpool([&first, flags, command].concat())
    }

    pub fn get(&self, path: &str) -> std::io::Result<Answer> {
        get(self.port, path)
    }

    /// The report of the gateway.
    pub fn status(&self) -> Value {
        let shown = self.cluster.gpool(["--json", "serve", "show", "chat"]).json();
        shown["status"].clone()
    }

    pub fn n_in(&self, stage: &str) -> usize {
        let status = self.status();
        let replicas = status["replicas"].as_array().cloned().unwrap_or_default();
        replicas.iter().filter(|it| it["stage"] == stage).count()
    }

    /// The number of ready replicas if a job is none of them.
    fn n_ready_except(&self, id: &str) -> usize {
        let status = self.status();
        let replicas = status["replicas"].as_array().cloned().unwrap_or_default();
        let is_gone = replicas.iter().all(|it| it["job"] != id);
        replicas.iter().filter(|it| is_gone && it["stage"] == "ready").count()
    }

    pub fn until_ready(&self, n: usize) {
        until_so(&format!("{n} ready replicas"), || {
            let status = self.status();
            let replicas = status["replicas"].as_array().cloned().unwrap_or_default();
            replicas.len() == n && replicas.iter().all(|it| it["stage"] == "ready")
        });
    }

    /// The living jobs of a role, such as `replica`.
    pub fn jobs(&self, role: &str) -> Vec<Job> {
        let query = gpool_client::JobsQuery {
            group: Some("chat".to_owned()),
            ..gpool_client::JobsQuery::default()
        };
        let client = self.cluster.client();
        let jobs = client.every_job(query).map(Result::unwrap);
        let start = format!("chat/{role}");
        jobs.filter(|job| {
            let group = job.request.group.as_deref().unwrap_or_default();
            !job.state.is_end() && group.starts_with(&start)
        })
        .collect()
    }

    /// Kills the program of a job, as the system does without memory.
    fn kill(&self, id: &str) {
        self.cluster.gpool(["signal", "KILL", id]).ok();
    }
}

pub fn get(port: u16, path: &str) -> std::io::Result<Answer> {
    ask(port, &format!("GET {path} HTTP/1.1\r\nhost: chat\r\nconnection: close\r\n\r\n"))
}

fn ask(port: u16, request: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    Ok((status, head.to_lowercase(), body.to_owned()))
}

/// Clients that ask again and again until they are stopped.
struct Load {
    is_over: Arc<AtomicBool>,
    n_answers: Arc<AtomicU32>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(port: u16, path: &'static str, n_clients: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let n_answers = Arc::new(AtomicU32::new(0));
        let client = |_| {
            let (is_over, n_answers) = (is_over.clone(), n_answers.clone());
            thread::spawn(move || {
                let mut wrong = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    match get(port, path) {
                        Ok((200, _, body)) if body.starts_with("job ") => {
                            n_answers.fetch_add(1, Ordering::Relaxed);
                        }
                        other => wrong.push(format!("{other:?}")),
                    }
                }
                wrong
            })
        };
        let clients = (0..n_clients).map(client).collect();
        Self { is_over, n_answers, clients }
    }

    fn n(&self) -> u32 {
        self.n_answers.load(Ordering::Relaxed)
    }

    /// Stops the clients; returns the answers that were wrong.
    fn stop(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|it| it.join().unwrap()).collect()
    }
}

#[test]
fn a_service_grows_with_its_load_and_shrinks_to_nothing() {
    let services = Services::new();
    let flags = ["--replicas=0..3", "--target=1", "--window=1s", "--cooldown=1s"];
    let said = services.serve(&[&flags[..], &["--ready=/health"]].concat(), "1").ok();
    assert_eq!(said, format!("http://127.0.0.1:{}\n", services.port));
    assert!(services.jobs("replica").is_empty());
    // The first request is held until there is a replica.
    let (status, _, body) = services.get("/").unwrap();
    assert!(status == 200 && body.ends_with("revision 1"), "{status} {body}");
    let load = Load::start(services.port, "/slow", 6);
    until_so("three replicas", || services.n_in("ready") == 3);
    assert_eq!(load.stop(), Vec::<String>::new());
    until_so("no replica", || services.jobs("replica").is_empty());
    let page = services.cluster.gpool(["serve", "show", "chat"]).ok();
    assert!(
        page.contains("1 request is held") && page.contains("leaves: 0 replicas needed"),
        "{page}"
    );
    assert!(services.cluster.gpool(["serve", "list"]).ok().contains("0/0"));
    let why = services.cluster.gpool(["why", "group:chat"]).ok();
    assert!(why.contains("service chat: 0 replicas: no requests in the stable window"), "{why}");
    assert_eq!(services.get("/").unwrap().0, 200);
    let id = services.jobs("replica")[0].id.clone();
    assert!(services.cluster.gpool(["show", &id]).ok().contains("held"));
    services.cluster.gpool(["serve", "remove", "chat"]).ok();
    until_so("no job", || services.jobs("").is_empty());
    services.cluster.gpool(["serve", "show", "chat"]).refused(2, &["no service"]);
}

#[test]
fn no_request_is_lost_by_scaling_updates_and_kills_and_streams_go_on() {
    let services = Services::new();
    services.serve(&["--replicas=3", "--ready=/health", "--cooldown=0s"], "1").ok();
    services.until_ready(3);
    let mut stream = TcpStream::connect(("127.0.0.1", services.port)).unwrap();
    stream.write_all(b"GET /stream HTTP/1.1\r\nhost: chat\r\nconnection: close\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let first = lines.find(|line| line.starts_with("data: ")).unwrap();
    let load = Load::start(services.port, "/", 4);
    for n in ["1", "3", "2"] {
        services.cluster.gpool(["serve", "scale", "chat", "--replicas", n]).ok();
        let n: usize = n.parse().unwrap();
        until_so("the new size", || services.n_in("ready") == n);
    }
    services.serve(&["--replicas=2"], "2").ok();
    until_so("two replicas of revision 2", || {
        let status = services.status();
        let replicas = status["replicas"].as_array().cloned().unwrap_or_default();
        let is_new = |it: &&Value| it["stage"] == "ready" && it["revision"] == 2;
        replicas.iter().filter(is_new).count() == 2
    });
    for _ in 0..3 {
        let replicas = services.jobs("replica");
        let id = replicas.iter().find(|job| job.name == "chat-r2").unwrap().id.clone();
        services.kill(&id);
        until_so("another replica", || services.n_ready_except(&id) == 2);
    }
    let n = load.n();
    until_so("more answers", || load.n() > n + 10);
    assert_eq!(load.stop(), Vec::<String>::new());
    // The replica of the stream waits for it.
    assert_eq!(services.n_in("draining"), 1);
    fs::write(services.cluster.work().join("enough"), "").unwrap();
    let events: Vec<String> = lines.filter(|line| line.starts_with("data: ")).collect();
    assert_eq!((first.as_str(), events.last().unwrap().as_str()), ("data: 1", "data: [DONE]"));
    for (number, line) in (2..).zip(&events[..events.len() - 1]) {
        assert_eq!(*line, format!("data: {number}"));
    }
    assert_eq!(services.status()["sums"]["n_failed"], 0);
}

#[test]
fn a_killed_gateway_finds_its_replicas_again() {
    let services = Services::new();
    services.serve(&["--replicas=2", "--ready=/health"], "1").ok();
    services.until_ready(2);
    let ids = |role| services.jobs(role).into_iter().map(|job| job.id).collect::<Vec<_>>();
    let (gateway, replicas) = (ids("gateway"), ids("replica"));
    services.kill(&gateway[0]);
    until_so("the second attempt", || services.cluster.job(&gateway[0]).run.attempt == 2);
    until("an answer", || services.get("/").ok().filter(|(status, ..)| *status == 200));
    services.until_ready(2);
    assert_eq!((ids("gateway"), ids("replica")), (gateway, replicas));
}

#[test]
fn a_restart_of_the_server_drops_nothing() {
    let mut services = Services::new();
    services.serve(&["--replicas=1", "--ready=/health"], "1").ok();
    services.until_ready(1);
    let load = Load::start(services.port, "/", 2);
    services.cluster.kill();
    let n = load.n();
    until_so("answers without a server", || load.n() > n + 20);
    services.cluster.up();
    until_so("answers with it", || load.n() > n + 40);
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
fn requests_beyond_the_bound_get_503_and_when_to_ask_again() {
    let services = Services::new();
    fs::write(services.cluster.work().join("unready"), "").unwrap();
    let flags = ["--replicas=0..1", "--ready=/health", "--max-held=1"];
    services.serve(&flags, "1").ok();
    let port = services.port;
    let held = thread::spawn(move || get(port, "/").unwrap());
    until_so("a held request", || services.status()["n_held"] == 1);
    let (status, head, body) = services.get("/").unwrap();
    assert!(status == 503 && head.contains("retry-after: "), "{status} {head}");
    assert!(body.contains("too many requests are held"), "{body}");
    fs::remove_file(services.cluster.work().join("unready")).unwrap();
    assert_eq!(held.join().unwrap().0, 200);
}

#[test]
fn a_canary_is_promoted_or_taken_back() {
    let services = Services::new();
    services.serve(&["--replicas=2", "--ready=/health"], "1").ok();
    services.until_ready(2);
    services.serve(&["--canary=50%"], "2").ok();
    let revisions = |n: usize| {
        let answers = (0..n).map(|_| services.get("/").unwrap().2);
        answers.filter(|body| body.ends_with("revision 2")).count()
    };
    until_so("the canary", || {
        let status = services.status();
        let replicas = status["replicas"].as_array().cloned().unwrap_or_default();
        let is_ready = |it: &&Value| it["stage"] == "ready" && it["revision"] == 2;
        replicas.len() == 2 && replicas.iter().filter(is_ready).count() == 1
    });
    assert_eq!(revisions(20), 10);
    let page = services.cluster.gpool(["serve", "show", "chat"]).ok();
    assert!(page.contains("is a canary with 50 % of the requests"), "{page}");
    services.cluster.gpool(["serve", "rollback", "chat"]).ok();
    until_so("only revision 1", || revisions(6) == 0);
    services.until_ready(2);
    services.serve(&["--canary=50%"], "2").ok();
    until_so("the canary", || revisions(6) == 3);
    services.cluster.gpool(["serve", "promote", "chat"]).ok();
    until_so("only revision 2", || revisions(6) == 6);
    services.cluster.gpool(["serve", "promote", "chat"]).refused(2, &["has no canary"]);
}

#[test]
fn a_revision_that_fails_leaves_the_one_before_in_place() {
    let services = Services::new();
    services.serve(&["--replicas=1", "--ready=/health"], "1").ok();
    services.until_ready(1);
    services.serve_command(&[], &["--", "sh", "-c", "exit 3", "{port}"]).ok();
    until_so("a stuck update", || {
        let update = services.status()["update"].as_str().unwrap_or_default().to_owned();
        update.contains("failed to start") && update.contains("gpool serve rollback chat")
    });
    assert!(services.get("/").unwrap().2.ends_with("revision 1"));
    services.cluster.gpool(["serve", "rollback", "chat"]).ok();
    until_so("no update", || services.status()["update"].is_null());
    services.until_ready(1);
}

#[test]
fn errors_and_bodies_pass_the_gateway_and_a_slow_reader_harms_nobody_else() {
    let services = Services::new();
    services.serve(&["--replicas=2", "--ready=/health"], "1").ok();
    services.until_ready(2);
    assert_eq!(services.get("/error").unwrap().0, 500);
    let body = "x".repeat(3 << 20);
    let head = "POST / HTTP/1.1\r\nhost: chat\r\nconnection: close\r\ncontent-length";
    let request = format!("{head}: {}\r\n\r\n{body}", body.len());
    let (status, _, said) = ask(services.port, &request).unwrap();
    assert_eq!((status, said.as_str()), (200, "3145728 bytes for 127.0.0.1"));
    let mut slow = TcpStream::connect(("127.0.0.1", services.port)).unwrap();
    slow.write_all(b"GET /stream HTTP/1.1\r\nhost: chat\r\n\r\n").unwrap();
    until_so("the stream", || services.status()["n_in_flight"] == 1);
    assert!((0..20).all(|_| services.get("/").unwrap().0 == 200));
    drop(slow);
    until_so("its end", || services.status()["n_in_flight"] == 0);
    // The gateway stores no answer that its client does not read: the replica must wait.
    let mut slow = TcpStream::connect(("127.0.0.1", services.port)).unwrap();
    slow.write_all(b"GET /big HTTP/1.1\r\nhost: chat\r\n\r\n").unwrap();
    let blocked = services.cluster.work().join("blocked");
    until_so("the replica waits for the reader", || blocked.exists());
    assert!((0..20).all(|_| services.get("/").unwrap().0 == 200));
}

#[test]
fn other_protocols_pass_the_gateway() {
    let services = Services::new();
    services.serve(&["--ready=/health"], "1").ok();
    services.until_ready(1);
    let mut stream = TcpStream::connect(("127.0.0.1", services.port)).unwrap();
    let head = "GET /echo HTTP/1.1\r\nhost: chat\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("101 Switching Protocols"));
    assert!(lines.any(|line| line.is_empty()));
    for line in ["hello", "again"] {
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        assert_eq!(lines.next().unwrap(), line);
    }
    until_so("one stream", || services.status()["n_in_flight"] == 1);
}

#[test]
fn replicas_on_another_machine_are_reached_through_the_server() {
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let services = Services::on(cluster);
    let mut machine = Machine::new(&services.cluster, "lab2", "sim:2xA100-80G");
    machine.join("lab2");
    let nodes = services.cluster.client().nodes().unwrap().items;
    let other = nodes.iter().find(|node| node.name != "lab2").unwrap();
    for gateway in [&other.name, "lab2"] {
        let node = format!("--gateway-node={gateway}");
        services.serve(&["--replicas=2", "--ready=/health", &node], "1").ok();
        services.until_ready(2);
        let placed = services.jobs("replica").into_iter().map(|job| job.placement[0].node.clone());
        assert_eq!(placed.collect::<Vec<_>>(), ["lab2", "lab2"]);
        assert_eq!(services.jobs("gateway")[0].placement[0].node, *gateway);
        assert!((0..10).all(|_| services.get("/").unwrap().0 == 200));
        services.cluster.gpool(["serve", "remove", "chat"]).ok();
        until_so("no job", || services.jobs("").is_empty());
    }
}

#[test]
fn a_replica_that_is_never_ready_is_replaced() {
    let services = Services::new();
    fs::write(services.cluster.work().join("unready"), "").unwrap();
    services.serve(&["--ready=/health", "--ready-timeout=1s"], "1").ok();
    until_so("the end of the first", || {
        let page = services.cluster.gpool(["serve", "show", "chat"]).ok();
        page.contains("replica 1 leaves: it was not ready within 1 s")
    });
    fs::remove_file(services.cluster.work().join("unready")).unwrap();
    services.until_ready(1);
    assert_eq!(services.get("/").unwrap().0, 200);
}

#[test]
fn a_replica_that_hangs_gets_no_requests() {
    let services = Services::new();
    services.serve(&["--replicas=2", "--ready=/health"], "1").ok();
    services.until_ready(2);
    let hung = services.jobs("replica")[0].id.clone();
    services.cluster.gpool(["signal", "STOP", &hung]).ok();
    until_so("its failed probes", || services.n_in("unready") == 1);
    let answers = (0..20).map(|_| services.get("/").unwrap().2);
    assert!(answers.into_iter().all(|body| !body.contains(&format!("job {hung} "))));
    services.cluster.gpool(["signal", "CONT", &hung]).ok();
    services.until_ready(2);
}

#[test]
fn a_service_with_a_certificate_speaks_https() {
    let services = Services::new();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(services.cluster.work().join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(services.cluster.work().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let tls = ["--tls-cert=cert.pem", "--tls-key=key.pem", "--ready=/health"];
    let url = services.serve(&tls, "1").ok();
    assert_eq!(url, format!("https://127.0.0.1:{}\n", services.port));
    services.until_ready(1);
    let program = "import ssl, sys, urllib.request\n\
        trust = ssl._create_unverified_context()\n\
        print(urllib.request.urlopen(sys.argv[1], context=trust).read().decode())";
    let ran = Command::new("python3").args(["-c", program, url.trim()]).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(said.ends_with("revision 1\n"), "{said} {:?}", String::from_utf8(ran.stderr));
}

#[test]
fn a_preempted_replica_is_drained_first() {
    let services = Services::new();
    let flags = ["--replicas=1", "--ready=/health", "--preemptible", "--drain=60s"];
    services.serve(&flags, "1").ok();
    services.until_ready(1);
    let replica = services.jobs("replica")[0].id.clone();
    let mut stream = TcpStream::connect(("127.0.0.1", services.port)).unwrap();
    stream.write_all(b"GET /stream HTTP/1.1\r\nhost: chat\r\nconnection: close\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "data: 1"));
    // A more important job needs all GPUs.
    let batch =
        ["submit", "--gpus", "8", "--no-preemptible", "--priority", "5", "--", "sleep", "1"];
    let batch = services.cluster.gpool(batch).ok();
    until_so("the preemption", || services.cluster.job(&replica).state.as_str() == "stopping");
    fs::write(services.cluster.work().join("enough"), "").unwrap();
    assert!(lines.any(|line| line == "data: [DONE]"));
    assert_eq!(services.cluster.until_ended(batch.trim()).state.as_str(), "succeeded");
    until_so("another replica", || services.n_ready_except(&replica) == 1);
    assert_eq!(services.get("/").unwrap().0, 200);
}

#[test]
fn what_a_service_can_not_be_is_refused() {
    let services = Services::new();
    let serve = |words: &[&str]| services.cluster.gpool([&["serve"], words].concat());
    let command = ["--port=8000", "--", "./chat"];
    let with = |flags: &[&str]| serve(&[flags, &command].concat());
    serve(&[]).refused(2, &["no command for the replicas", "--port {port}"]);
    serve(&["--", "./chat"]).refused(2, &["a service needs a port"]);
    with(&["--replicas=4..2"]).refused(2, &["the fewest not above it"]);
    with(&["--target=0"]).refused(2, &["is not a load"]);
    with(&["--scale-by=rate"]).refused(2, &["needs a target in its unit"]);
    with(&["--array=0-3"]).refused(2, &["can't be an array"]);
    with(&["--nodes=2"]).refused(2, &["one task"]);
    with(&["--name=17"]).refused(2, &["can't be the name of a service"]);
    with(&["--canary=10%"]).refused(2, &["needs a revision to compare with"]);
    with(&["--ready=health"]).refused(2, &["no path like /health"]);
    with(&["--tls-cert=missing.pem", "--tls-key=missing.pem"]).refused(2, &["missing.pem"]);
    serve(&["show", "chat"]).refused(2, &["no service", "gpool serve list"]);
}
