//! The bytes of device memory: a sparse file whose parts are mapped at device addresses. A
//! checkpoint moves the content to a second file.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// Every object begins at a multiple of this, as mappings of a file need.
const PAGE: u64 = 4096;

/// The bytes of all objects of the process.
pub(crate) struct Heap {
    file: File,
    /// The end of the last object.
    end: u64,
    /// The content while the process is checkpointed.
    saved: Option<File>,
}

impl Heap {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { file: memory_file()?, end: 0, saved: None })
    }

    /// Appends an object and returns its offset.
    pub(crate) fn add(&mut self, size: u64) -> io::Result<u64> {
        let offset = self.end;
        self.end += size.div_ceil(PAGE) * PAGE;
        self.file.set_len(self.end)?;
        Ok(offset)
    }

    /// Forgets the content of an object.
    pub(crate) fn clear(&self, offset: u64, size: u64) {
        punch(&self.file, offset, size.div_ceil(PAGE) * PAGE);
    }

    /// Maps an object anywhere; returns its address.
    pub(crate) fn map(&self, offset: u64, size: u64) -> io::Result<u64> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        unsafe { self.map_at(std::ptr::null_mut(), 0, offset, size) }
    }

    /// Maps an object at a reserved address.
    ///
    /// # Safety
    /// The range is a reservation of this process that nothing else uses.
    pub(crate) unsafe fn map_over(&self, address: u64, offset: u64, size: u64) -> io::Result<u64> {
        let address = std::ptr::with_exposed_provenance_mut(position(address));
        // SAFETY: the caller's promise.
        unsafe { self.map_at(address, libc::MAP_FIXED, offset, size) }
    }

    unsafe fn map_at(
        &self,
        address: *mut libc::c_void,
        flags: libc::c_int,
        offset: u64,
        size: u64,
    ) -> io::Result<u64> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_SHARED | libc::MAP_NORESERVE;
        let fd = self.file.as_raw_fd();
        // SAFETY: an own file, and the caller's promise about the address.
        let mapped =
            unsafe { libc::mmap(address, position(size), access, flags, fd, signed(offset)) };
        checked(mapped)
    }

    /// Moves the content away, as a checkpoint does.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        let saved = memory_file()?;
        saved.set_len(self.end)?;
        copy_data(&self.file, &saved, self.end)?;
        punch(&self.file, 0, self.end);
        self.saved = Some(saved);
        Ok(())
    }

    /// Moves the content back.
    pub(crate) fn restore(&mut self) -> io::Result<()> {
        match self.saved.take() {
            Some(saved) => copy_data(&saved, &self.file, self.end),
            None => Ok(()),
        }
    }
}

/// Reserves addresses without memory.
pub(crate) fn reserve(size: u64) -> io::Result<u64> {
    // SAFETY: a new mapping at an address that the kernel chooses.
    unsafe { reserve_at(std::ptr::null_mut(), 0, size) }
}

/// Takes the memory away from reserved addresses.
///
/// # Safety
/// The range is a reservation of this process.
pub(crate) unsafe fn reserve_over(address: u64, size: u64) -> io::Result<u64> {
    let address = std::ptr::with_exposed_provenance_mut(position(address));
    // SAFETY: the caller's promise.
    unsafe { reserve_at(address, libc::MAP_FIXED, size) }
}

unsafe fn reserve_at(address: *mut libc::c_void, flags: libc::c_int, size: u64) -> io::Result<u64> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: memory without access, and the caller's promise about the address.
    checked(unsafe { libc::mmap(address, position(size), libc::PROT_NONE, flags, -1, 0) })
}

/// Ends a mapping or reservation.
///
/// # Safety
/// The range is a mapping or reservation of this process that nothing uses any more.
pub(crate) unsafe fn unmap(address: u64, size: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        libc::munmap(std::ptr::with_exposed_provenance_mut(position(address)), position(size))
    };
}

fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a C string; the result is checked and owned by the file.
    unsafe {
        let fd = libc::memfd_create(c"device memory".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(fd)) }
    }
}

/// Copies the written parts of a sparse file: devices are larger than the host's memory.
fn copy_data(from: &File, to: &File, end: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while let Some(start) = seek(from, at, libc::SEEK_DATA).filter(|start| *start < end) {
        let stop = seek(from, start, libc::SEEK_HOLE).unwrap_or(end).min(end);
        at = start;
        while at < stop {
            let n = position(stop - at).min(buffer.len());
            from.read_exact_at(&mut buffer[..n], at)?;
            to.write_all_at(&buffer[..n], at)?;
            at += n as u64;
        }
    }
    Ok(())
}

fn seek(file: &File, from: u64, what: libc::c_int) -> Option<u64> {
    // SAFETY: a system call about an own file.
    u64::try_from(unsafe { libc::lseek(file.as_raw_fd(), signed(from), what) }).ok()
}

fn punch(file: &File, offset: u64, size: u64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a system call about an own file.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, signed(offset), signed(size)) };
}

fn checked(mapped: *mut libc::c_void) -> io::Result<u64> {
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(mapped.expose_provenance() as u64)
}

fn signed(offset: u64) -> libc::off_t {
    libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX)
}

fn position(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
