//! Measures a server with the agents of many machines: real connections over TLS, each with a
//! certificate of its own, and simulated machines behind them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpool_cli::cluster::Cluster;
use gpool_cli::failure::{Failure, Result};
use gpool_client::remote::fingerprint;
use gpool_identity::tls::Authority;
use gpool_model::agent::{Order, Report, Stamp};
use gpool_model::node::NodeFacts;
use gpool_model::{Bytes, Device, DeviceUuid, Incarnation, MilliCpu, NodeName, Resources};
use gpool_protocol::{Decoder, Hello, Telemetry, ToAgent, ToServer, VERSION, encode};
use gpool_wire::join::AGENT_UPGRADE;
use gpool_wire::{API_PREFIX, JobCreate};
use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;

use super::figure::{Figure, Ranked};
use super::process::{memory_of, threads_cpu_ms_of};
use super::{Options, failed};

/// The network of the machines: one address for each, all on this machine.
const NETWORK: &str = "10.88.0.0/16";
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 88, 255, 1);
/// GPUs of each machine.
const GPUS: u32 = 8;
/// Agents send something each second.
const BEAT: Duration = Duration::from_secs(1);
/// Attempts of an agent to come back begin with this pause.
const PAUSE: Duration = Duration::from_millis(200);
/// How long their certificates are valid.
const VALID: Duration = Duration::from_secs(24 * 3600);
/// Pause until the agents are at rest.
const SETTLE: Duration = Duration::from_secs(10);
/// How long all agents may take to connect.
const PATIENCE: Duration = Duration::from_secs(600);

/// What all simulated machines share.
struct Machines {
    server: SocketAddr,
    /// Agents that were welcome in this life of the server.
    n_welcome: AtomicU32,
    is_over: Notify,
    /// When the order to run a job arrived, by its name.
    arrivals: Mutex<BTreeMap<String, Instant>>,
}

/// One machine: its node, address and certificate.
struct SimulatedMachine {
    name: NodeName,
    address: Ipv4Addr,
    connector: TlsConnector,
}

/// Lets agents join, watches them at rest, times orders to them, and the return of all after a
/// crash of the server.
///
/// # Errors
/// This machine has no network for the benchmark, or a cluster can't be started.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let n_agents = options.agents;
    let network = LocalNetwork::add()?;
    let server = TcpListener::bind((SERVER, 0)).and_then(|listener| listener.local_addr());
    let server = server.map_err(|error| failed(format!("an address of the benchmark: {error}")))?;
    let mut cluster = super::cluster_on("none", Some(server))?;
    let bare = memory_of(cluster.server_pid());
    // They have joined before: joining is the work of people, one machine at a time.
    cluster.kill_server()?;
    let state = cluster.folder().join("state");
    let machines = machines(n_agents, &state).map_err(|error| failed(format!("{error:#}")))?;
    cluster.start_server()?;
    cluster.wait_until_ready()?;
    let shared = Arc::new(Machines {
        server,
        n_welcome: AtomicU32::new(0),
        is_over: Notify::new(),
        arrivals: Mutex::default(),
    });
    let runtime = tokio::runtime::Runtime::new().map_err(|error| failed(error.to_string()))?;
    for machine in machines {
        runtime.spawn(keep_connected(machine, shared.clone()));
    }
    let connect_time = until_connected(&cluster, &shared, n_agents)?;
    // The first reports are over then.
    std::thread::sleep(SETTLE.min(Duration::from_secs(u64::from(options.idle_s))));
    let (before, began) = (threads_cpu_ms_of(cluster.server_pid()), Instant::now());
    std::thread::sleep(Duration::from_secs(u64::from(options.idle_s)));
    let used = threads_cpu_ms_of(cluster.server_pid()) - before;
    let cores = used / 1000.0 / began.elapsed().as_secs_f64();
    let memory = memory_of(cluster.server_pid()).saturating_sub(bare);
    let orders = orders(&cluster, &shared, options.starts)?;
    shared.n_welcome.store(0, Ordering::Relaxed);
    cluster.kill_server()?;
    cluster.start_server()?;
    cluster.wait_until_ready()?;
    let back = until_connected(&cluster, &shared, n_agents)?;
    shared.is_over.notify_waiters();
    runtime.shutdown_timeout(Duration::from_secs(5));
    cluster.end()?;
    drop(network);
    Ok(figures(
        n_agents,
        &AtRest { connect_time, cores, memory_mb: memory as f64 / 1e6 },
        orders,
        back,
    ))
}

