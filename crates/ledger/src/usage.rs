//! The `usage` file, which the job's processes write. The agent reads it with system calls: a
//! mapping of a file that a job can truncate could kill the agent.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use thiserror::Error;

use crate::layout::{
    DEVICES_MAX, FLAG_MANAGED_MEMORY, FLAG_NO_SLOT, FLAG_SHARED_MEMORY, SLOTS_MAX, Slot,
    USAGE_MAGIC, UsageFile, VERSION, parts,
};
use crate::process;

/// A process of the job that uses CUDA, by its own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaProcess {
    /// Its position in the file.
    pub(crate) slot: usize,
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub start: u64,
    /// Bytes by the device's index in the ledger.
    pub used: Vec<u64>,
    /// Synchronisations that run.
    pub n_in_flight: u32,
    /// Threads that wait at the gate.
    pub n_waiting: u32,
    /// Whether it exported or imported memory.
    pub shares_memory: bool,
    pub has_managed_memory: bool,
}

#[derive(Debug, Error)]
pub enum UsageError {
    /// The job truncated or overwrote it.
    #[error("the job damaged its ledger file: {0}")]
    Damaged(&'static str),
    /// It can't be read or written.
    #[error("the ledger file of the job can't be read")]
    File(#[from] io::Error),
}

impl CudaProcess {
    #[must_use]
    pub fn lives(&self) -> bool {
        process::lives(self.pid, self.start)
    }
}

/// Writes an empty file.
pub(crate) fn create(file: &File) -> io::Result<()> {
    file.set_len(size_of::<UsageFile>() as u64)?;
    file.write_all_at(&VERSION.to_ne_bytes(), offset_of!(UsageFile, version) as u64)?;
    file.write_all_at(&USAGE_MAGIC.to_ne_bytes(), offset_of!(UsageFile, magic) as u64)
}

/// The processes, and whether there are others that found no slot.
pub(crate) fn read(file: &File) -> Result<(Vec<CudaProcess>, bool), UsageError> {
    let mut bytes = vec![0; size_of::<UsageFile>()];
    file.read_exact_at(&mut bytes, 0).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => UsageError::Damaged("it is too short"),
        _ => UsageError::File(error),
    })?;
    let is_whole = word(&bytes, offset_of!(UsageFile, magic)) == USAGE_MAGIC
        && half(&bytes, offset_of!(UsageFile, version)) == VERSION;
    if !is_whole {
        return Err(UsageError::Damaged("its header was overwritten"));
    }
    let processes = (0..SLOTS_MAX).filter_map(|slot| process_at(&bytes, slot)).collect();
    let is_short = half(&bytes, offset_of!(UsageFile, flags)) & FLAG_NO_SLOT != 0;
    Ok((processes, is_short))
}

fn process_at(bytes: &[u8], slot: usize) -> Option<CudaProcess> {
    let at = place(slot);
    let (pid, start) = match word(bytes, at + offset_of!(Slot, identity)) {
        0 => return None,
        identity => parts(identity),
    };
    let used = at + offset_of!(Slot, used);
    let flags = half(bytes, at + offset_of!(Slot, flags));
    Some(CudaProcess {
        slot,
        pid,
        start,
        used: (0..DEVICES_MAX).map(|ix| word(bytes, used + ix * size_of::<u64>())).collect(),
        n_in_flight: half(bytes, at + offset_of!(Slot, in_flight)),
        n_waiting: half(bytes, at + offset_of!(Slot, waiting)),
        shares_memory: flags & FLAG_SHARED_MEMORY != 0,
        has_managed_memory: flags & FLAG_MANAGED_MEMORY != 0,
    })
}

/// Clears the slot of a dead process. The identity goes last: a new process may then claim the
/// slot. Nothing else writes to the slot meanwhile, and a word that is read half written is never
/// above its old value.
pub(crate) fn clear(file: &File, process: &CudaProcess) -> io::Result<()> {
    let at = place(process.slot) as u64;
    let begin = offset_of!(Slot, flags);
    let zeros = [0; size_of::<Slot>()];
    file.write_all_at(&zeros[begin..], at + begin as u64)?;
    file.write_all_at(&zeros[..size_of::<u64>()], at + offset_of!(Slot, identity) as u64)
}

fn place(slot: usize) -> usize {
    offset_of!(UsageFile, slots) + slot * size_of::<Slot>()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |half| u32::from_ne_bytes(*half))
}
