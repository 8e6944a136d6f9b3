//! The protocol of a stream after `attach` and `exec`. Pure; both ends and the fuzzers use it.
//!
//! A frame is one byte for its kind, four bytes for the length (big-endian), then the content.
//! Readers skip frames of unknown kinds, so that later versions can add kinds.

use gpool_model::WindowSize;

/// Maximum size of a frame's content in bytes.
pub const FRAME_MAX: usize = 64 * 1024;
/// Size of a frame's header in bytes.
const HEAD: usize = 5;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Input of the program.
    Input(Vec<u8>),
    /// End of the input.
    InputEnd,
    /// New size of the terminal window.
    Resize(WindowSize),
    /// A signal for the program that `exec` started.
    Signal(i32),
    /// Output of the program, from standard output or its terminal.
    Output(Vec<u8>),
    /// Output of the program on standard error.
    Errors(Vec<u8>),
    /// The program that `exec` started has ended with this exit code, as a shell reports it.
    Exit(i32),
    /// The program could not be started.
    NotStarted(String),
}

/// The stream contains no valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the received data is not a frame of gpool's protocol")]
pub struct NoFrame;

impl Frame {
    /// Appends the encoded frame. Splits long content into several frames.
    pub fn write(&self, line: &mut Vec<u8>) {
        match self {
            Self::Input(bytes) => write_parts(line, b'i', bytes),
            Self::InputEnd => write_one(line, b'e', &[]),
            Self::Resize(size) => {
                let [a, b] = size.rows.to_be_bytes();
                let [c, d] = size.columns.to_be_bytes();
                write_one(line, b'w', &[a, b, c, d]);
            }
            Self::Signal(number) => write_one(line, b's', &number.to_be_bytes()),
            Self::Output(bytes) => write_parts(line, b'o', bytes),
            Self::Errors(bytes) => write_parts(line, b'r', bytes),
            Self::Exit(code) => write_one(line, b'x', &code.to_be_bytes()),
            Self::NotStarted(why) => {
                let why = why.as_bytes();
                write_one(line, b'n', &why[..why.len().min(FRAME_MAX)]);
            }
        }
    }

    fn read(kind: u8, bytes: &[u8]) -> Result<Option<Self>, NoFrame> {
        let number = || bytes.try_into().map(i32::from_be_bytes).map_err(|_| NoFrame);
        Ok(Some(match kind {
            b'i' => Self::Input(bytes.to_vec()),
            b'e' => Self::InputEnd,
            b'w' => {
                let [a, b, c, d] = bytes.try_into().map_err(|_| NoFrame)?;
                let (rows, columns) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                Self::Resize(WindowSize { rows, columns })
            }
            b's' => Self::Signal(number()?),
            b'o' => Self::Output(bytes.to_vec()),
            b'r' => Self::Errors(bytes.to_vec()),
            b'x' => Self::Exit(number()?),
            b'n' => Self::NotStarted(String::from_utf8_lossy(bytes).into_owned()),
            _ => return Ok(None),
        }))
    }
}

fn write_parts(line: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    for part in bytes.chunks(FRAME_MAX) {
        write_one(line, kind, part);
    }
}

fn write_one(line: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a frame has at most 64 KiB");
    line.push(kind);
    line.extend_from_slice(&length.to_be_bytes());
    line.extend_from_slice(bytes);
}

/// A decoder of frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// The bytes are no frame. The rest of the stream is unusable.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, NoFrame> {
        loop {
            let Some((head, rest)) = self.bytes.split_first_chunk::<HEAD>() else {
                return Ok(None);
            };
            let [kind, length @ ..] = *head;
            let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| NoFrame)?;
            if length > FRAME_MAX {
                return Err(NoFrame);
            }
            let Some(bytes) = rest.get(..length) else { return Ok(None) };
            let frame = Frame::read(kind, bytes)?;
            drop(self.bytes.drain(..HEAD + length));
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }
}