/// All agents at rest.
struct AtRest {
    /// How long they took to connect.
    connect_time: Duration,
    cores: f64,
    memory_mb: f64,
}

fn figures(n_agents: u32, rest: &AtRest, orders: Vec<f64>, back: Duration) -> Vec<Figure> {
    let with = format!("{n_agents} agents with {GPUS} GPUs each");
    let for_10_000 = 10_000.0 / f64::from(n_agents);
    let all = "the same for 10,000 agents, extrapolated";
    let orders = Ranked::of(orders);
    let order = |percent| orders.percentile(percent);
    let (connect_s, back) = (rest.connect_time.as_secs_f64(), back.as_secs_f64());
    let (cpu, memory) = (rest.cores * for_10_000, rest.memory_mb * for_10_000);
    let at_rest = format!("CPU of the server, {with} at rest");
    let memory_of = format!("memory for {with} at rest");
    vec![
        Figure::new("agents_connect_s", format!("{with} connect"), connect_s, "s"),
        Figure::new("agents_cpu", at_rest, rest.cores, "cores"),
        Figure::new("agents_cpu_10000", all, cpu, "cores").below(1.0),
        Figure::new("agents_memory_mb", memory_of, rest.memory_mb, "MB"),
        Figure::new("agents_memory_10000_mb", all, memory, "MB").below(1000.0),
        Figure::new("agents_order_p50_ms", "submission to the agent, p50", order(50), "ms")
            .below(20.0)
            .with_samples(orders.all()),
        Figure::new("agents_order_p99_ms", "submission to the agent, p99", order(99), "ms")
            .below(100.0),
        Figure::new("agents_back_s", "kill -9 and restart until all are back", back, "s")
            .below(30.0),
    ]
}

/// Whether this user can give the machines their addresses.
pub fn can_be_measured() -> bool {
    rustix::process::geteuid().is_root() && LocalNetwork::add().is_ok()
}

