//! Measures how a flood of one user's requests slows down another user: each route of the API in
//! turn on many connections, on the socket and over the network with a token; pages that need no
//! sign-in; and connections without a request.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gpool_cli::cluster::Cluster;
use gpool_cli::failure::{Failure, Result};
use gpool_client::{Address, Client, Remote, Trust};
use gpool_wire::{Scope, TokenCreate, UserCapsPatch};
use serde_json::Value;

use super::faults::become_user;
use super::figure::{Figure, Ranked};
use super::load::{Ask, Connection};
use super::pending::{hold_all, lines};
use super::process::memory_of;
use super::{Options, failed};

/// Connections of the flood. One user may have 256 of the socket.
const CONNECTIONS: u32 = 240;
/// Connections of a flood over the network. Its encryption takes the processors of the server too.
const CONNECTIONS_ENCRYPTED: u32 = 32;
/// Threads that connect and close.
const CONNECTORS: u32 = 3;
/// A user ID without an account.
const UID: u32 = 1_900_000_001;
/// The limits: of the ratio to the time alone, of the time above it, of memory, and of what one
/// user stores in an hour.
const RATIO_MAX: f64 = 10.0;
const MORE_MS_MAX: f64 = 100.0;
const MEMORY_MB_MAX: f64 = 500.0;
const STORED_MB_MAX: f64 = 100.0;
/// The slowest floods of a first pass are measured again, with more submissions: among hundreds of
/// floods some are slow by chance.
const N_SLOWEST: usize = 8;
/// The submissions of the second pass, and of the time alone, as a multiple of those of the first.
const SECOND_PASS: u32 = 5;
/// How long the first answers to a flood may take.
const FIRST_ANSWERS: Duration = Duration::from_secs(60);

/// One kind of request.
struct Flood {
    name: String,
    /// None for connections that are closed at once.
    request: Option<&'static str>,
    way: Way,
}

/// How a flood reaches the server.
#[derive(Clone)]
enum Way {
    Socket(PathBuf),
    Loopback(u16),
    Network(Remote),
}

/// The times beside one flood.
struct Measurement {
    flood: Flood,
    /// The other user's submissions.
    submissions: Ranked,
    n_answers: u64,
}

/// Fills the queue, and times submissions alone and beside each flood.
///
/// # Errors
/// The server refuses a submission, or a connection is lost.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let listen = free_address().map_err(|it| failed(format!("a free port: {it}")))?;
    let cluster = super::cluster_on(&options.devices, Some(listen))?;
    hold_all(&cluster)?;
    let lines = lines(options.pending);
    let mut lines = std::io::Cursor::new(lines.into_bytes());
    cluster.client().submit_many(&mut lines, None).map_err(Failure::from)?;
    // Jobs that run would use the processors, too.
    let one_job = UserCapsPatch { running_jobs: Some(Some(1)), ..UserCapsPatch::default() };
    cluster.client().limit_user(&UID.to_string(), &one_job).map_err(Failure::from)?;
    let (socket, n) = (cluster.socket(), options.starts.clamp(10, 100));
    submissions(socket, n)?;
    let alone = submissions(socket, n * SECOND_PASS)?;
    let memory_before = memory_of(cluster.server_pid());
    let mut most_memory = memory_before;
    let (stored_before, began) = (stored(cluster.folder()), Instant::now());
    let mut beside = |flood, n| -> Result<Measurement> {
        let measurement = submissions_during(socket, flood, n)?;
        most_memory = most_memory.max(memory_of(cluster.server_pid()));
        Ok(measurement)
    };
    let remote = remote(&cluster, listen)?;
    let floods = floods(&cluster, listen, &remote)?;
    let step = floods.len().div_ceil(options.floods as usize).max(1);
    let all = floods.into_iter().step_by(step).map(|flood| beside(flood, n));
    let all = slowest_first(all.collect::<Result<_>>()?);
    let (n_floods, n_answers) = (all.len(), all.iter().map(|it| it.n_answers).sum());
    let slowest = all.into_iter().take(N_SLOWEST).map(|it| beside(it.flood, n * SECOND_PASS));
    let slowest = slowest_first(slowest.collect::<Result<_>>()?);
    // A flood that had ended the token would leave only refusals to measure.
    Client::remote(remote).status().map_err(Failure::from)?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let stored_mb = mb(stored(cluster.folder()).saturating_sub(stored_before));
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    cluster.end()?;
    let (n_alone, memory_mb) = (n * SECOND_PASS, mb(most_memory));
    let total = Total { n_alone, n_floods, n_answers, memory_mb, stored_mb, minutes };
    Ok(figures(&alone, &slowest, &total))
}

