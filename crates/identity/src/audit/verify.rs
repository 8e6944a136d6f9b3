//! Checks the hashes and the numbers of the log.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use gpool_wire::AuditEntry;

use super::{AuditKind, FILES_MAX, FOLDER, chain_after, files};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// A line that does not follow the one before it.
    Line {
        file: String,
        /// The line, from 1.
        line: usize,
    },
    /// Entries with these numbers, and those between them, are in no file.
    Missing { from: u64, to: u64 },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(
                f,
                "{FOLDER}/{file}:{line}: this entry was changed, or one before it was removed"
            ),
            Self::Missing { from, to } => write!(
                f,
                "{FOLDER}: entries {from} to {to} were removed, or lost in a power failure"
            ),
        }
    }
}

/// Checks the log of a state folder; returns the number of entries and the faults. That the last
/// entries of all were removed shows only in a copy: the system's log, or `gpool audit --follow`.
pub fn verify(state_dir: &Path) -> io::Result<(u64, Vec<Broken>)> {
    let (mut ids, mut broken) = (BTreeSet::new(), Vec::new());
    // Entries before it may be in files that were removed for their age.
    let mut oldest = 1;
    for kind in AuditKind::ALL {
        let files = files(&state_dir.join(FOLDER), kind);
        let has_all = files.len() < FILES_MAX;
        // If older files were removed, the first hash is taken as it is.
        let mut before = has_all.then(String::new);
        for path in files.iter().rev() {
            let text = fs::read(path)?;
            for (ix, line) in text.split(|byte| *byte == b'\n').enumerate() {
                let Ok(entry) = serde_json::from_slice::<AuditEntry>(line) else { continue };
                if !has_all && before.is_none() {
                    oldest = oldest.max(entry.id);
                }
                ids.insert(entry.id);
                let chain = entry.chain.unwrap_or_default();
                if before.as_ref().is_some_and(|before| !follows(before, line, &chain)) {
                    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    broken.push(Broken::Line { file, line: ix + 1 });
                }
                before = Some(chain);
            }
        }
    }
    let mut next = oldest;
    for id in ids.range(oldest..) {
        if *id > next {
            broken.push(Broken::Missing { from: next, to: id - 1 });
        }
        next = id + 1;
    }
    Ok((ids.len() as u64, broken))
}

/// Whether a line with this hash follows the hash before it.
fn follows(before: &str, line: &[u8], chain: &str) -> bool {
    let end = format!(",\"chain\":\"{chain}\"}}");
    let Some(entry) = line.strip_suffix(end.as_bytes()) else { return false };
    chain_after(before, &[entry, b"}"].concat()) == chain
}
