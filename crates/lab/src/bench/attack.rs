//! Measures how a flood of one user's requests slows down another user: each route of the API in
//! turn on many connections, and pages of the loopback address that need no sign-in.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gpool_cli::failure::{Failure, Result};
use gpool_wire::UserCapsPatch;
use serde_json::Value;

use super::crowd::submissions;
use super::faults::become_user;
use super::figure::{Figure, Ranked};
use super::load::{Ask, Connection};
use super::pending::{hold_all, lines};
use super::process::memory_of;
use super::{Options, failed};

/// Connections of the flood. One user may have 256 of the socket.
const CONNECTIONS: u32 = 240;
/// A user ID without an account.
const UID: u32 = 1_900_000_001;
/// The limits: of the ratio to the time alone, of the time above it, of memory, and of what one
/// user stores in an hour.
const RATIO_MAX: f64 = 10.0;
const MORE_MS_MAX: f64 = 100.0;
const MEMORY_MB_MAX: f64 = 500.0;
const STORED_MB_MAX: f64 = 100.0;
/// The figures show this number of routes, the slowest first.
const N_SLOWEST: usize = 8;

/// One kind of request.
struct Flood {
    name: String,
    request: &'static str,
    /// The port of the loopback address; `None` is the socket.
    port: Option<u16>,
}

/// The times beside one flood.
struct Measurement {
    name: String,
    /// The other user's submissions.
    submissions: Ranked,
    n_answers: u64,
}

/// Fills the queue, and times submissions alone and beside each flood.
///
/// # Errors
/// The server refuses a submission, or a connection is lost.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(&options.devices)?;
    hold_all(&cluster)?;
    let lines = lines(options.pending);
    let mut lines = std::io::Cursor::new(lines.into_bytes());
    cluster.client().submit_many(&mut lines, None).map_err(Failure::from)?;
    // Jobs that run would use the processors, too.
    let one_job = UserCapsPatch { running_jobs: Some(Some(1)), ..UserCapsPatch::default() };
    cluster.client().limit_user(&UID.to_string(), &one_job).map_err(Failure::from)?;
    let (socket, n) = (cluster.socket(), options.starts.clamp(10, 100));
    submissions(socket, n)?;
    let alone = submissions(socket, n)?;
    let memory_before = memory_of(cluster.server_pid());
    let mut most_memory = memory_before;
    let (stored_before, began) = (stored(cluster.folder()), Instant::now());
    let mut all = Vec::new();
    let floods = floods(&cluster)?;
    let step = floods.len().div_ceil(options.floods as usize).max(1);
    for flood in floods.into_iter().step_by(step) {
        let measurement = submissions_during(socket, flood, n)?;
        most_memory = most_memory.max(memory_of(cluster.server_pid()));
        all.push(measurement);
    }
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let stored_mb = mb(stored(cluster.folder()).saturating_sub(stored_before));
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    cluster.end()?;
    Ok(figures(&alone, all, n, (mb(most_memory), stored_mb, minutes)))
}