fn slowest_first(mut all: Vec<Measurement>) -> Vec<Measurement> {
    all.sort_by(|one, other| other.p99().total_cmp(&one.p99()));
    all
}

/// Totals over all floods.
struct Total {
    n_alone: u32,
    n_floods: usize,
    n_answers: u64,
    memory_mb: f64,
    stored_mb: f64,
    minutes: f64,
}

impl Measurement {
    fn p99(&self) -> f64 {
        self.submissions.percentile(99)
    }
}

fn figures(alone: &Ranked, slowest: &[Measurement], total: &Total) -> Vec<Figure> {
    let Total { n_alone, n_floods, n_answers, memory_mb, stored_mb, minutes } = *total;
    let alone_p99 = alone.percentile(99);
    let worst = slowest.first().map_or(0.0, Measurement::p99);
    let users = match rustix::process::geteuid().is_root() {
        true => "another user",
        false => "the same user (only root can be others)",
    };
    let with = format!("{users}, {n_answers} answers");
    let what = format!("the slowest of {n_floods} floods by {with}: p99");
    let mut figures = vec![
        Figure::new(
            "attack_alone_p50_ms",
            "a durable submission alone, p50",
            alone.percentile(50),
            "ms",
        ),
        Figure::new("attack_alone_p99_ms", format!("alone, p99 of {n_alone}"), alone_p99, "ms"),
        Figure::new("attack_p99_ms", what, worst, "ms"),
        Figure::new("attack_ratio", "that, divided by p99 alone", worst / alone_p99, "×")
            .below(RATIO_MAX),
        Figure::new("attack_more_ms", "that, above p99 alone", worst - alone_p99, "ms")
            .below(MORE_MS_MAX),
        Figure::new("attack_memory_mb", "most memory of the server", memory_mb, "MB")
            .below(MEMORY_MB_MAX),
        Figure::new(
            "attack_stored_mb",
            format!("stored in {minutes:.1} min, by both"),
            stored_mb,
            "MB",
        )
        .below(STORED_MB_MAX),
    ];
    figures.extend(slowest.iter().map(|it| {
        let what = format!("beside {} ({} answers), p99", it.flood.name, it.n_answers);
        Figure::new("attack_route_p99_ms", what, it.p99(), "ms")
    }));
    figures
}

/// The size of all files of a folder on the disk.
fn stored(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => stored(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |it| it.blocks() * 512),
        _ => 0,
    };
    entries.map(size).sum()
}

