//! Frames: the length of a message in four bytes, big-endian, and the message as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The largest message in bytes. A task order is a few kilobytes; the report of all tasks of a full
/// node is less than a megabyte.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

const LENGTH_BYTES: usize = 4;

/// Why a frame can't be written or read.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The message is too large.
    #[error("a message has {n_bytes} bytes, more than {FRAME_BYTES_MAX}")]
    TooLarge {
        /// Its length.
        n_bytes: usize,
    },
    /// It is not JSON, or not a message of this version.
    #[error("a message can't be read: {0}")]
    NotAMessage(#[from] serde_json::Error),
}

/// Returns the frame of a message.
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut frame, message)?;
    let n_bytes = frame.len() - LENGTH_BYTES;
    let length = u32::try_from(n_bytes).ok().filter(|_| n_bytes <= FRAME_BYTES_MAX);
    let length = length.ok_or(FrameError::TooLarge { n_bytes })?;
    frame[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
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
    /// Adds bytes.
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
    pub fn next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, FrameError> {
        let rest = &self.bytes[self.start..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let n_bytes = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if n_bytes > FRAME_BYTES_MAX {
            return Err(FrameError::TooLarge { n_bytes });
        }
        let Some(message) = rest.get(..n_bytes) else { return Ok(None) };
        let message = serde_json::from_slice(message);
        self.start += LENGTH_BYTES + n_bytes;
        Ok(Some(message?))
    }
}
