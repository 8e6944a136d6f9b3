//! The connection of a step to a host on another machine: both ends prove that they know the token
//! of the step, then they send frames. It goes straight from machine to machine, so a step survives
//! a restart of the server.
//!
//! A frame has one byte for its kind, four for the rank of a process in the step, and four for the
//! length of its content, big-endian.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Serialize;

/// The variable with the token of a step, for its hosts.
pub const TOKEN: &str = "GPOOL_STEP_TOKEN";
/// How long each part of the handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
const NONCE: usize = 32;
const PROOF: usize = 32;
const HEAD: usize = 9;
/// The largest content; an environment is smaller.
const CONTENT_MAX: usize = 16 << 20;
/// Bytes of a stream that one frame carries.
pub const PIECE: usize = 64 << 10;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A message in JSON.
    Message,
    /// Bytes for the standard input of a process; none at its end.
    Input,
    /// Bytes of the standard output of a process; none at its end.
    Output,
    /// The same of its standard error.
    Errors,
    /// The last bytes for the standard input were taken.
    InputReceipt,
    /// Nothing reads the standard output of a process any more.
    OutputClosed,
    /// The same of its standard error.
    ErrorsClosed,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Message,
        Self::Input,
        Self::Output,
        Self::Errors,
        Self::InputReceipt,
        Self::OutputClosed,
        Self::ErrorsClosed,
    ];
}

#[derive(Debug)]
pub struct Frame {
    pub kind: Kind,
    /// The rank of the process in the step; 0 for messages.
    pub rank: u32,
    pub content: Vec<u8>,
}

/// Both ends of a connection between machines. Threads take turns in writing.
#[derive(Debug)]
pub struct Remote {
    stream: TcpStream,
    writing: Mutex<()>,
}

/// Makes a random token.
///
/// # Errors
/// The kernel has no random numbers.
pub fn new_token() -> io::Result<String> {
    let mut bytes = [0; NONCE];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The end that a proof is of.
#[derive(Clone, Copy)]
enum End {
    Srun,
    Host,
}

impl End {
    /// The text that it signs: both nonces, so that no earlier proof counts, and its name, so
    /// that no end can repeat the proof of the other.
    fn text(self, nonces: [&[u8; NONCE]; 2]) -> Vec<u8> {
        let name: &[u8] = match self {
            Self::Srun => b"srun",
            Self::Host => b"host",
        };
        [nonces[0], nonces[1], name].concat()
    }
}

impl Remote {
    /// Takes a connection of a host, for the step with this token.
    ///
    /// # Errors
    /// It is none, or breaks.
    pub fn accept(mut stream: TcpStream, token: &str) -> io::Result<Self> {
        prepare(&stream)?;
        let key = Key::new(HMAC_SHA256, token.as_bytes());
        let (own, theirs) = exchange(&mut stream)?;
        expect_proof(&mut stream, &key, &End::Host.text([&own, &theirs]))?;
        stream.write_all(sign(&key, &End::Srun.text([&own, &theirs])).as_ref())?;
        Self::ready(stream)
    }

    /// Connects to the `srun` of the step with this token.
    ///
    /// # Errors
    /// It can't be reached, or is another one.
    pub fn connect(address: &SocketAddr, token: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(address, PATIENCE)?;
        prepare(&stream)?;
        let key = Key::new(HMAC_SHA256, token.as_bytes());
        let (own, theirs) = exchange(&mut stream)?;
        stream.write_all(sign(&key, &End::Host.text([&theirs, &own])).as_ref())?;
        expect_proof(&mut stream, &key, &End::Srun.text([&theirs, &own]))?;
        Self::ready(stream)
    }

    fn ready(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(None)?;
        Ok(Self { stream, writing: Mutex::new(()) })
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends bytes of a process, or that they have ended if there are none.
    ///
    /// # Errors
    /// The other end has gone.
    pub fn send(&self, kind: Kind, rank: u32, content: &[u8]) -> io::Result<()> {
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut head = [0; HEAD];
        head[0] = kind as u8;
        head[1..5].copy_from_slice(&rank.to_be_bytes());
        head[5..].copy_from_slice(&length.to_be_bytes());
        let _turn = self.turn();
        let mut stream = &self.stream;
        stream.write_all(&head)?;
        stream.write_all(content)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end has gone.
    pub fn say(&self, message: &impl Serialize) -> io::Result<()> {
        self.send(Kind::Message, 0, &serde_json::to_vec(message)?)
    }

    /// Receives the next frame.
    ///
    /// # Errors
    /// The other end has gone, or sends an invalid frame.
    pub fn receive(&self) -> io::Result<Frame> {
        let mut stream = &self.stream;
        let mut head = [0; HEAD];
        stream.read_exact(&mut head)?;
        let [kind, rank @ .., _, _, _, _] = head;
        let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let kind = Kind::ALL.get(usize::from(kind)).filter(|_| length <= CONTENT_MAX);
        let kind = *kind.ok_or(ErrorKind::InvalidData)?;
        let mut content = vec![0; length];
        stream.read_exact(&mut content)?;
        Ok(Frame { kind, rank: u32::from_be_bytes(rank), content })
    }

    /// Ends the connection.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Finds a lost machine by itself, and does not wait before it sends small frames.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
    rustix::net::sockopt::set_tcp_keepintvl(stream, Duration::from_secs(20))?;
    Ok(())
}

/// Sends a nonce, and receives that of the other end.
fn exchange(stream: &mut TcpStream) -> io::Result<([u8; NONCE], [u8; NONCE])> {
    let (mut own, mut theirs) = ([0; NONCE], [0; NONCE]);
    SystemRandom::new().fill(&mut own).map_err(|_| io::Error::other("no random numbers"))?;
    stream.write_all(&own)?;
    stream.read_exact(&mut theirs)?;
    Ok((own, theirs))
}

fn expect_proof(stream: &mut TcpStream, key: &Key, text: &[u8]) -> io::Result<()> {
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof)?;
    verify(key, text, &proof).map_err(|_| ErrorKind::PermissionDenied.into())
}
