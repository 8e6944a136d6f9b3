//! Forwards a connection to a port or socket of the task. A process with the task's user and
//! control group makes the connection, so it has no more rights than the task and ends with it.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use gpool_model::attach::ForwardTo;
use gpool_sys::{child, listen, privilege, signal};

pub(super) enum ForwardAddress {
    V4(u16),
    V6(u16),
    Socket(String),
}

/// Finds the address. If the task does not listen on the port, returns the ports that it listens
/// on. The permissions of a socket decide who can connect to it.
pub(super) fn find(to: &ForwardTo) -> Result<ForwardAddress, Vec<u16>> {
    let port = match to {
        ForwardTo::Socket(path) => return Ok(ForwardAddress::Socket(path.clone())),
        ForwardTo::Port(port) => *port,
    };
    let mut open = listen::below(std::process::id());
    match open.iter().find(|it| it.port == port) {
        Some(found) if found.is_v4 => Ok(ForwardAddress::V4(port)),
        Some(_) => Ok(ForwardAddress::V6(port)),
        None => {
            open.sort_unstable_by_key(|it| it.port);
            let mut ports: Vec<u16> = open.iter().map(|it| it.port).collect();
            ports.dedup();
            Err(ports)
        }
    }
}

/// Connects, and copies bytes in both directions until both end. Runs in a separate process.
pub(super) fn carry(place: &ForwardAddress, line: &OwnedFd) -> Result<Infallible, String> {
    let failed = |error: std::io::Error| error.to_string();
    // This process belongs to the task's user, who can inspect it: close all the shepherd's
    // descriptors.
    child::place(line.as_fd(), 0).map_err(failed)?;
    privilege::close_from(1);
    signal::ignore(rustix::process::Signal::PIPE.as_raw());
    let line = rustix::io::dup(rustix::stdio::stdin()).map_err(|error| error.to_string())?;
    let line = UnixStream::from(line);
    match place {
        ForwardAddress::V4(port) => both(line, TcpStream::connect((Ipv4Addr::LOCALHOST, *port))),
        ForwardAddress::V6(port) => both(line, TcpStream::connect((Ipv6Addr::LOCALHOST, *port))),
        ForwardAddress::Socket(path) => both(line, UnixStream::connect(path)),
    }
    .map_err(failed)?;
    child::end(0)
}

/// A stream that can be closed in each direction.
trait TwoWay: Read + Write + Send + Sized + 'static {
    fn twin(&self) -> std::io::Result<Self>;
    fn end(&self);
}

impl TwoWay for UnixStream {
    fn twin(&self) -> std::io::Result<Self> {
        self.try_clone()
    }
    fn end(&self) {
        // The other end may already be closed.
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
    // An error ends the stream too.
    let _ = std::io::copy(&mut from, &mut to);
    to.end();
}
