//! Claims and messages as the fuzz targets see them: bytes in, and the same written again.

use serde::{Deserialize, Serialize};

use crate::message::{FromShepherd, Launch, ToShepherd, line, take_lines};
use crate::record::{Line, Record, with_checksum};

/// What a claim says, as the claim that says it; `None` if not even who claimed it.
#[must_use]
pub fn claim(bytes: &[u8]) -> Option<Vec<u8>> {
    let Record { claimant, started, limited, halted, is_swept, ended } = Record::read(bytes)?;
    let started = started.map(|(pid, at)| Line::Started { pid, at });
    let limited = limited.map(|(generation, limit)| Line::Limited { generation, limit });
    let halted = halted.map(|(generation, is_paused)| Line::Halted { generation, is_paused });
    let swept = is_swept.then_some(Line::Swept);
    let ended = ended.map(Line::Ended);
    let lines = [Some(Line::Claimed(claimant)), started, limited, halted, swept, ended];
    let written = lines.into_iter().flatten().map(|line| {
        with_checksum(&serde_json::to_string(&line).expect("lines have string keys only"))
    });
    Some(written.collect::<String>().into_bytes())
}

/// A line of a claim as it stands in the file.
#[must_use]
pub fn claim_line(json: &str) -> String {
    with_checksum(json)
}

/// Which messages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// What agents say.
    Agent,
    /// What shepherds say.
    Shepherd,
    /// What a shepherd is given to start with.
    Launch,
}

/// The messages of a stream that comes in these parts, each as it is written.
#[must_use]
pub fn messages(of: Of, parts: &[&[u8]]) -> Vec<Vec<u8>> {
    match of {
        Of::Agent => taken::<ToShepherd>(parts),
        Of::Shepherd => taken::<FromShepherd>(parts),
        Of::Launch => taken::<Launch>(parts),
    }
}

fn taken<T: Serialize + for<'de> Deserialize<'de>>(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut input = Vec::new();
    let mut messages = Vec::new();
    for part in parts {
        input.extend_from_slice(part);
        messages.extend(take_lines::<T>(&mut input).iter().map(line));
    }
    messages
}
