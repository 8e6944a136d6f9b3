//! `gpool forward`: forwards local ports to ports of a job.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::str::FromStr;

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::reference::Reference;
use gpool_cli::render::json;
use gpool_cli::resolve;
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_wire::ForwardToJob;
use serde_json::json;

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Only ports on which the job's own processes listen can be forwarded. Other \
    users of this machine can reach the local port too, until the job ends or you press Ctrl-C."
)]
pub struct ForwardArgs {
    /// Job to forward to, e.g. 1842, a name or @ (your newest)
    #[arg(value_name = "JOB")]
    job: Reference,
    /// Rank of the task, for a job with several tasks
    #[arg(long, value_name = "RANK")]
    rank: Option<u32>,
    /// Port or socket of the job, after an optional local port (0 is any free port)
    #[arg(value_name = "[LOCAL:]PORT", required = true)]
    ports: Vec<Forwarded>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// The port on this machine; `None` for the same port as in the job.
    pub local: Option<u16>,
    /// The port or socket of the job.
    pub to: ForwardToJob,
}

impl FromStr for Forwarded {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let bad = || format!("{text:?} is not a port: write 8888, 9000:8888 or 9000:/tmp/app.sock");
        let (local, to) = match text.split_once(':') {
            Some((local, to)) => (Some(local.parse().map_err(|_| bad())?), to),
            None => (None, text),
        };
        let to = if to.starts_with('/') {
            ForwardToJob { socket: Some(to.to_owned()), ..ForwardToJob::default() }
        } else {
            let port: u16 = to.parse().map_err(|_| bad())?;
            if port == 0 {
                return Err(bad());
            }
            ForwardToJob { port: Some(port), ..ForwardToJob::default() }
        };
        Ok(Self { local, to })
    }
}

impl Forwarded {
    fn name(&self) -> String {
        match (&self.to.port, &self.to.socket) {
            (Some(port), _) => format!("port {port}"),
            (None, socket) => socket.clone().unwrap_or_default(),
        }
    }

    /// Listens on the local port; by default the job's port, or any free one if it is taken.
    fn listen(&self) -> Result<Vec<TcpListener>> {
        let bound = match self.local {
            Some(local) => at(local),
            None => at(self.to.port.unwrap_or(0)).or_else(|_| at(0)),
        };
        bound.map_err(|error| {
            let local = self.local.unwrap_or(0);
            Failure::new(errors::PORT_TAKEN, format!("can't listen on port {local}: {error}"))
                .tip(format!("0:{}    (any free port)", self.to.port.unwrap_or(0)))
        })
    }
}

/// Listens on a port of `127.0.0.1`, and of `::1` where the machine has it: `localhost` is either,
/// and another user's program must not answer there.
fn at(port: u16) -> io::Result<Vec<TcpListener>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let port = listener.local_addr()?.port();
    match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
        Ok(other) => Ok(vec![listener, other]),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => Ok(vec![listener]),
    }
}

/// Runs the verb.
///
/// # Errors
/// The job does not run, no process of it listens there, or a local port is taken.
pub fn run(args: &ForwardArgs, session: &Session) -> Result {
    let client = session.client()?;
    let (id, _) = resolve::one(&client, &args.job, session.me())?;
    let mut listeners = Vec::new();
    for port in &args.ports {
        let mut port = port.clone();
        port.to.rank = args.rank;
        // Fails now and not at the first connection.
        drop(client.forward(&id, &port.to)?);
        listeners.push((port.listen()?, port));
    }
    let mut locals = Vec::new();
    for (listeners, port) in listeners {
        let local = listeners[0].local_addr().map_or(0, |address| address.port());
        if port.local.is_none() && port.to.port.is_some_and(|it| it != local) {
            session.screen.note(&format!("note: port {} is taken here", port.to.port.unwrap_or(0)));
        }
        if session.global.json {
            locals.push(json!({"local": local, "port": port.to.port, "socket": port.to.socket}));
        } else {
            session
                .screen
                .data(&format!("http://127.0.0.1:{local}  job {id}, {}\n", port.name()))?;
        }
        for listener in listeners {
            accept(listener, client.clone(), id.clone(), port.to.clone());
        }
    }
    if session.global.json {
        session.screen.data(&json::list(&locals))?;
    }
    session.screen.note("until the job ends or you press Ctrl-C.");
    until_ended(&session.patient(client), &id)?;
    session.screen.note(&format!("job {id} has ended"));
    Ok(Exit::OK)
}

fn until_ended(client: &Client, id: &str) -> Result<()> {
    let events = client.events(None)?;
    let has_ended = || Ok::<_, Failure>(client.job(id)?.state.is_end());
    if has_ended()? {
        return Ok(());
    }
    for event in events {
        if event?.kind.may_concern(id) && has_ended()? {
            return Ok(());
        }
    }
    Ok(())
}

/// Accepts connections until this program ends.
fn accept(listener: TcpListener, client: Client, id: String, to: ForwardToJob) {
    std::thread::spawn(move || {
        for here in listener.incoming().flatten() {
            let (client, id, to) = (client.clone(), id.clone(), to.clone());
            std::thread::spawn(move || {
                // If the job can't be reached, the connection is closed.
                if let Ok(line) = client.forward(&id, &to) {
                    carry(here, line.stream, &line.early);
                }
            });
        }
    });
}

fn carry(mut here: TcpStream, there: UnixStream, early: &[u8]) {
    let (Ok(mut from_here), Ok(mut to_there)) = (here.try_clone(), there.try_clone()) else {
        return;
    };
    let upwards = std::thread::spawn(move || {
        let _ = io::copy(&mut from_here, &mut to_there);
        let _ = to_there.shutdown(Shutdown::Write);
    });
    let mut there = there;
    if here.write_all(early).is_ok() {
        let _ = io::copy(&mut there, &mut here);
    }
    let _ = here.shutdown(Shutdown::Write);
    let _ = upwards.join();
}
