//! The `grants` file, which the agent maps: it owns the file, and no job may write it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::{
    self, DEVICES_MAX, GATE_EMPTY, GATE_PAUSING, GATE_RELEASED, GRANTS_MAGIC, Grants, VERSION,
};

/// The limits of a job on a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub uuid: [u8; 16],
    /// Guaranteed to the job.
    pub request: u64,
    /// The ceiling, which the job sees as the size of the device.
    pub limit: u64,
    /// The processes may use this without asking.
    pub granted: u64,
    /// Charged for the first context of each process.
    pub context: u64,
}

/// Which calls of the job's processes wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// None.
    Open,
    /// Synchronisations and queries: they crash in a process that the driver has checkpointed.
    Pausing,
    /// All work. The first call asks for the devices ([`crate::Wish::Return`]).
    Released,
}

impl Gate {
    fn bits(self) -> u32 {
        match self {
            Self::Open => 0,
            Self::Pausing => GATE_PAUSING,
            Self::Released => GATE_PAUSING | GATE_RELEASED,
        }
    }
}

pub(crate) fn write_uuid(words: &[AtomicU64; 2], uuid: [u8; 16]) {
    for (word, bytes) in words.iter().zip(uuid.as_chunks::<8>().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
}

pub(crate) struct Mapped {
    /// Points to a mapping that lives as long as this value.
    page: NonNull<Grants>,
}

// SAFETY: all fields of the mapping are atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (size, fd) = (size_of::<Grants>(), file.as_raw_fd());
        // SAFETY: a new shared mapping of an open file at an address that the kernel chooses.
        let page =
            unsafe { libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, fd, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { page })
    }

    fn page(&self) -> &Grants {
        // SAFETY: the mapping has the size of `Grants`, only atomics, and lives as long as `self`.
        // The file is the agent's own, and it does not truncate it.
        unsafe { self.page.as_ref() }
    }

    /// Fills a new file; the magic comes last.
    pub(crate) fn fill(&self, shares: &[Share], answer_ms: u32) {
        let page = self.page();
        page.version.store(VERSION, Relaxed);
        page.answer_ms.store(answer_ms, Relaxed);
        for (device, share) in page.devices.iter().zip(shares) {
            write_uuid(&device.uuid, share.uuid);
            write_uuid(&device.named, share.uuid);
            device.request.store(share.request, Relaxed);
            device.limit.store(share.limit, Relaxed);
            device.granted.store(share.granted.min(share.limit), Relaxed);
            device.context.store(share.context, Relaxed);
        }
        let n_devices = shares.len().min(DEVICES_MAX);
        page.n_devices.store(u32::try_from(n_devices).unwrap_or_default(), Relaxed);
        page.magic.store(GRANTS_MAGIC, SeqCst);
    }

    /// Whether the file is complete and of this version.
    pub(crate) fn is_whole(&self) -> bool {
        let page = self.page();
        page.magic.load(SeqCst) == GRANTS_MAGIC && page.version.load(SeqCst) == VERSION
    }

    pub(crate) fn shares(&self) -> Vec<Share> {
        let page = self.page();
        let n_devices = page.n_devices.load(SeqCst) as usize;
        let share = |device: &layout::Device| {
            let mut uuid = [0; 16];
            for (bytes, word) in uuid.as_chunks_mut::<8>().0.iter_mut().zip(&device.uuid) {
                *bytes = word.load(Relaxed).to_le_bytes();
            }
            let load = |word: &AtomicU64| word.load(SeqCst);
            Share {
                uuid,
                request: load(&device.request),
                limit: load(&device.limit),
                granted: load(&device.granted),
                context: load(&device.context),
            }
        };
        page.devices.iter().take(n_devices).map(share).collect()
    }

    pub(crate) fn add_unlimited(&self, uuids: &[[u8; 16]]) {
        let page = self.page();
        let n_devices = page.n_devices.load(SeqCst) as usize;
        let uuids = uuids.get(..DEVICES_MAX.saturating_sub(n_devices)).unwrap_or(uuids);
        for (device, uuid) in page.devices.iter().skip(n_devices).zip(uuids) {
            write_uuid(&device.uuid, *uuid);
            write_uuid(&device.named, *uuid);
        }
        page.n_unlimited.store(u32::try_from(uuids.len()).unwrap_or_default(), SeqCst);
    }

    /// The devices, also those without limits.
    pub(crate) fn all(&self) -> impl Iterator<Item = &layout::Device> {
        let page = self.page();
        let n = [&page.n_devices, &page.n_unlimited].map(|it| it.load(SeqCst) as usize);
        page.devices.iter().take(n[0].saturating_add(n[1]))
    }

    /// Whether the file has devices with their names.
    pub(crate) fn has_names(&self) -> bool {
        self.all().next().is_some()
            && self.all().all(|it| it.named.iter().any(|word| word.load(Relaxed) != 0))
    }

    pub(crate) fn device(&self, ix: usize) -> Option<&layout::Device> {
        let page = self.page();
        page.devices.get(ix).filter(|_| ix < page.n_devices.load(SeqCst) as usize)
    }

    pub(crate) fn set_request_wait(&self, ms: u32) {
        self.page().owed_ms.store(ms, SeqCst);
    }

    pub(crate) fn gate(&self) -> Gate {
        match self.page().gate.load(SeqCst) {
            0 => Gate::Open,
            bits if bits & GATE_RELEASED != 0 => Gate::Released,
            _ => Gate::Pausing,
        }
    }

    /// Sets the gate, and wakes the threads that wait at it.
    pub(crate) fn set_gate(&self, gate: Gate) {
        self.page().gate.store(gate.bits(), SeqCst);
        self.wake();
    }

    /// Says whether all work of the processes has ended, until the gate is set again.
    pub(crate) fn set_empty(&self, is_empty: bool) {
        let word = &self.page().gate;
        match is_empty {
            true => word.fetch_or(GATE_EMPTY, SeqCst),
            false => word.fetch_and(!GATE_EMPTY, SeqCst),
        };
        self.wake();
    }

    fn wake(&self) {
        let word: &AtomicU32 = &self.page().gate;
        let all = libc::c_int::MAX;
        // SAFETY: a wake-up at a mapped word; it changes no memory.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, all) };
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any more.
        unsafe { libc::munmap(self.page.as_ptr().cast(), size_of::<Grants>()) };
    }
}
