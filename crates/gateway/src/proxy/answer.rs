//! The body of an answer: it holds the lease of its replica until the client has read it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use super::replica::Connection;
use super::table::{Lease, Table};
use crate::measure::tokens_in;

/// A body.
pub enum AnswerBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// As it arrives from the replica.
    Stream(Box<AnswerStream>),
}

/// A body that arrives.
pub struct AnswerStream {
    inner: Incoming,
    /// Taken at the end of the body, so that the connection can be used again.
    connection: Option<Connection>,
    lease: Option<Lease>,
    table: Arc<Table>,
    n_tokens: Option<u64>,
}

impl AnswerStream {
    /// The body of an answer on a connection.
    #[must_use]
    pub fn new(inner: Incoming, connection: Connection, lease: Lease, table: Arc<Table>) -> Self {
        Self { inner, connection: Some(connection), lease: Some(lease), table, n_tokens: None }
    }

    fn end(&mut self) {
        if let (Some(connection), Some(lease)) = (self.connection.take(), self.lease.take()) {
            lease.replica.keep(connection);
        }
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        if self.inner.is_end_stream() {
            self.end();
        }
        if let Some(n) = self.n_tokens {
            self.table.tokens(n);
        }
    }
}

impl AnswerBody {
    /// A short text.
    #[must_use]
    pub fn text(text: impl Into<Bytes>) -> Self {
        Self::Whole(Some(text.into()))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => {
                let frame = ready!(Pin::new(&mut stream.inner).poll_frame(context));
                match &frame {
                    Some(Ok(frame)) => {
                        if let Some(n) = frame.data_ref().and_then(|data| tokens_in(data)) {
                            stream.n_tokens = Some(n);
                        }
                    }
                    Some(Err(_)) => stream.table.failed(),
                    None => stream.end(),
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Stream(stream) => stream.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |it| it.len() as u64))
            }
            Self::Stream(stream) => stream.inner.size_hint(),
        }
    }
}