/// Each route of the API with the example of its body, on the socket and over the network; pages
/// without a sign-in; and connections.
fn floods(cluster: &Cluster, listen: SocketAddr, remote: &Remote) -> Result<Vec<Flood>> {
    let socket = Way::Socket(cluster.socket().to_owned());
    let of_token = format!("host: {listen}\r\nauthorization: Bearer {}\r\n", remote.token);
    let network = Way::Network(remote.clone());
    let status = cluster.client().status().map_err(Failure::from)?;
    let port = status.web.as_deref().and_then(|it| it.trim_end_matches('/').rsplit_once(':'));
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    let loopback = port.map(|port| (Way::Loopback(port), format!("127.0.0.1:{port}")));
    let flood = |name: String, request: Option<String>, way: &Way| {
        // Until this program ends.
        let request = request.map(|text| &*text.leak());
        Flood { name, request, way: way.clone() }
    };
    let mut floods = Vec::new();
    for (method, path, operation) in operations(cluster)? {
        let of = |head: &str| Some(request(&method, &path, head, &operation));
        floods.push(flood(format!("{method} {path}"), of("host: gpool\r\n"), &socket));
        floods.push(flood(format!("with a token: {method} {path}"), of(&of_token), &network));
    }
    let over_network = (network.clone(), listen.to_string());
    for (way, host) in loopback.iter().chain([&over_network]) {
        let from = way.name();
        for path in ["/metrics", "/wall", "/", "/login/0", "/openapi.json", "/assets/style.css"] {
            let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
            let name = format!("without sign-in, {from}: GET {path}");
            floods.push(flood(name, Some(request), way));
        }
    }
    let ways = [&socket, &network].into_iter().chain(loopback.iter().map(|(way, _)| way));
    floods.extend(ways.map(|way| flood(format!("connections, {}", way.name()), None, way)));
    Ok(floods)
}

/// The routes of the API: method, path, and description. Those without an end are left out.
fn operations(cluster: &Cluster) -> Result<Vec<(String, String, Value)>> {
    let mut connection = Connection::open(cluster.socket()).map_err(|it| failed(it.to_string()))?;
    let ask = Ask::Raw("GET /openapi.json HTTP/1.1\r\nhost: gpool\r\n\r\n");
    connection.ask(ask, "", 0).map_err(|it| failed(it.to_string()))?;
    let document: Value = serde_json::from_slice(connection.answer())
        .map_err(|it| failed(format!("the API's document: {it}")))?;
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        if ["/api/v1/events", "/attach", "/exec", "/forward"].iter().any(|it| path.ends_with(it)) {
            continue;
        }
        for (method, operation) in methods.as_object().into_iter().flatten() {
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    Ok(all)
}

/// An address that no other program listens on.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The server on the network, with a token of the flooding user.
fn remote(cluster: &Cluster, listen: SocketAddr) -> Result<Remote> {
    let (scope, expires, user) = (Scope::ProjectAdmin, None, None);
    let wanted = TokenCreate { name: "flood".to_owned(), scope, expires, user };
    let socket = cluster.socket().to_owned();
    let made = std::thread::spawn(move || -> Result<_> {
        become_user(flooder())?;
        Client::at(&socket).create_token(&wanted).map_err(Failure::from)
    });
    let made = made.join().unwrap_or_else(|_| Err(failed("a client panicked")))?;
    let authority = cluster.client().authority().map_err(Failure::from)?;
    let pem = authority.certificate.unwrap_or_default();
    let trust = Trust::read(pem.as_bytes()).map_err(failed)?;
    let address = Address::read(&listen.to_string()).map_err(failed)?;
    Ok(Remote::new(address, made.secret, trust))
}

/// The user of the floods: only root can be another one.
fn flooder() -> Option<u32> {
    rustix::process::geteuid().is_root().then_some(UID)
}

fn request(method: &str, path: &str, head: &str, operation: &Value) -> String {
    let path = path.replace("{id}", "1").replace("{name}", "lab1").replace("{token}", "0");
    let mut content = operation["requestBody"]["content"].as_object().into_iter().flatten();
    let (kind, body) = match content.next() {
        None => (String::new(), String::new()),
        Some((kind, content)) => {
            let text = match &content["example"] {
                Value::String(text) => text.clone(),
                example => example.to_string(),
            };
            (format!("content-type: {kind}\r\n"), text)
        }
    };
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\n{head}{kind}content-length: {length}\r\n\r\n{body}")
}

/// Times submissions, each on a connection of its own, as commands have.
fn submissions(socket: &Path, n: u32) -> Result<Ranked> {
    let run = gpool_client::new_key();
    let once = |nth| -> std::io::Result<f64> {
        let began = Instant::now();
        Connection::open(socket)?.ask(Ask::Submit, &run, nth)?;
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    };
    let times: std::io::Result<Vec<f64>> = (0..n).map(once).collect();
    Ok(Ranked::of(times.map_err(|error| failed(format!("a submission: {error}")))?))
}

/// Times submissions while another user sends a request on many connections without a pause.
fn submissions_during(socket: &Path, flood: Flood, n: u32) -> Result<Measurement> {
    let (is_over, n_answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let n_connections = match (&flood.way, flood.request) {
        (_, None) => CONNECTORS,
        (Way::Network(_), _) => CONNECTIONS_ENCRYPTED,
        _ => CONNECTIONS,
    };
    let send = || -> Result<()> {
        become_user(flooder())?;
        while !is_over.load(Ordering::Relaxed) {
            let sent = match flood.request {
                None => flood.way.connect(&n_answers),
                Some(request) => flood.way.send(request, &is_over, &n_answers),
            };
            // A connection above a limit is refused or closed, and tried again.
            if sent.is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    };
    let submissions = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..n_connections).map(|_| scope.spawn(send)).collect();
        let began = Instant::now();
        let is_flowing =
            || n_answers.load(Ordering::Relaxed) >= u64::from(n_connections.div_ceil(4));
        while !is_flowing() && began.elapsed() < FIRST_ANSWERS {
            std::thread::sleep(Duration::from_millis(1));
        }
        let measured = match is_flowing() {
            true => submissions(socket, n),
            false => Err(failed(format!("no answers to {}", flood.name))),
        };
        is_over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.join().unwrap_or_else(|_| Err(failed("a sender panicked")))?;
        }
        measured
    })?;
    let n_answers = n_answers.into_inner();
    Ok(Measurement { flood, submissions, n_answers })
}

