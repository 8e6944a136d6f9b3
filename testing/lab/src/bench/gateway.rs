//! The gateway of a service beside nginx and without any: times at a steady rate, and lost requests
//! while replicas are added, removed, updated and killed.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpool_cli::cluster::{Cluster, PATIENCE};
use gpool_cli::failure::{Failure, Result};
use gpool_cli::program;
use gpool_client::JobsQuery;
use gpool_model::{JobVerb, SignalTo};
use gpool_wire::Job;

use rustix::process::{Pid, Signal, kill_process};

use super::figure::{Figure, Ranked};
use super::http::{self, CLIENTS, Steady};
use super::{Options, failed};

const DEVICES: &str = "sim:8xH100-80G";
/// Requests in a second.
const RATE: u32 = 1000;
/// The service.
const NAME: &str = "bench";
/// The service for a step of the load.
const STEP: &str = "step";
/// Length of a round, and of the pause before the first.
const ROUND: Duration = Duration::from_secs(3);
const KILL: i32 = 9;

/// Measures times and losses.
///
/// # Errors
/// The service does not start.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(DEVICES)?;
    let (backend, port) = (free_port()?, free_port()?);
    let backend_process = Ended(spawn_server(backend)?);
    let nginx = Nginx::start(cluster.folder(), backend)?;
    serve(&cluster, NAME, &["--replicas=1", &format!("--port={port}")])?;
    until_answers(port)?;
    let mut ways = vec![("direct", backend), ("gateway", port)];
    ways.extend(nginx.as_ref().map(|it| ("nginx", it.port)));
    let mut figures = times(&ways, options.gateway_rounds)?;
    if nginx.is_none() {
        figures.push(Figure::new("gateway_nginx", "no nginx in PATH: skipped", 0.0, ""));
    }
    drop((nginx, backend_process));
    figures.extend(losses(&cluster, port, options.gateway_changes)?);
    gpool(&cluster, &["serve", "remove", NAME])?;
    figures.extend(step(&cluster, free_port()?)?);
    cluster.end()?;
    Ok(figures)
}

/// A process that ends with its value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // nginx ends its worker only if it can.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    bound.map(|it| it.port()).map_err(|error| failed(format!("no free port: {error}")))
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| failed(format!("no path of this program: {error}")))
}

fn spawn_server(port: u16) -> Result<Child> {
    Command::new(this_program()?)
        .args([http::SERVER_ARGUMENT, &port.to_string()])
        .spawn()
        .map_err(|error| failed(format!("can't start the server: {error}")))
}

/// nginx as a proxy with one worker, as the gateway has one thread.
struct Nginx {
    port: u16,
    _process: Ended,
}

impl Nginx {
    fn start(folder: &Path, backend: u16) -> Result<Option<Self>> {
        let path = Path::new("/usr/sbin/nginx");
        let found = program::find("nginx").or_else(|| path.is_file().then(|| path.into()));
        let Some(nginx) = found else { return Ok(None) };
        let port = free_port()?;
        let root = folder.join("nginx");
        let text = format!(
            "daemon off; worker_processes 1; pid {0}/pid; error_log stderr crit;\nevents {{}}\n\
             http {{ access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b;\n\
             fastcgi_temp_path {0}/c; uwsgi_temp_path {0}/d; scgi_temp_path {0}/e;\n\
             upstream up {{ server 127.0.0.1:{backend}; keepalive 256; }}\n\
             server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://up;\n\
             proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_buffering off; }} }} \
             }}\n",
            root.display()
        );
        let written =
            std::fs::create_dir(&root).and_then(|()| std::fs::write(root.join("nginx.conf"), text));
        written.map_err(|error| failed(format!("can't write the settings of nginx: {error}")))?;
        let process = Command::new(nginx)
            .args(["-p".as_ref(), root.as_os_str(), "-c".as_ref()])
            .arg(root.join("nginx.conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(format!("can't start nginx: {error}")))?;
        let process = Ended(process);
        until_answers(port)?;
        Ok(Some(Self { port, _process: process }))
    }
}

/// Runs `gpool serve` with this program as the replica.
fn serve(cluster: &Cluster, name: &str, flags: &[&str]) -> Result<()> {
    let own = this_program()?;
    let mut words: Vec<&str> = vec!["serve", "--name", name, "--gpus=0.5", "--ready=/"];
    words.extend(flags);
    let own = own.to_string_lossy().into_owned();
    words.extend(["--", &own, http::SERVER_ARGUMENT, "{port}"]);
    gpool(cluster, &words)
}

fn gpool(cluster: &Cluster, words: &[&str]) -> Result<()> {
    let program = super::gpool()?;
    let ran = Command::new(program)
        .args(words)
        .env("GPOOL_SOCKET", cluster.socket())
        .env("XDG_DATA_HOME", cluster.folder())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(format!("can't run gpool: {error}")))?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&ran.stderr).into_owned())),
    }
}