fn figures(
    alone: &Ranked,
    mut all: Vec<Measurement>,
    n: u32,
    (memory_mb, stored_mb, minutes): (f64, f64, f64),
) -> Vec<Figure> {
    let p99 = |it: &Ranked| it.percentile(99);
    all.sort_by(|one, other| p99(&other.submissions).total_cmp(&p99(&one.submissions)));
    let worst = all.first().map_or(0.0, |it| p99(&it.submissions));
    let users = match rustix::process::geteuid().is_root() {
        true => "another user",
        false => "the same user (only root can be others)",
    };
    let n_answers: u64 = all.iter().map(|it| it.n_answers).sum();
    let with = format!("{users} on {CONNECTIONS} connections, {n_answers} answers");
    let what = format!("the slowest of {} floods by {with}: p99", all.len());
    let mut figures = vec![
        Figure::new(
            "attack_alone_p50_ms",
            "a durable submission alone, p50",
            alone.percentile(50),
            "ms",
        ),
        Figure::new("attack_alone_p99_ms", format!("alone, p99 of {n}"), p99(alone), "ms"),
        Figure::new("attack_p99_ms", what, worst, "ms"),
        Figure::new("attack_ratio", "that, divided by p99 alone", worst / p99(alone), "×")
            .below(RATIO_MAX),
        Figure::new("attack_more_ms", "that, above p99 alone", worst - p99(alone), "ms")
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
    let shown = all.iter().take(N_SLOWEST);
    figures.extend(shown.map(|it| {
        let what = format!("beside {} ({} answers), p99", it.name, it.n_answers);
        Figure::new("attack_route_p99_ms", what, p99(&it.submissions), "ms")
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

/// Each route of the API with the example of its body, and pages without a sign-in.
fn floods(cluster: &gpool_cli::cluster::Cluster) -> Result<Vec<Flood>> {
    let mut connection = Connection::open(cluster.socket()).map_err(|it| failed(it.to_string()))?;
    let ask = Ask::Raw("GET /openapi.json HTTP/1.1\r\nhost: gpool\r\n\r\n");
    connection.ask(ask, "", 0).map_err(|it| failed(it.to_string()))?;
    let document: Value = serde_json::from_slice(connection.answer())
        .map_err(|it| failed(format!("the API's document: {it}")))?;
    let mut floods = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        // These have no end, or need a connection.
        if ["/api/v1/events", "/attach", "/exec", "/forward"].iter().any(|it| path.ends_with(it)) {
            continue;
        }
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let method = method.to_uppercase();
            floods.push(Flood {
                request: request(&method, path, operation),
                name: format!("{method} {path}"),
                port: None,
            });
        }
    }
    let status = cluster.client().status().map_err(Failure::from)?;
    let port = status.web.as_deref().and_then(|it| it.trim_end_matches('/').rsplit_once(':'));
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    for path in ["/metrics", "/wall", "/", "/login/0", "/openapi.json", "/assets/style.css"] {
        let Some(port) = port else { break };
        let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
        // Until this program ends.
        let request: &'static str = request.leak();
        floods.push(Flood {
            name: format!("without sign-in: GET {path}"),
            request,
            port: Some(port),
        });
    }
    Ok(floods)
}

fn request(method: &str, path: &str, operation: &Value) -> &'static str {
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
    let text = format!(
        "{method} {path} HTTP/1.1\r\nhost: gpool\r\n{kind}content-length: {length}\r\n\r\n{body}"
    );
    // Until this program ends.
    text.leak()
}

/// Times submissions while another user sends a request on many connections without a pause.
fn submissions_during(socket: &Path, flood: Flood, n: u32) -> Result<Measurement> {
    let uid = rustix::process::geteuid().is_root().then_some(UID);
    let (is_over, n_answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let send = || -> Result<()> {
        become_user(uid)?;
        while !is_over.load(Ordering::Relaxed) {
            // A connection above a limit is refused or closed, and tried again.
            let sent = match flood.port {
                None => over_socket(socket, flood.request, &is_over, &n_answers),
                Some(port) => over_loopback(port, flood.request, &is_over, &n_answers),
            };
            if sent.is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    };
    let submissions = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(send)).collect();
        while n_answers.load(Ordering::Relaxed) < u64::from(CONNECTIONS) / 4 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let measured = submissions(socket, n);
        is_over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.join().unwrap_or_else(|_| Err(failed("a sender panicked")))?;
        }
        measured
    })?;
    let n_answers = n_answers.into_inner();
    Ok(Measurement { name: flood.name, submissions, n_answers })
}

fn over_socket(
    socket: &Path,
    request: &'static str,
    is_over: &AtomicBool,
    n_answers: &AtomicU64,
) -> std::io::Result<()> {
    let mut connection = Connection::open(socket)?;
    while !is_over.load(Ordering::Relaxed) {
        let asked = connection.ask(Ask::Raw(request), "", 0);
        n_answers.fetch_add(1, Ordering::Relaxed);
        asked?;
    }
    Ok(())
}

/// The same on the loopback address, where answers have a length.
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
