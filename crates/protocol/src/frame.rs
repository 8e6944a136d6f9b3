//! Frames: the lengths of a message and of its body in four bytes each, big-endian, the message as
//! JSON, and the body as it is.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The largest message in bytes, and the largest body. A task order is a few kilobytes; the report
/// of all tasks of a full node is less than a megabyte.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The lengths of the message and of its body.
const HEAD_BYTES: usize = 8;

/// A message that may have a body: bytes that do not stand in its JSON.
pub trait Message: Serialize + DeserializeOwned {
    /// The body; empty for most messages.
    fn body(&self) -> &[u8] {
        &[]
    }

    /// Gives a message that was read its body. One that takes none ignores it.
    fn set_body(&mut self, _body: &[u8]) {}
}

/// Why a frame can't be written or read.
#[derive(Debug, Error)]
pub enum FrameError {
    #[error("a message has {n_bytes} bytes, more than {FRAME_BYTES_MAX}")]
    TooLarge { n_bytes: usize },
    /// It is not JSON, or not a message of this version.
    #[error("a message can't be read: {0}")]
    NotAMessage(#[from] serde_json::Error),
}

/// Returns the frame of a message.
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, FrameError> {
    let body = message.body();
    let mut frame = vec![0; HEAD_BYTES];
    serde_json::to_writer(&mut frame, message)?;
    let lengths = [frame.len() - HEAD_BYTES, body.len()];
    for (place, n_bytes) in frame.chunks_exact_mut(HEAD_BYTES / 2).zip(lengths) {
        let length = u32::try_from(n_bytes).ok().filter(|_| n_bytes <= FRAME_BYTES_MAX);
        let length = length.ok_or(FrameError::TooLarge { n_bytes })?;
        place.copy_from_slice(&length.to_be_bytes());
    }
    frame.extend_from_slice(body);
    Ok(frame)
}

/// Takes bytes as they arrive, and gives the messages in them.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// The start of the next frame in `bytes`.
    start: usize,
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next message; `None` until all its bytes are there.
    ///
    /// # Errors
    /// The frame is too large, or no message of this type. The first can't be skipped, since its
    /// length can't be trusted. The second is skipped: the next call returns the message behind it.
    pub fn next_message<M: Message>(&mut self) -> Result<Option<M>, FrameError> {
        let rest = &self.bytes[self.start..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let (message, body) = (length(head, 0)?, length(head, 1)?);
        let Some((message, rest)) = rest.split_at_checked(message) else { return Ok(None) };
        let Some(body) = rest.get(..body) else { return Ok(None) };
        self.start += HEAD_BYTES + message.len() + body.len();
        let mut message: M = serde_json::from_slice(message)?;
        message.set_body(body);
        Ok(Some(message))
    }
}

/// Returns one of the lengths of a head.
fn length(head: &[u8; HEAD_BYTES], i: usize) -> Result<usize, FrameError> {
    let (lengths, _) = head.as_chunks::<{ HEAD_BYTES / 2 }>();
    let n_bytes = usize::try_from(u32::from_be_bytes(lengths[i])).unwrap_or(usize::MAX);
    if n_bytes > FRAME_BYTES_MAX { Err(FrameError::TooLarge { n_bytes }) } else { Ok(n_bytes) }
}