fn until_answers(port: u16) -> Result<()> {
    until("an answer", || http::ask_once(port).is_ok())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > end {
            return Err(failed(format!("there was not {what} within {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Times of all ways, in turns, so that a busy moment of the machine meets each of them.
fn times(ways: &[(&'static str, u16)], n_rounds: u32) -> Result<Vec<Figure>> {
    let mut rounds: Vec<Vec<(f64, f64)>> = vec![Vec::new(); ways.len()];
    let mut n_failed = 0;
    for _ in 0..n_rounds.max(1) {
        for ((_, port), rounds) in ways.iter().zip(&mut rounds) {
            let round = http::steady(Steady { port: *port, rate: RATE, span: ROUND })?;
            n_failed += round.n_failed;
            let ranked = Ranked::of(round.ms);
            rounds.push((ranked.percentile(50), ranked.percentile(99)));
        }
    }
    let middle = |of: fn(&(f64, f64)) -> f64, rounds: &[(f64, f64)]| {
        Ranked::of(rounds.iter().map(of).collect()).percentile(50)
    };
    let mut figures = Vec::new();
    let (p50_direct, p99_direct) = (middle(|it| it.0, &rounds[0]), middle(|it| it.1, &rounds[0]));
    for ((way, _), rounds) in ways.iter().zip(&rounds) {
        let (p50, p99) = (middle(|it| it.0, rounds), middle(|it| it.1, rounds));
        let what = format!("{way}: p50 at {RATE} requests/s, {CLIENTS} connections");
        figures.push(Figure::new(name_of(way, false), what, p50, "ms"));
        figures.push(Figure::new(name_of(way, true), format!("{way}: p99"), p99, "ms"));
        if *way == "direct" {
            continue;
        }
        let added = |name, what: &str, value| {
            Figure::new(name, format!("{way}: added {what}"), value, "ms")
        };
        let is_gateway = *way == "gateway";
        let p50 = added(
            if is_gateway { "gateway_added_p50" } else { "nginx_added_p50" },
            "p50",
            p50 - p50_direct,
        );
        let p99 = added(
            if is_gateway { "gateway_added_p99" } else { "nginx_added_p99" },
            "p99",
            p99 - p99_direct,
        );
        match is_gateway {
            true => figures.extend([p50.below(0.2), p99.below(1.0)]),
            false => figures.extend([p50, p99]),
        }
    }
    figures.push(
        Figure::new("gateway_errors", "failed requests at this rate", f64::from(n_failed), "")
            .exactly(0.0),
    );
    Ok(figures)
}

fn name_of(way: &str, is_p99: bool) -> &'static str {
    match (way, is_p99) {
        ("direct", false) => "gateway_direct_p50",
        ("direct", true) => "gateway_direct_p99",
        ("nginx", false) => "gateway_nginx_p50",
        ("nginx", true) => "gateway_nginx_p99",
        (_, false) => "gateway_p50",
        (_, true) => "gateway_p99",
    }
}

/// Requests that fail while the service changes.
fn losses(cluster: &Cluster, port: u16, n_changes: u32) -> Result<Vec<Figure>> {
    gpool(cluster, &["serve", "scale", NAME, "--replicas=3", "--cooldown=0s"])?;
    until_size(cluster, NAME, 3)?;
    let is_over = AtomicBool::new(false);
    let (lost, changed, took) = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..8).map(|_| scope.spawn(|| http::again_and_again(port, &is_over))).collect();
        let since = Instant::now();
        let changed = (0..n_changes).try_for_each(|n| change(cluster, port, n));
        let took = since.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let done = clients.into_iter().map(|it| it.join().unwrap_or_default());
        let lost = done.fold((0, 0), |sum, it| (sum.0 + it.n_answers, sum.1 + it.n_failed));
        (lost, changed, took)
    });
    changed?;
    let (n_answers, n_failed) = lost;
    let what = format!(
        "requests lost of {n_answers}, over {n_changes} scale-downs, updates and kills ({:.0} s)",
        took.as_secs_f64()
    );
    Ok(vec![Figure::new("gateway_lost", what, f64::from(n_failed), "").exactly(0.0)])
}

/// One change: a scale-down and back, an update, or a killed replica.
fn change(cluster: &Cluster, port: u16, n: u32) -> Result<()> {
    match n % 3 {
        0 => {
            gpool(cluster, &["serve", "scale", NAME, "--replicas=2"])?;
            until_size(cluster, NAME, 2)?;
            gpool(cluster, &["serve", "scale", NAME, "--replicas=3"])?;
        }
        1 => {
            let before = ids(cluster, NAME)?;
            serve(cluster, NAME, &[&format!("--port={port}"), &format!("--env=ROUND={n}")])?;
            until("an update", || {
                ids(cluster, NAME).is_ok_and(|now| !now.iter().any(|id| before.contains(id)))
            })?;
        }
        _ => {
            let id = ids(cluster, NAME)?.into_iter().next().unwrap_or_default();
            let kill = JobVerb::Signal { signal: KILL, to: SignalTo::Job };
            cluster.client().act(kill, std::slice::from_ref(&id)).map_err(Failure::from)?;
            until("its end", || ids(cluster, NAME).is_ok_and(|now| !now.contains(&id)))?;
        }
    }
    until_size(cluster, NAME, 3)
}

/// The times from a step of the load, from that of one replica to that of four, until the fourth
/// replica is submitted and until it is ready.
fn step(cluster: &Cluster, port: u16) -> Result<Vec<Figure>> {
    let load = ["--scale-by=rate", "--target=100", "--replicas=1..4"];
    serve(cluster, STEP, &[&load[..], &[&format!("--port={port}")]].concat())?;
    until_size(cluster, STEP, 1)?;
    http::steady(Steady { port, rate: 90, span: 2 * ROUND })?;
    let (submitted, ready, n_failed) = std::thread::scope(|scope| {
        let since = Instant::now();
        let load = scope.spawn(|| http::steady(Steady { port, rate: 380, span: 4 * ROUND }));
        let submitted = until("four replicas", || ids(cluster, STEP).is_ok_and(|it| it.len() == 4))
            .map(|()| since.elapsed());
        let ready = until_size(cluster, STEP, 4).map(|()| since.elapsed());
        let n_failed =
            load.join().map_err(|_| failed("the load ended early".to_owned()))??.n_failed;
        Ok::<_, Failure>((submitted?, ready?, n_failed))
    })?;
    Ok(vec![
        Figure::new(
            "gateway_step",
            "4 times the load at once: until all replicas are submitted",
            submitted.as_secs_f64(),
            "s",
        )
        .below(5.0),
        Figure::new("gateway_step_ready", "until they are ready", ready.as_secs_f64(), "s"),
        Figure::new("gateway_step_errors", "failed requests", f64::from(n_failed), "").exactly(0.0),
    ])
}

/// The running replicas.
fn ids(cluster: &Cluster, name: &str) -> Result<Vec<String>> {
    let query = JobsQuery { group: Some(name.to_owned()), ..JobsQuery::default() };
    let jobs = cluster.client().every_job(query).collect::<std::result::Result<Vec<Job>, _>>();
    let jobs = jobs.map_err(Failure::from)?.into_iter();
    let is_replica = |job: &Job| {
        let group = job.request.group.as_deref().unwrap_or_default();
        group.contains("/replica/") && !job.state.is_end()
    };
    Ok(jobs.filter(is_replica).map(|job| job.id).collect())
}

/// Waits until the gateway reports this number of replicas, all ready.
fn until_size(cluster: &Cluster, name: &str, n: usize) -> Result<()> {
    let path = cluster.folder().join("gpool/services").join(name).join("status.json");
    let running = until("the new size", || {
        let text = std::fs::read(&path).unwrap_or_default();
        let status: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let replicas = status["replicas"].as_array().cloned().unwrap_or_default();
        let jobs = ids(cluster, name).unwrap_or_default();
        let is_there = |it: &serde_json::Value| {
            it["stage"] == "ready" && jobs.iter().any(|id| it["job"] == id.as_str())
        };
        replicas.len() == n && jobs.len() == n && replicas.iter().all(is_there)
    });
    let _ = std::io::stderr().flush();
    running
}
