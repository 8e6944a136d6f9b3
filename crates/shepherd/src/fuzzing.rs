//! Claims and messages for the fuzz targets: reads bytes and writes them again.

use serde::{Deserialize, Serialize};

use crate::message::{FromShepherd, Launch, ToShepherd, line, take_lines};
use crate::record::{ClaimLine, ClaimRecord, with_checksum};

/// Reads a claim and writes it again; `None` without a valid first line.
#[must_use]
pub fn claim(bytes: &[u8]) -> Option<Vec<u8>> {
    let ClaimRecord {
        claimant,
        started,
        changed,
        halted,
        is_detached,
        is_away,
        is_restored,
        is_swept,
        killed,
        ended,
    } = ClaimRecord::read(bytes)?;
    let started = started.map(|(pid, at)| ClaimLine::Started { pid, at });
    let changed = changed.map(|(generation, terms)| ClaimLine::Changed { generation, terms });
    let halted = halted.map(|(generation, is_paused)| ClaimLine::Halted {
        generation,
        is_paused,
        is_away,
        is_restored,
    });
    let detached = is_detached.then_some(ClaimLine::Detached);
    let swept = is_swept.then_some(ClaimLine::Swept);
    let killed = killed.map(|by| ClaimLine::Killed { by });
    let ended = ended.map(ClaimLine::Ended);
    let claimed = Some(ClaimLine::Claimed(claimant));
    let lines = [claimed, started, changed, halted, detached, swept, killed, ended];
    let written = lines.into_iter().flatten().map(|line| {
        with_checksum(&serde_json::to_string(&line).expect("lines have string keys only"))
    });
    Some(written.collect::<String>().into_bytes())
}

/// A line of a claim as it is in the file, with its checksum.
#[must_use]
pub fn claim_line(json: &str) -> String {
    with_checksum(json)
}

/// The kind of messages to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    Agent,
    Shepherd,
    /// The first message to a shepherd.
    Launch,
}

/// Reads the messages of a stream that arrives in these parts, and writes each again.
#[must_use]
pub fn messages(of: MessageKind, parts: &[&[u8]]) -> Vec<Vec<u8>> {
    match of {
        MessageKind::Agent => reencode::<ToShepherd>(parts),
        MessageKind::Shepherd => reencode::<FromShepherd>(parts),
        MessageKind::Launch => reencode::<Launch>(parts),
    }
}

fn reencode<T: Serialize + for<'de> Deserialize<'de>>(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut input = Vec::new();
    let mut messages = Vec::new();
    for part in parts {
        input.extend_from_slice(part);
        messages.extend(take_lines::<T>(&mut input).iter().map(line));
    }
    messages
}
