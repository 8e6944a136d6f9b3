//! A connection to what a process of the task listens on. It is made by a process of the task's
//! user, in the task's control group: so it may do no more than the task itself, and ends with it.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use gpool_model::attach::ForwardTo;
use gpool_sys::{child, listen, privilege, signal};

/// Where one connects to.
pub(super) enum Place {
    V4(u16),
    V6(u16),
    Socket(String),
}

/// Finds where to connect; answers with the ports on which the task listens if it is not one of
/// them. A socket's own permissions say who may connect to it.
pub(super) fn find(to: &ForwardTo) -> Result<Place, Vec<u16>> {
    let port = match to {
        ForwardTo::Socket(path) => return Ok(Place::Socket(path.clone())),
        ForwardTo::Port(port) => *port,
    };
    let mut open = listen::below(std::process::id());
    match open.iter().find(|it| it.port == port) {
        Some(found) if found.is_v4 => Ok(Place::V4(port)),
        Some(_) => Ok(Place::V6(port)),
        None => {
            open.sort_unstable_by_key(|it| it.port);
            let mut ports: Vec<u16> = open.iter().map(|it| it.port).collect();
            ports.dedup();
            Err(ports)
        }
    }
}

/// Connects, and carries bytes both ways until both are at an end. Runs in a process of its own.
pub(super) fn carry(place: &Place, line: &OwnedFd) -> Result<Infallible, String> {
    let failed = |error: std::io::Error| error.to_string();
    // Nothing of the shepherd's is left to a process that the task's user may look into.
    child::place(line.as_fd(), 0).map_err(failed)?;
    privilege::close_from(1);
    signal::ignore(rustix::process::Signal::PIPE.as_raw());
    let line = rustix::io::dup(rustix::stdio::stdin()).map_err(|error| error.to_string())?;
    let line = UnixStream::from(line);
    match place {
        Place::V4(port) => both(line, TcpStream::connect((Ipv4Addr::LOCALHOST, *port))),
        Place::V6(port) => both(line, TcpStream::connect((Ipv6Addr::LOCALHOST, *port))),
        Place::Socket(path) => both(line, UnixStream::connect(path)),
    }
    .map_err(failed)?;
    child::end(0)
}

/// A stream of which each direction can be ended by itself.
trait TwoWay: Read + Write + Send + Sized + 'static {
    fn twin(&self) -> std::io::Result<Self>;
    fn end(&self);
}

impl TwoWay for UnixStream {
    fn twin(&self) -> std::io::Result<Self> {
        self.try_clone()
    }
    fn end(&self) {
        // The other end may have gone.
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl TwoWay for TcpStream {
    fn twin(&self) -> std::io::Result<Self> {
        self.try_clone()
    }
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

fn both<T: TwoWay>(line: UnixStream, there: std::io::Result<T>) -> std::io::Result<()> {
    let there = there?;
    let (line_too, there_too) = (line.twin()?, there.twin()?);
    // This process forks no more, so it may have threads.
    let back = std::thread::spawn(move || copy(there_too, line_too));
    copy(line, there);
    let _ = back.join();
    Ok(())
}

fn copy(mut from: impl TwoWay, mut to: impl TwoWay) {
    // However it ends, there will be no more.
    let _ = std::io::copy(&mut from, &mut to);
    to.end();
}
