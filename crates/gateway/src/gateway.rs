//! `gpool gateway`: the process of a service, which `gpool serve` submits as a job.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;
use gpool_client::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::driver::Driver;
use crate::failure::invalid;
use crate::proxy::request::Proxy;
use crate::proxy::table::Table;
use crate::proxy::{listener, probe};
use crate::service::{Folder, Service};

/// The verb.
pub const VERB: &str = "gateway";
/// The niceness of the driver.
const NICE: i32 = 10;
/// The pause between two rounds of the driver.
const ROUND: Duration = Duration::from_millis(200);
/// The pause after an error, and between attempts to listen on a port in use.
const PAUSE: Duration = Duration::from_secs(1);

/// The arguments of the gateway.
#[derive(Debug, Clone, Args)]
pub struct GatewayArgs {
    /// Folder of the service
    folder: PathBuf,
}

/// Runs until the job is ended.
///
/// # Errors
/// The service can't be read, its certificate can't be used, or no server answers.
pub fn run(args: &GatewayArgs, session: &Session) -> Result {
    let folder = Folder::at(args.folder.clone());
    let service = folder.service().map_err(|error| {
        invalid(format!("can't read the service in {}: {error}", folder.path().display()))
    })?;
    let client = session.client()?;
    let patient = session.listener()?;
    let table = Table::new(service.requests, service.canary);
    let is_stopped = Arc::new(AtomicBool::new(false));
    let driver = Driver::new(patient.clone(), folder, service.clone(), table.clone());
    let (wake, woken) = channel();
    let watched: Arc<Mutex<Vec<String>>> = Arc::default();
    let events = watched.clone();
    thread::spawn(move || watch_events(&patient, &events, &wake));
    let (stopped, url) = (is_stopped.clone(), service.url(&shown_host(&service)));
    thread::spawn(move || drive(driver, &woken, &watched, &stopped, &url));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| invalid(format!("can't start: {error}")))?;
    runtime.block_on(serve(&service, table, client, &is_stopped))
}

/// The name of this machine for users of the service.
#[must_use]
pub fn shown_host(service: &Service) -> String {
    let bind = service.entrance.bind;
    if bind.is_unspecified() {
        return rustix::system::uname().nodename().to_string_lossy().into_owned();
    }
    match bind {
        std::net::IpAddr::V4(bind) => bind.to_string(),
        std::net::IpAddr::V6(bind) => format!("[{bind}]"),
    }
}

/// Serves requests until SIGTERM, then lets those in flight end.
async fn serve(
    service: &Service,
    table: Arc<Table>,
    client: Client,
    is_stopped: &AtomicBool,
) -> Result {
    let entrance = &service.entrance;
    let tls = entrance.tls.as_ref().map(listener::acceptor).transpose();
    let tls = tls.map_err(|error| invalid(error.to_string()))?;
    let failed = |error: std::io::Error| invalid(format!("can't wait for signals: {error}"));
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(probe::run(table.clone(), client.clone(), service.replicas.ready.clone()));
    let proxy = Arc::new(Proxy { table, client });
    let address = SocketAddr::new(entrance.bind, entrance.port);
    tokio::spawn(async move {
        let listening = listen(address).await;
        println!("listens on {address}");
        listener::run(listening, tls, proxy, stopping).await;
    });
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    is_stopped.store(true, Ordering::Relaxed);
    let _ = stop.send(true);
    // Each connection has a receiver.
    let drain = Duration::from_millis(service.replicas.drain_ms);
    let _ = tokio::time::timeout(drain, stop.closed()).await;
    Ok(Exit::OK)
}

/// Listens; a port in use may become free, as that of a gateway that just ends.
async fn listen(address: SocketAddr) -> TcpListener {
    let mut is_noted = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if !is_noted => {
                eprintln!("can't listen on {address}: {error}; trying again");
                is_noted = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Wakes the driver when a job of the service changes.
fn watch_events(client: &Client, watched: &Mutex<Vec<String>>, wake: &Sender<()>) {
    loop {
        for event in client.events(None).into_iter().flatten() {
            let Ok(event) = event else { break };
            let jobs = watched.lock().unwrap_or_else(PoisonError::into_inner);
            let is_ours = jobs.iter().any(|job| event.kind.may_concern(job));
            drop(jobs);
            if is_ours && wake.send(()).is_err() {
                return;
            }
        }
        thread::sleep(PAUSE);
    }
}

/// Runs the driver until the gateway is stopped.
fn drive(
    mut driver: Driver,
    woken: &Receiver<()>,
    watched: &Mutex<Vec<String>>,
    is_stopped: &AtomicBool,
    url: &str,
) {
    // Requests come first: their thread has a core when it needs one. Without a process, this is
    // about the calling thread.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut is_changed = true;
    while !is_stopped.load(Ordering::Relaxed) {
        driver.reload();
        match driver.round(is_changed) {
            Ok(_) => {}
            Err(error) => {
                driver.journal.add(format!("can't go on: {error}"));
                thread::sleep(PAUSE);
            }
        }
        *watched.lock().unwrap_or_else(PoisonError::into_inner) = driver.jobs();
        driver.report(url);
        is_changed = match woken.recv_timeout(ROUND) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(ROUND);
                false
            }
        };
        while woken.try_recv().is_ok() {}
    }
}
