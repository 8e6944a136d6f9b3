//! Starts the hosts of a step: in the task of `srun` as a child process, in other tasks through the
//! server. After that they are connected directly.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, ToSocketAddrs as _, UdpSocket,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_client::{Client, Error};
use gpool_model::job::JobState;
use gpool_wire::frame::{Frame, Frames};
use gpool_wire::{ExecInJob, catalogue};

use crate::bridge;
use crate::plan::Host;
use crate::remote::{self, Remote};
use crate::watch::Happening;
use crate::wire::{self, Hello};

/// Interval of attempts while a task is starting.
const LOOK: Duration = Duration::from_millis(50);
/// Number of attempts after which the step fails.
const LOOKS_MAX: u32 = 600;

pub struct SrunLocation {
    /// The job id.
    pub job: String,
    /// The rank of the task in which `srun` runs, if any.
    pub rank: Option<u32>,
}

/// Streams to the started hosts; `None` once they are no longer needed.
#[derive(Clone)]
pub struct HostStreams(Arc<Mutex<Option<Vec<Arc<UnixStream>>>>>);

impl HostStreams {
    fn all(&self) -> MutexGuard<'_, Option<Vec<Arc<UnixStream>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes all streams after every host has connected.
    pub fn close(&self) {
        for line in self.all().take().into_iter().flatten() {
            let _ = line.shutdown(Shutdown::Both);
        }
    }
}

/// Starts the hosts. Each reports itself, or a failure.
pub fn start(
    place: &SrunLocation,
    hosts: &[Host],
    session: &Session,
    tell: &Sender<Happening>,
) -> Result<HostStreams> {
    let token = remote::new_token().map_err(|error| {
        Failure::new(errors::INTERNAL, format!("srun: can't make a token: {error}"))
    })?;
    let name = listen(tell.clone())?;
    let program = program()?;
    let lines = HostStreams(Arc::new(Mutex::new(Some(Vec::new()))));
    let (own, others): (Vec<&Host>, Vec<&Host>) =
        hosts.iter().partition(|host| Some(host.rank) == place.rank);
    for host in own {
        start_here(&program, &name, host, tell)?;
    }
    if others.is_empty() {
        return Ok(lines);
    }
    let client = session.listener()?;
    let addresses = addresses(&client, &others, &token, tell);
    for host in others {
        let words = [program.as_str(), "step-host", &name].map(str::to_owned).into_iter();
        let reached = addresses.get(host.node.as_str()).map(ToString::to_string);
        let command = words.chain([host.rank.to_string()]).chain(reached).collect();
        let (rank, environment) = (Some(host.rank), [(remote::TOKEN.to_owned(), token.clone())]);
        let environment = environment.into();
        let exec = ExecInJob { command, pty: None, directory: None, environment, rank };
        let (client, job) = (client.clone(), place.job.clone());
        let (tell, lines, rank) = (tell.clone(), lines.clone(), host.rank);
        std::thread::spawn(move || {
            if let Err(why) = start_there(&client, &job, &exec, &lines) {
                let _ = tell.send(Happening::NoHost(rank, why));
            }
        });
    }
    Ok(lines)
}

/// Waits for hosts to connect. Returns the name of the socket.
fn listen(tell: Sender<Happening>) -> Result<String> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(errors::INTERNAL, format!("srun: can't listen for its processes: {error}"))
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let name = format!("gpool-srun-{}-{now}", std::process::id());
    let address = wire::address(&name).map_err(|error| failed(&error))?;
    let listener = UnixListener::bind_addr(&address).map_err(|error| failed(&error))?;
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            if !wire::is_trusted(&stream) {
                continue;
            }
            if let Ok(hello) = wire::receive::<Hello>(&stream)
                && tell.send(Happening::Host(hello, stream)).is_err()
            {
                return;
            }
        }
    });
    Ok(name)
}

/// The addresses at which hosts on other machines reach this program, by node; none if all are on
/// this machine.
fn addresses<'h>(
    client: &Client,
    hosts: &[&'h Host],
    token: &str,
    tell: &Sender<Happening>,
) -> BTreeMap<&'h str, SocketAddr> {
    // Without a list of nodes, only this machine can be reached.
    let nodes = client.nodes().map(|nodes| nodes.items).unwrap_or_default();
    let address = |name: &str| nodes.iter().find(|node| node.name == name)?.address.clone();
    let own = |host: &&'h Host| Some((host.node.as_str(), own_address(&address(&host.node)?)?));
    let own: BTreeMap<&str, IpAddr> = hosts.iter().filter_map(own).collect();
    if own.is_empty() {
        return BTreeMap::new();
    }
    let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let mut listeners = any.iter().filter_map(|any| TcpListener::bind((*any, 0)).ok());
    let Some(listener) = listeners.next() else { return BTreeMap::new() };
    let Ok(port) = listener.local_addr().map(|address| address.port()) else {
        return BTreeMap::new();
    };
    let (token, tell) = (token.to_owned(), tell.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (token, tell) = (token.clone(), tell.clone());
            std::thread::spawn(move || {
                // Others may connect too; they do not know the token.
                let remote = Remote::accept(stream, &token);
                drop(remote.and_then(|remote| bridge::at_srun(remote, &tell)));
            });
        }
    });
    own.into_iter().map(|(node, ip)| (node, SocketAddr::new(ip, port))).collect()
}

