//! A TLS connection behind a Unix socket of this process: a thread encrypts and decrypts, so that
//! requests and streams use the same code as on the server's own socket.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use rustls::ClientConnection;

use crate::remote::Remote;

/// The kernel ends a connection after this time if the server accepts or says nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// Connects to a server on the network.
///
/// # Errors
/// As for [`Remote::check`].
pub(crate) fn connect(remote: &Remote) -> io::Result<UnixStream> {
    let (tls, tcp) = remote.connect()?;
    let (inside, outside) = UnixStream::pair()?;
    tcp.set_nonblocking(true)?;
    outside.set_nonblocking(true)?;
    sockopt::set_tcp_user_timeout(&tcp, u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX))?;
    sockopt::set_tcp_keepidle(&tcp, SILENCE)?;
    sockopt::set_socket_keepalive(&tcp, true)?;
    let (early, local) = (Vec::new(), outside);
    let tunnel = Tunnel { tls, tcp, local, early, hears: true, says: true, is_heard: true };
    // When it ends, both sockets are closed, which the other code takes for a lost connection.
    std::thread::Builder::new().name("tls".to_owned()).spawn(move || drop(tunnel.run()))?;
    Ok(inside)
}

struct Tunnel {
    tls: ClientConnection,
    tcp: TcpStream,
    local: UnixStream,
    /// Decrypted bytes that the local end has not taken yet.
    early: Vec<u8>,
    /// Whether the server may still send.
    hears: bool,
    /// Whether the local end may still send.
    says: bool,
    /// Whether the server takes more bytes.
    is_heard: bool,
}

impl Tunnel {
    fn run(mut self) -> io::Result<()> {
        while self.hears || !self.early.is_empty() {
            let (remote, local) = self.wait()?;
            if remote.intersects(PollFlags::OUT) {
                self.send()?;
            }
            if remote.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.hear()?;
            }
            if local.intersects(PollFlags::IN) {
                self.say()?;
            } else if local.intersects(PollFlags::HUP | PollFlags::ERR) {
                break;
            }
            self.deliver()?;
        }
        self.finish()
    }

    /// Waits until a side is ready. Each reads only what the other can take.
    fn wait(&self) -> io::Result<(PollFlags, PollFlags)> {
        let when = |flag, is_so| if is_so { flag } else { PollFlags::empty() };
        let remote = when(PollFlags::IN, self.hears && self.early.is_empty())
            | when(PollFlags::OUT, self.is_heard && self.tls.wants_write());
        let local = when(PollFlags::IN, self.says && !self.tls.wants_write())
            | when(PollFlags::OUT, !self.early.is_empty());
        let mut both = [PollFd::new(&self.tcp, remote), PollFd::new(&self.local, local)];
        loop {
            match poll(&mut both, None) {
                Ok(_) => return Ok((both[0].revents(), both[1].revents())),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn hear(&mut self) -> io::Result<()> {
        if !self.early.is_empty() {
            return Ok(());
        }
        let n_read = again(self.tls.read_tls(&mut self.tcp))?;
        let state = self.tls.process_new_packets().map_err(io::Error::other)?;
        let start = self.early.len();
        self.early.resize(start + state.plaintext_bytes_to_read(), 0);
        self.tls.reader().read_exact(&mut self.early[start..])?;
        self.hears &= n_read != Some(0) && !state.peer_has_closed();
        Ok(())
    }

    fn say(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE];
        match again(self.local.read(&mut piece))? {
            Some(0) => {
                self.says = false;
                self.tls.send_close_notify();
            }
            Some(n_read) => self.tls.writer().write_all(&piece[..n_read])?,
            None => {}
        }
        self.send()
    }

    /// Sends encrypted bytes. A server that takes no more has answered, and the answer says why.
    fn send(&mut self) -> io::Result<()> {
        match again(self.tls.write_tls(&mut self.tcp)) {
            Err(error) if is_hang_up(&error) => {
                (self.says, self.is_heard) = (false, false);
                self.local.shutdown(Shutdown::Read)
            }
            other => other.map(drop),
        }
    }

    fn deliver(&mut self) -> io::Result<()> {
        if !self.early.is_empty()
            && let Some(n_written) = again(self.local.write(&self.early))?
        {
            self.early.drain(..n_written);
        }
        if !self.hears && self.early.is_empty() {
            self.local.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    /// Sends the last bytes; the local end has gone, or the server has ended the connection.
    fn finish(mut self) -> io::Result<()> {
        self.tcp.set_nonblocking(false)?;
        self.tls.send_close_notify();
        while self.is_heard && self.tls.wants_write() {
            self.tls.write_tls(&mut self.tcp)?;
        }
        Ok(())
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// The result of a call that may not be possible now; `None` if so.
fn again<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
