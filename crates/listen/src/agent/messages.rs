//! The server's end of a link to an agent on another machine: its connection for messages.

use std::sync::Arc;
use std::time::Duration;

use gpool_link::{AgentLink, ServerInbox as _};
use gpool_protocol::{Decoder, FrameError, ToAgent, ToServer, encode};
use gpool_server::agents::AgentConnection;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most frames that wait to be sent. If there are more, the connection is closed.
const QUEUE_MAX: usize = 64;
/// A connection is closed if the agent sends nothing for this time. It sends a beat each second.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// Why the connection of an agent ended.
#[derive(Debug, Error)]
pub enum ConnectionEnd {
    #[error("the agent closed it")]
    Closed,
    #[error("a newer connection took its place")]
    Replaced,
    #[error("the agent sent nothing for {} seconds", SILENCE.as_secs())]
    Silent,
    #[error("the agent takes no messages")]
    Full,
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Where the server's messages for an agent wait.
struct QueueLink {
    frames: Sender<Vec<u8>>,
    full: Arc<Notify>,
}

impl AgentLink for QueueLink {
    fn send(&self, message: &ToAgent) {
        match encode(message) {
            Ok(frame) => {
                if let Err(TrySendError::Full(_)) = self.frames.try_send(frame) {
                    self.full.notify_one();
                }
            }
            Err(error) => tracing::error!(%error, "lost a message to an agent"),
        }
    }
}

/// Carries the messages of an agent, until its connection ends.
pub async fn carry(
    stream: impl AsyncRead + AsyncWrite,
    connection: &AgentConnection,
) -> ConnectionEnd {
    let (frames, waiting) = channel(QUEUE_MAX);
    let full = Arc::new(Notify::new());
    connection.open(Arc::new(QueueLink { frames, full: full.clone() }));
    let (from_agent, to_agent) = split(stream);
    tokio::select! {
        ended = receive(from_agent, connection) => ended,
        ended = send(to_agent, waiting) => ended,
        () = full.notified() => ConnectionEnd::Full,
    }
}

async fn receive(
    mut from_agent: impl AsyncRead + Unpin,
    connection: &AgentConnection,
) -> ConnectionEnd {
    let (mut decoder, mut piece) = (Decoder::default(), vec![0; PIECE]);
    loop {
        match tokio::time::timeout(SILENCE, from_agent.read(&mut piece)).await {
            Err(_) => return ConnectionEnd::Silent,
            Ok(Err(error)) => return error.into(),
            Ok(Ok(0)) => return ConnectionEnd::Closed,
            Ok(Ok(n_read)) => decoder.push(&piece[..n_read]),
        }
        loop {
            match decoder.next_message::<ToServer>() {
                Ok(None) => break,
                Ok(Some(message)) => connection.message(message),
                // A newer agent may know more messages.
                Err(error @ FrameError::NotAMessage(_)) => {
                    tracing::error!(%error, node = %connection.peer().node(), "lost a message");
                }
                Err(error) => return error.into(),
            }
        }
    }
}

/// Sends what waits, until the agent's next connection takes the place of this one.
async fn send(
    mut to_agent: impl AsyncWrite + Unpin,
    mut frames: Receiver<Vec<u8>>,
) -> ConnectionEnd {
    while let Some(frame) = frames.recv().await {
        if let Err(error) = to_agent.write_all(&frame).await {
            return error.into();
        }
    }
    ConnectionEnd::Replaced
}