/// The address of this machine on the way to another one; `None` for the loopback interface.
fn own_address(theirs: &str) -> Option<IpAddr> {
    // No packet is sent: the kernel only chooses a route.
    const DISCARD: u16 = 9;
    let theirs = (theirs, DISCARD).to_socket_addrs().ok()?.next()?;
    let any: IpAddr = match theirs {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(theirs).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback()).then_some(own)
}

/// The path of this program; the file may have been replaced meanwhile.
fn program() -> Result<String> {
    let path = std::env::current_exe().map_err(|error| {
        Failure::new(errors::INTERNAL, format!("can't find the program gpool: {error}"))
    })?;
    let path = path.to_string_lossy();
    Ok(path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned())
}

fn start_here(program: &str, name: &str, host: &Host, tell: &Sender<Happening>) -> Result<()> {
    let mut child = Command::new(program)
        .args(["step-host", name, &host.rank.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Signals of a terminal come through srun.
        .process_group(0)
        .spawn()
        .map_err(|error| {
            Failure::new(errors::INTERNAL, format!("srun: can't run {program}: {error}"))
        })?;
    let (tell, rank) = (tell.clone(), host.rank);
    std::thread::spawn(move || {
        if !child.wait().is_ok_and(|status| status.success()) {
            let _ = tell.send(Happening::NoHost(rank, "it has ended".to_owned()));
        }
    });
    Ok(())
}

/// Starts a host beside a task, and keeps its stream until it is no longer needed. If the server is
/// away, it waits and asks again; a second host for a task is ignored.
fn start_there(
    client: &Client,
    job: &str,
    exec: &ExecInJob,
    lines: &HostStreams,
) -> std::result::Result<(), String> {
    let mut n_looks = LOOKS_MAX;
    loop {
        match client.exec(job, exec) {
            Ok(line) => {
                let stream = Arc::new(line.stream);
                match &mut *lines.all() {
                    None => return Ok(()),
                    Some(all) => all.push(Arc::clone(&stream)),
                }
                if let Some(end) = follow(&stream, &line.early) {
                    return end;
                }
                if lines.all().is_none() {
                    return Ok(());
                }
            }
            Err(Error::Unreachable { .. } | Error::Lost { .. } | Error::TimedOut) => {}
            // The first task may run before the others have started.
            Err(error) if n_looks > 0 && is_too_early(&error, client, job) => {
                n_looks -= 1;
                std::thread::sleep(LOOK);
            }
            Err(error) => return Err(error.problem().detail),
        }
        client.job(job).map_err(|error| error.problem().detail)?;
    }
}

/// Whether a task refused because it has not started yet.
fn is_too_early(error: &Error, client: &Client, job: &str) -> bool {
    let starts = |state| matches!(state, JobState::Starting | JobState::Running);
    error.problem().code == catalogue::WRONG_STATE.to_string()
        && client.job(job).is_ok_and(|found| starts(found.state))
}

/// Reads a stream until its program has ended; `None` if the stream was closed before.
fn follow(stream: &UnixStream, early: &[u8]) -> Option<std::result::Result<(), String>> {
    let mut frames = Frames::default();
    frames.push(early);
    let (mut said, mut buffer) = (Vec::new(), vec![0; 4096]);
    loop {
        while let Ok(Some(frame)) = frames.next_frame() {
            match frame {
                Frame::Errors(bytes) => said.extend(bytes),
                Frame::NotStarted(why) => return Some(Err(why)),
                Frame::Exit(0) => return Some(Ok(())),
                Frame::Exit(_) => {
                    return Some(Err(String::from_utf8_lossy(&said).trim().to_owned()));
                }
                _ => {}
            }
        }
        let mut stream = stream;
        match stream.read(&mut buffer) {
            Ok(n_read @ 1..) => frames.push(&buffer[..n_read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return None,
        }
    }
}
