//! The output of a task: two streams in two files, and the order of their bytes.
//!
//! A third file stores the order. It has one line for each switch between the streams: the lengths
//! of both files at that time. A task that writes only one stream has no such file. Users can write
//! to the file, so it decides only the order of bytes and never which bytes there are.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// One of the two streams of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Both streams.
    pub const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Its name, which is the name of its file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The file that stores the order.
pub const ORDER_FILE: &str = "order";
/// The most switches that are stored for one task; the bytes after the last are ordered by stream
/// only.
pub const TURNS_MAX: usize = 1 << 16;
/// Largest size of the order file, in bytes.
pub const ORDER_MAX: u64 = 42 * TURNS_MAX as u64;

/// One switch as a line of the order file.
#[must_use]
pub fn turn_line(lengths: [u64; 2]) -> String {
    let mut line = String::new();
    let _ = writeln!(line, "{} {}", lengths[0], lengths[1]);
    line
}

/// Reads the switches of the order file, up to the first line that is malformed or goes back.
fn turns(order: &[u8]) -> impl Iterator<Item = [u64; 2]> + '_ {
    let line = |line: &[u8]| {
        let (first, second) =
            std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?.split_once(' ')?;
        Some([first.parse().ok()?, second.parse().ok()?])
    };
    let mut last = [0, 0];
    let lines = order.split_inclusive(|byte| *byte == b'\n').map_while(line);
    let ascending = lines.map_while(move |turn: [u64; 2]| {
        let is_later = turn[0] >= last[0] && turn[1] >= last[1];
        last = turn;
        is_later.then_some(turn)
    });
    ascending.take(TURNS_MAX)
}

/// Consecutive bytes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// Its offset in the combined output.
    at: u64,
    stream: OutputStream,
    /// Its offset in its file.
    from: u64,
}

/// The output of a task as one sequence of bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pieces {
    // Invariant: none is empty, each begins where the one before it ends.
    pieces: Vec<Piece>,
    length: u64,
}

impl Pieces {
    /// Both streams, from files with at least these lengths. Read the lengths before the order
    /// file: then it contains each switch before those bytes, and the output at any later time
    /// begins with the same bytes.
    #[must_use]
    pub fn both(lengths: [u64; 2], order: &[u8]) -> Self {
        let mut whole = Self::default();
        let mut done = [0, 0];
        for turn in turns(order).chain([lengths]) {
            for (ix, stream) in OutputStream::BOTH.into_iter().enumerate() {
                let to = turn[ix].min(lengths[ix]);
                whole.add(stream, done[ix], to);
                done[ix] = to.max(done[ix]);
            }
        }
        whole
    }

    /// One stream, from a file of this length.
    #[must_use]
    pub fn one(stream: OutputStream, length: u64) -> Self {
        let mut whole = Self::default();
        whole.add(stream, 0, length);
        whole
    }

    fn add(&mut self, stream: OutputStream, from: u64, to: u64) {
        if from < to {
            self.pieces.push(Piece { at: self.length, stream, from });
            self.length += to - from;
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The stream and offset of the byte at a position, and the number of bytes from there on in
    /// the same piece; `None` at the end.
    #[must_use]
    pub fn find(&self, position: u64) -> Option<(OutputStream, u64, u64)> {
        if position >= self.length {
            return None;
        }
        let after = self.pieces.partition_point(|piece| piece.at <= position);
        let piece = self.pieces[after - 1];
        let end = self.pieces.get(after).map_or(self.length, |next| next.at);
        Some((piece.stream, piece.from + (position - piece.at), end - position))
    }
}
