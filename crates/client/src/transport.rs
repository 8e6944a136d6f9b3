//! HTTP over a Unix socket, as a transport of `ureq`.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use crate::silence::{Silence, silence_of};
use crate::vigil::Vigil;

/// Connects to one socket, whatever the URI says.
#[derive(Debug)]
pub(crate) struct UnixConnector {
    vigil: Vigil,
    hung_up: HungUp,
}

/// Whether the server stopped reading a request before its end. It has answered then, and the
/// answer says why; so the client sends no more, and reads the answer as usual.
pub(crate) type HungUp = Arc<AtomicBool>;

impl UnixConnector {
    pub(crate) fn new(vigil: Vigil, hung_up: HungUp) -> Self {
        Self { vigil, hung_up }
    }
}

/// A body that ends when the server stops reading it.
pub(crate) struct AbortableBody<'r> {
    pub(crate) body: &'r mut dyn Read,
    pub(crate) hung_up: HungUp,
}

impl Read for AbortableBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.hung_up.load(Ordering::Relaxed) { Ok(0) } else { self.body.read(buffer) }
    }
}

/// Resolves to a dummy address, which the connector ignores.
#[derive(Debug)]
pub(crate) struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(
        &self,
        _: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
        Ok(addresses)
    }
}

impl<In: Transport> Connector<In> for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<In>,
    ) -> Result<Option<UnixTransport>, ureq::Error> {
        let stream = self.vigil.connect().map_err(not_connected)?;
        let config = &details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let hung_up = Arc::clone(&self.hung_up);
        hung_up.store(false, Ordering::Relaxed);
        Ok(Some(UnixTransport { stream, buffers, hung_up, vigil: self.vigil.clone() }))
    }
}

/// Why no connection was made, as opposed to a connection that was lost later.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotConnected(pub(crate) io::Error);

fn not_connected(error: io::Error) -> ureq::Error {
    match silence_of(&error) {
        Some(silence) => silent(silence),
        None => ureq::Error::Other(Box::new(NotConnected(error))),
    }
}

fn silent(silence: Silence) -> ureq::Error {
    ureq::Error::Other(Box::new(silence))
}

/// A connected socket with its buffers.
pub(crate) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
    hung_up: HungUp,
    vigil: Vigil,
}

impl fmt::Debug for UnixTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixTransport").finish_non_exhaustive()
    }
}

/// The remaining time; an error if it has elapsed.
fn remaining(timeout: NextTimeout) -> Result<Option<Duration>, ureq::Error> {
    if timeout.after.is_not_happening() {
        return Ok(None);
    }
    // The kernel takes zero for "no limit", but here it means that the time has elapsed.
    match *timeout.after {
        Duration::ZERO => Err(ureq::Error::Timeout(timeout.reason)),
        left => Ok(Some(left)),
    }
}

fn failed(error: io::Error, timeout: NextTimeout) -> ureq::Error {
    match (silence_of(&error), error.kind()) {
        (Some(silence), _) => silent(silence),
        (None, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            ureq::Error::Timeout(timeout.reason)
        }
        (None, _) => ureq::Error::Io(error),
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let timeout = timeout.for_write();
        let left = remaining(timeout)?;
        let output = &self.buffers.output()[..amount];
        match self.vigil.write_all(&self.stream, output, left) {
            Err(error) if is_hang_up(&error) => {
                self.hung_up.store(true, Ordering::Relaxed);
                Ok(())
            }
            other => other.map_err(|error| failed(error, timeout)),
        }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        let left = remaining(timeout)?;
        let input = self.buffers.input_append_buf();
        let read = self.vigil.read(&self.stream, input, left);
        let n_read = read.map_err(|error| failed(error, timeout))?;
        self.buffers.input_appended(n_read);
        Ok(n_read > 0)
    }

    fn is_open(&mut self) -> bool {
        // The server sends nothing unasked, so an idle connection has nothing to read; anything
        // else means that the server has closed it.
        if self.stream.set_nonblocking(true).is_err() {
            return false;
        }
        let silent = matches!(
            (&self.stream).read(&mut [0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock
        );
        silent && self.stream.set_nonblocking(false).is_ok()
    }
}
