//! Reads the files of the log from their ends, a piece at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use gpool_wire::AuditEntry;

use super::{Audit, AuditFilter, AuditKind, files};

/// Bytes that are read at once.
const PIECE: u64 = 64 << 10;

/// A search that stops after each file, so that others get their turn.
pub struct AuditSearch {
    filter: AuditFilter,
    limit: usize,
    /// Kinds that were not read to their end: the next file of each, counted from the newest.
    next_files: Vec<(AuditKind, usize)>,
    found: Vec<AuditEntry>,
    /// Entries found of the kind that is read.
    n_of_kind: usize,
}

impl AuditSearch {
    /// Searches for a number of entries at most: with [`AuditFilter::after`] the next ones after
    /// that number, otherwise the newest.
    #[must_use]
    pub fn new(filter: AuditFilter, limit: usize) -> Self {
        let next_files = AuditKind::ALL.iter().rev().map(|kind| (*kind, 0)).collect();
        Self { filter, limit, next_files, found: Vec::new(), n_of_kind: 0 }
    }

    /// The entries: the newest first, or with [`AuditFilter::after`] the oldest first.
    #[must_use]
    pub fn entries(mut self) -> Vec<AuditEntry> {
        self.found.sort_by_key(|entry| std::cmp::Reverse(entry.id));
        if self.filter.after.is_some() {
            self.found.reverse();
        }
        self.found.truncate(self.limit);
        self.found
    }
}

impl Audit {
    /// Returns the entries of a page at once.
    #[cfg(feature = "fuzzing")]
    pub fn read(&self, filter: &AuditFilter, limit: usize) -> io::Result<Vec<AuditEntry>> {
        let mut page = AuditSearch::new(filter.clone(), limit);
        while self.read_file(&mut page)? {}
        Ok(page.entries())
    }

    /// Reads one more file for a page; returns false after the last one.
    pub fn read_file(&self, page: &mut AuditSearch) -> io::Result<bool> {
        let Some((kind, n)) = page.next_files.pop() else { return Ok(false) };
        let Some(path) = files(&self.folder, kind).into_iter().nth(n) else {
            page.n_of_kind = 0;
            return Ok(true);
        };
        // Of those that follow a number, the oldest may be far from the end.
        let most = if page.filter.after.is_some() { usize::MAX } else { page.limit };
        let AuditSearch { filter, found, n_of_kind, .. } = page;
        let is_over = backwards(&path, filter.user.as_deref(), |entry| {
            if filter.is_past(&entry) {
                return true;
            }
            if filter.has(&entry) {
                found.push(entry);
                *n_of_kind += 1;
            }
            *n_of_kind >= most
        })?;
        match is_over {
            true => *n_of_kind = 0,
            false => page.next_files.push((kind, n + 1)),
        }
        if page.filter.after.is_some() && page.found.len() > 2 * page.limit {
            page.found.sort_by_key(|entry| entry.id);
            page.found.truncate(page.limit);
        }
        Ok(true)
    }
}

/// Calls `take` with each entry of a file, from its end, until it returns true; whether it did. If
/// a user is given, only with lines that contain the name.
fn backwards(
    path: &Path,
    user: Option<&str>,
    mut take: impl FnMut(AuditEntry) -> bool,
) -> io::Result<bool> {
    let file = match File::open(path) {
        // The oldest may have been removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        file => file?,
    };
    let name = user.map(|user| serde_json::to_string(user).unwrap_or_default());
    let finder = name.as_ref().map(|name| memchr::memmem::Finder::new(name.as_bytes()));
    let mut end = file.metadata()?.len();
    // The begin of the line that the piece before has the end of.
    let mut rest: Vec<u8> = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        let mut piece = vec![0; usize::try_from(end - start).unwrap_or_default()];
        file.read_exact_at(&mut piece, start)?;
        piece.extend_from_slice(&rest);
        end = start;
        let first = match piece.iter().position(|byte| *byte == b'\n') {
            Some(at) if start > 0 => at + 1,
            None if start > 0 => {
                rest = piece;
                continue;
            }
            _ => 0,
        };
        let lines = piece[first..].rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for line in lines {
            if finder.as_ref().is_some_and(|finder| finder.find(line).is_none()) {
                continue;
            }
            // A line that a crash cut short is no entry.
            if serde_json::from_slice(line).is_ok_and(&mut take) {
                return Ok(true);
            }
        }
        piece.truncate(first);
        rest = piece;
    }
    Ok(false)
}
