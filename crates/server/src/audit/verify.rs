//! Checks the hashes of the log.

use std::fs;
use std::io;
use std::path::Path;

use gpool_wire::AuditEntry;

use super::{FILES_MAX, FOLDER, Kind, chain_after, files};

/// A line that does not follow the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

/// Checks the log of a state folder; returns the number of entries and the faults. Entries of
/// versions that made no hashes are only counted.
///
/// # Errors
/// A file can't be read.
pub fn verify(state_dir: &Path) -> io::Result<(u64, Vec<Broken>)> {
    let (mut n_entries, mut broken) = (0, Vec::new());
    for kind in Kind::ALL {
        let files = files(&state_dir.join(FOLDER), kind);
        // If older files were removed, the first hash is taken as it is.
        let mut before = (files.len() < FILES_MAX).then(String::new);
        for path in files.iter().rev() {
            let text = fs::read(path)?;
            for (ix, line) in text.split(|byte| *byte == b'\n').enumerate() {
                let Ok(entry) = serde_json::from_slice::<AuditEntry>(line) else { continue };
                n_entries += 1;
                let is_next = match (&before, &entry.chain) {
                    (None, _) => true,
                    (Some(before), Some(chain)) => follows(before, line, chain),
                    (Some(before), None) => before.is_empty(),
                };
                if !is_next {
                    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    broken.push(Broken { file, line: ix + 1 });
                }
                before = entry.chain.or(before);
            }
        }
    }
    Ok((n_entries, broken))
}

/// Whether a line with this hash follows the hash before it.
fn follows(before: &str, line: &[u8], chain: &str) -> bool {
    let end = format!(",\"chain\":\"{chain}\"}}");
    let Some(entry) = line.strip_suffix(end.as_bytes()) else { return false };
    chain_after(before, &[entry, b"}"].concat()) == chain
}
