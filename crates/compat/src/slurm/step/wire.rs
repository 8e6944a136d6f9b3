//! What `srun` and the hosts of a step say to each other: frames of JSON, and file descriptors. It
//! goes over a socket of the same machine, so that neither needs the server once a step runs.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most bytes of one frame; an environment has less.
const FRAME_MAX: usize = 16 << 20;

/// What a host says first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Its rank in the job.
    pub rank: u32,
    /// The GPUs that it sees, by their ids.
    pub gpus: Vec<String>,
}

/// What a host is to start. The descriptors of the processes follow, three for each.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub directory: String,
    /// The environment of `srun`, in base64, as in `/proc/PID/environ`.
    pub environment: String,
    /// For each process its rank in the step, and what it finds in its environment beside that.
    pub processes: Vec<(u32, Vec<(String, String)>)>,
}

/// A later message to a host.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToHost {
    /// Send all of its processes a signal.
    Signal(i32),
}

/// What a host says later.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromHost {
    /// A process has ended with that code, as a shell has it.
    Ended(u32, i32),
    /// A process could not be started.
    NotStarted(u32, String),
}

/// The address of a name, which is not in the file system.
///
/// # Errors
/// The name is too long.
pub fn address(name: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Whether the other end is a process of this user or of root: every user may connect to a name.
pub fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    let theirs = rustix::net::sockopt::socket_peercred(stream).map(|peer| peer.uid);
    theirs.is_ok_and(|uid| own.is_root() || uid.is_root() || uid == own)
}

/// Sends one frame.
///
/// # Errors
/// The other end is gone.
pub fn send(mut stream: &UnixStream, what: &impl Serialize) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(what)?;
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), &bytes[..]].concat())
}

/// Takes one frame.
///
/// # Errors
/// The other end is gone, or sends something else.
pub fn receive<T: DeserializeOwned>(mut stream: &UnixStream) -> std::io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Sends the three descriptors of a process.
///
/// # Errors
/// The other end is gone.
pub fn send_three(stream: &UnixStream, three: [BorrowedFd<'_>; 3]) -> std::io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&three));
    let word = [IoSlice::new(b"3")];
    rustix::io::retry_on_intr(|| {
        sendmsg(stream.as_fd(), &word, &mut control, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Takes the three descriptors of a process.
///
/// # Errors
/// The other end is gone, or sends something else.
pub fn receive_three(stream: &UnixStream) -> std::io::Result<[OwnedFd; 3]> {
    let mut word = [0_u8; 1];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    rustix::io::retry_on_intr(|| {
        let mut word = [IoSliceMut::new(&mut word)];
        recvmsg(stream.as_fd(), &mut word, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let fds = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    let fds: Vec<OwnedFd> = fds.collect();
    fds.try_into().map_err(|_| std::io::ErrorKind::InvalidData.into())
}
