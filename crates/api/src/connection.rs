//! The bytes of a connection, with a limit on how long the client may leave its answer unread: an
//! unread answer would stay in memory for ever. A client that was disconnected asks again: events
//! go on after the last ID, logs after the last byte.

use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::Sleep;

pub struct Connection {
    stream: UnixStream,
    /// Whether something has come since something was sent.
    has_input: AtomicBool,
}

impl Connection {
    pub fn new(stream: UnixStream) -> Arc<Self> {
        Arc::new(Self { stream, has_input: AtomicBool::new(false) })
    }

    /// Whether the other end has begun to ask something and was not answered yet.
    pub fn has_input(&self) -> bool {
        self.has_input.load(Ordering::Relaxed)
    }

    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(bytes) {
                Ok(n_written) => bytes = &bytes[n_written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Both directions of a connection, as HTTP is spoken on it.
pub(crate) struct HttpStream {
    connection: Arc<Connection>,
    patience: Duration,
    /// Ends if the client reads none of the pending bytes before.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl HttpStream {
    pub fn new(connection: Arc<Connection>, patience: Duration) -> Self {
        Self { connection, patience, stalled: None }
    }

    fn send(
        &mut self,
        context: &mut Context<'_>,
        attempt: impl Fn(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        while let Poll::Ready(is_ready) = self.connection.stream.poll_write_ready(context) {
            is_ready?;
            match attempt(&self.connection.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    self.connection.has_input.store(false, Ordering::Relaxed);
                    self.stalled = None;
                    return Poll::Ready(result);
                }
            }
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.connection.stream.poll_read_ready(context))?;
            match self.connection.stream.try_read(buffer.initialize_unfilled()) {
                Ok(n_read) => {
                    buffer.advance(n_read);
                    self.connection.has_input.fetch_or(n_read > 0, Ordering::Relaxed);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.send(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.send(context, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is kept back here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = rustix::net::shutdown(self.connection.stream.as_fd(), Shutdown::Write);
        Poll::Ready(result.map_err(io::Error::from))
    }
}
