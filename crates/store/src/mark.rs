//! The high-water mark: a small file beside the database with the last commit. SQLite silently
//! drops a damaged end of its log; the mark shows that there was more.
//!
//! It is written after each commit and before any reply, without a sync: data in the kernel
//! survives a killed server. Writes alternate between two slots, so that a write torn by a power
//! failure leaves the previous mark.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gpool_model::{Revision, Seq, Term};

use crate::file;
use crate::hash::{Chain, Fields};
use crate::head::Head;

const MAGIC: &[u8; 8] = b"gpoolmk1";
const SLOT_LEN: usize = 8 + 16 + 8 + 8 + 8 + 32 + 16;
// More than a sector apart, so that one torn write can't damage both slots.
const SLOT_OFFSETS: [u64; 2] = [0, 4096];

/// The last commit of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub store_id: [u8; 16],
    /// The newest term.
    pub fence: Term,
    /// The last commit.
    pub revision: Revision,
    /// The last entry of the journal.
    pub seq: Seq,
    /// The chain after it.
    pub chain: Chain,
}

impl Mark {
    /// The mark of a store at `head`.
    pub fn of(head: &Head) -> Self {
        Self {
            store_id: head.store_id,
            fence: head.fence,
            revision: head.revision,
            seq: head.seq,
            chain: head.chain,
        }
    }

    /// Reads the newest whole slot; `Ok(None)` if there is no file.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut newest: Option<Self> = None;
        for offset in SLOT_OFFSETS {
            let mut slot = [0; SLOT_LEN];
            if file.read_exact_at(&mut slot, offset).is_err() {
                continue;
            }
            let found = Self::decode(&slot);
            newest = newest.into_iter().chain(found).max_by_key(|mark| (mark.fence, mark.revision));
        }
        newest.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "is damaged"))
    }

    /// Writes a new mark file durably.
    pub fn create(&self, path: &Path, temporary: &Path) -> io::Result<()> {
        let mut bytes = vec![0; 4096 + SLOT_LEN];
        for offset in [0, 4096] {
            bytes[offset..offset + SLOT_LEN].copy_from_slice(&self.encode());
        }
        file::write_durably(path, temporary, &bytes)
    }

    fn encode(&self) -> [u8; SLOT_LEN] {
        let mut bytes = Vec::with_capacity(SLOT_LEN);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.store_id);
        bytes.extend_from_slice(&self.fence.0.to_le_bytes());
        bytes.extend_from_slice(&self.revision.0.to_le_bytes());
        bytes.extend_from_slice(&self.seq.0.to_le_bytes());
        bytes.extend_from_slice(&self.chain);
        let checksum = Fields::new("mark").bytes(&bytes).checksum();
        bytes.extend_from_slice(&checksum);
        bytes.try_into().expect("the lengths above add up to a slot")
    }

    fn decode(slot: &[u8; SLOT_LEN]) -> Option<Self> {
        let (body, checksum) = slot.split_at(SLOT_LEN - 16);
        if !body.starts_with(MAGIC) || Fields::new("mark").bytes(body).checksum() != checksum {
            return None;
        }
        let number = |at: usize| body[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        Some(Self {
            store_id: body[8..24].try_into().ok()?,
            fence: Term(number(24)?),
            revision: Revision(number(32)?),
            seq: Seq(number(40)?),
            chain: body[48..80].try_into().ok()?,
        })
    }
}

/// The mark file of an open store.
pub struct MarkFile {
    file: File,
    next_slot: usize,
    sync_every: u32,
    n_unsynced: u32,
}

impl MarkFile {
    /// Opens the mark that [`Mark::create`] made.
    pub fn open(path: &Path, sync_every: u32) -> io::Result<Self> {
        Ok(Self { file: file::open_private(path)?, next_slot: 0, sync_every, n_unsynced: 0 })
    }

    pub fn set(&mut self, mark: &Mark) -> io::Result<()> {
        self.file.write_all_at(&mark.encode(), SLOT_OFFSETS[self.next_slot])?;
        self.next_slot = 1 - self.next_slot;
        self.n_unsynced += 1;
        if self.n_unsynced >= self.sync_every {
            self.sync()?;
        }
        Ok(())
    }

    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.n_unsynced = 0;
        Ok(())
    }
}
