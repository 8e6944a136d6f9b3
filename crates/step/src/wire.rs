//! The protocol between `srun` and the hosts of a step: JSON frames and file descriptors over a
//! local socket, so neither needs the server once a step runs.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use gpool_model::job::Usage;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Largest frame in bytes; an environment is smaller.
const FRAME_MAX: usize = 16 << 20;

/// The first message of a host.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Its rank in the job.
    pub rank: u32,
    /// The visible GPUs, by id.
    pub gpus: Vec<String>,
}

/// The processes that a host starts. Three descriptors for each process follow.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    /// The number of processes of the step, on all hosts.
    pub n_processes: u32,
    /// Whether the processes can find each other by [`crate::pmi`].
    pub has_pmi: bool,
    pub directory: String,
    /// The environment of `srun` in base64, in the format of `/proc/PID/environ`.
    pub environment: String,
    pub processes: Vec<StartProcess>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct StartProcess {
    /// Its rank in the step.
    pub rank: u32,
    pub command: Vec<String>,
    /// Its additional variables.
    pub variables: Vec<(String, String)>,
}

/// A later message to a host.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToHost {
    /// Send a signal to all processes.
    Signal(i32),
    /// A line of PMI for the process of this rank.
    Pmi(u32, String),
    /// Write the line of the ended step into the folder of the task.
    Record(String),
}

/// A later message of a host.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromHost {
    /// The process of this rank has ended with this exit code, as in a shell.
    Ended(u32, i32),
    /// The process of this rank could not be started.
    NotStarted(u32, String),
    /// A line of PMI of the process of this rank.
    Pmi(u32, String),
    /// All processes have ended, and used this together.
    Used(Usage),
    /// The line of the step could not be written, for this reason.
    NotRecorded(String),
}

/// The address of an abstract socket, which is not in the file system.
///
/// # Errors
/// The name is too long.
pub fn address(name: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Whether the other end is a process of this user or of root: every user can connect to an
/// abstract socket.
pub fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    let theirs = rustix::net::sockopt::socket_peercred(stream).map(|peer| peer.uid);
    theirs.is_ok_and(|uid| own.is_root() || uid.is_root() || uid == own)
}

/// Sends one frame.
pub fn send(mut stream: &UnixStream, what: &impl Serialize) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(what)?;
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), &bytes[..]].concat())
}

/// Receives one frame.
///
/// # Errors
/// The other end has gone, or sends an invalid frame.
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

/// Receives the three descriptors of a process.
///
/// # Errors
/// The other end has gone, or sends something else.
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