/// Waits until every agent is welcome; returns the time that it took.
fn until_connected(cluster: &Cluster, shared: &Machines, n_agents: u32) -> Result<Duration> {
    let began = Instant::now();
    while shared.n_welcome.load(Ordering::Relaxed) < n_agents {
        if began.elapsed() > PATIENCE {
            let n_welcome = shared.n_welcome.load(Ordering::Relaxed);
            return Err(failed(format!("only {n_welcome} of {n_agents} agents connected")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = began.elapsed();
    // Their nodes follow with their first reports.
    let is_up = |node: &gpool_wire::Node| node.membership == "connected";
    while cluster
        .client()
        .nodes()
        .map_err(Failure::from)?
        .items
        .iter()
        .filter(|it| is_up(it))
        .count()
        < n_agents as usize
    {
        if began.elapsed() > PATIENCE {
            return Err(failed("not all nodes were reported"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(took)
}

/// Submits jobs one after the other; returns the milliseconds from the submission to the arrival of
/// the order, for each.
fn orders(cluster: &Cluster, shared: &Machines, n_jobs: u32) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for number in 0..n_jobs {
        let name = format!("order-{number}");
        let job = JobCreate {
            name: Some(name.clone()),
            command: vec!["true".to_owned()],
            gpus: Some("1".to_owned()),
            ..JobCreate::default()
        };
        let began = Instant::now();
        cluster.client().submit(&job, None).map_err(Failure::from)?;
        let arrived = loop {
            let arrived = shared.arrivals.lock().ok().and_then(|it| it.get(&name).copied());
            match arrived {
                Some(at) => break at,
                None if began.elapsed() > PATIENCE => {
                    return Err(failed("an order did not arrive"));
                }
                None => std::thread::sleep(Duration::from_micros(200)),
            }
        };
        times.push(arrived.duration_since(began).as_secs_f64() * 1000.0);
    }
    Ok(times)
}

/// The addresses of the machines; they end with this value.
struct LocalNetwork;

impl LocalNetwork {
    fn add() -> Result<Self> {
        match Self::route("add") {
            true => Ok(Self),
            false => Err(failed("the addresses of the machines can't be added")
                .why("the benchmark of agents needs root, and `ip` of the package iproute2")),
        }
    }

    fn route(action: &str) -> bool {
        let mut command = Command::new("ip");
        command.args(["route", action, "local", NETWORK, "dev", "lo"]);
        let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        silent.status().is_ok_and(|status| status.success())
    }
}

impl Drop for LocalNetwork {
    fn drop(&mut self) {
        Self::route("del");
    }
}

/// Makes machines with certificates of the server's authority, and admits them.
fn machines(
    n_agents: u32,
    state: &Path,
) -> std::result::Result<Vec<SimulatedMachine>, Box<dyn std::error::Error>> {
    let authority = Authority::open(state).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes())?)?;
    let roots = Arc::new(roots);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (mut machines, mut admitted) = (Vec::new(), String::from("{\"tokens\":[],\"nodes\":{"));
    for number in 0..n_agents {
        let name = format!("m{number}");
        let (node, key) = (NodeName::new(&name), KeyPair::generate()?);
        let certificate = authority.issue_for_agent(&node, key.public_key_raw(), VALID);
        let certificate = certificate.map_err(|error| error.to_string())?;
        let comma = if number == 0 { "" } else { "," };
        let shown = fingerprint(&certificate);
        write!(admitted, "{comma}\"{name}\":[\"{shown}\"]")?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(vec![certificate], key)?;
        let [_, _, high, low] = (number + 256).to_be_bytes();
        machines.push(SimulatedMachine {
            name: node,
            address: Ipv4Addr::new(10, 88, high, low),
            connector: TlsConnector::from(Arc::new(config)),
        });
    }
    admitted.push_str("}}");
    std::fs::write(state.join("nodes.json"), admitted)?;
    Ok(machines)
}

/// Connects again and again, until the measurement is over.
async fn keep_connected(machine: SimulatedMachine, shared: Arc<Machines>) {
    let mut pause = PAUSE;
    loop {
        let connected = tokio::select! {
            connected = connect(&machine, &shared) => connected,
            () = shared.is_over.notified() => return,
        };
        if connected.is_ok_and(|lasted| lasted > BEAT) {
            pause = PAUSE;
        }
        // Spread like the pauses of agents.
        let spread = 500 + u64::from(machine.address.octets()[3]) * 2;
        tokio::time::sleep(pause * u32::try_from(spread).unwrap_or(1) / 1000).await;
        pause = Duration::from_secs(10).min(pause * 2);
    }
}

/// Carries one connection to its end; returns how long it lasted.
async fn connect(machine: &SimulatedMachine, shared: &Machines) -> std::io::Result<Duration> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((machine.address, 0).into())?;
    let stream = socket.connect(shared.server).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::from(std::net::IpAddr::from(SERVER));
    let mut stream = machine.connector.connect(name, stream).await?;
    let request = format!(
        "GET {API_PREFIX}/agent/messages HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\n\
         upgrade: {AGENT_UPGRADE}\r\n\r\n",
        shared.server
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
    }
    if !answer.starts_with(b"HTTP/1.1 101") {
        return Err(std::io::Error::other("the server does not upgrade the connection"));
    }
    let began = Instant::now();
    let agent = SimulatedAgent { name: machine.name.clone(), incarnation: incarnation(), n: 0 };
    agent.speak(stream, shared).await?;
    Ok(began.elapsed())
}

fn incarnation() -> Incarnation {
    static NEXT: AtomicU32 = AtomicU32::new(0);

    Incarnation::new(format!("bench-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// One run of an agent.
struct SimulatedAgent {
    name: NodeName,
    incarnation: Incarnation,
    /// The number of its last report.
    n: u64,
}

impl SimulatedAgent {
    fn stamp(&mut self) -> Stamp {
        self.n += 1;
        Stamp { incarnation: self.incarnation.clone(), sequence: self.n }
    }

    fn inventory(&mut self) -> ToServer {
        let capacity = Resources::none()
            .with_cpus(MilliCpu::from_cores(64))
            .with_memory(Bytes::from_gib(512))
            .with_tasks(512);
        let uuid = |index| DeviceUuid::new(format!("GPU-{}-{index}", self.name));
        let device = |index| {
            Device::new(index, uuid(index), "NVIDIA H100-80G".to_owned(), Bytes::from_gib(80))
        };
        let devices = (0..GPUS).map(device).collect();
        let facts = NodeFacts { devices_from: "simulated".to_owned(), ..NodeFacts::default() };
        ToServer::Report(Box::new(Report::Inventory {
            stamp: self.stamp(),
            capacity,
            devices,
            boot_id: self.name.to_string(),
            facts: Box::new(facts),
        }))
    }

    /// Sends beats, and answers what a server asks at its start.
    async fn speak(
        mut self,
        mut stream: tokio_rustls::client::TlsStream<tokio::net::TcpStream>,
        shared: &Machines,
    ) -> std::io::Result<()> {
        let (node, incarnation) = (self.name.clone(), self.incarnation.clone());
        let hello =
            ToServer::Hello(Hello { version: VERSION, release: String::new(), node, incarnation });
        let inventory = self.inventory();
        for message in [&hello, &inventory] {
            stream.write_all(&encode(message).map_err(std::io::Error::other)?).await?;
        }
        let (mut decoder, mut bytes) = (Decoder::default(), vec![0; 4096]);
        let mut beats = tokio::time::interval(BEAT);
        let begun = Instant::now();
        loop {
            let mut replies = Vec::new();
            tokio::select! {
                n_read = stream.read(&mut bytes) => match n_read? {
                    0 => return Ok(()),
                    n_read => decoder.push(&bytes[..n_read]),
                },
                _ = beats.tick() => {
                    let now = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                    let beat = Some(now + 1);
                    replies.push(ToServer::Telemetry(Telemetry { beat, ..Telemetry::default() }));
                }
            }
            while let Some(message) =
                decoder.next_message::<ToAgent>().map_err(std::io::Error::other)?
            {
                match message {
                    ToAgent::Welcome { .. } => {
                        shared.n_welcome.fetch_add(1, Ordering::Relaxed);
                    }
                    ToAgent::Order { order: Order::Sync { term, round, .. }, .. } => {
                        replies.push(self.inventory());
                        let (stamp, tasks) = (self.stamp(), Vec::new());
                        let report = Report::Tasks { stamp, term, round, tasks };
                        replies.push(ToServer::Report(Box::new(report)));
                    }
                    ToAgent::Order { order: Order::Run(task), .. } => {
                        let arrivals = shared.arrivals.lock();
                        let mut arrivals = arrivals.map_err(|_| std::io::Error::other("lost"))?;
                        arrivals.entry(task.spec.name.to_string()).or_insert_with(Instant::now);
                    }
                    _ => {}
                }
            }
            for reply in replies {
                stream.write_all(&encode(&reply).map_err(std::io::Error::other)?).await?;
            }
        }
    }
}