impl Way {
    fn name(&self) -> &'static str {
        match self {
            Self::Socket(_) => "on the socket",
            Self::Loopback(_) => "on the loopback address",
            Self::Network(_) => "over the network",
        }
    }

    /// Connects, over the network with a handshake, and closes the connection.
    fn connect(&self, n_answers: &AtomicU64) -> std::io::Result<()> {
        match self {
            Self::Socket(socket) => drop(Connection::open(socket)?),
            Self::Loopback(port) => drop(TcpStream::connect(("127.0.0.1", *port))?),
            Self::Network(remote) => drop(Client::remote(remote.clone()).vigil().connect()?),
        }
        n_answers.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a request again and again on one connection.
    fn send(
        &self,
        request: &'static str,
        is_over: &AtomicBool,
        n_answers: &AtomicU64,
    ) -> std::io::Result<()> {
        let mut connection = match self {
            Self::Socket(socket) => Connection::open(socket)?,
            Self::Network(remote) => {
                Connection::over(Client::remote(remote.clone()).vigil().connect()?)
            }
            Self::Loopback(port) => return over_loopback(*port, request, is_over, n_answers),
        };
        while !is_over.load(Ordering::Relaxed) {
            let answer = connection.ask(Ask::Raw(request), "", 0);
            n_answers.fetch_add(1, Ordering::Relaxed);
            answer?;
        }
        Ok(())
    }
}

/// Sends a request again and again on the loopback address, where answers have a length.
fn over_loopback(
    port: u16,
    request: &str,
    is_over: &AtomicBool,
    n_answers: &AtomicU64,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port))?);
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(10)))?;
    while !is_over.load(Ordering::Relaxed) {
        stream.get_mut().write_all(request.as_bytes())?;
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                n_answers.fetch_add(1, Ordering::Relaxed);
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if line == "\r\n" {
                break;
            }
            let header = line.to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        std::io::copy(&mut stream.by_ref().take(length), &mut std::io::sink())?;
        n_answers.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
