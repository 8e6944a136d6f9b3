//! System calls and the few functions of the C library that the shim needs. System calls go past
//! the C library: they change neither `errno` nor the state of the program's threads.

use core::arch::asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::AtomicU32;

// The oldest versions of these functions: programs with an older glibc than the one of this build,
// in containers for example, must be able to load the shim.
core::arch::global_asm!(".symver dlopen, dlopen@GLIBC_2.2.5", ".symver dlsym, dlsym@GLIBC_2.2.5",);

// `dl` is part of `c` since glibc 2.34.
#[link(name = "c")]
#[link(name = "dl")]
unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn getenv(name: *const c_char) -> *const c_char;
    fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
}

const RTLD_NOW: c_int = 2;

const READ: usize = 0;
const WRITE: usize = 1;
const OPEN: usize = 2;
const CLOSE: usize = 3;
const STAT: usize = 4;
const FSTAT: usize = 5;
const POLL: usize = 7;
const MMAP: usize = 9;
const MUNMAP: usize = 11;
const SCHED_YIELD: usize = 24;
const MADVISE: usize = 28;
const NANOSLEEP: usize = 35;
const GETPID: usize = 39;
const SOCKET: usize = 41;
const CONNECT: usize = 42;
const SENDTO: usize = 44;
const RECVFROM: usize = 45;
const GETTID: usize = 186;
const FUTEX: usize = 202;
const CLOCK_GETTIME: usize = 228;
const EXIT_GROUP: usize = 231;

pub const EAGAIN: isize = -11;
pub const EINTR: isize = -4;

const O_CLOEXEC: usize = 0o2_000_000;
const O_RDWR: usize = 2;
const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MADV_WIPEONFORK: usize = 18;
const FUTEX_WAIT: usize = 0;
const CLOCK_MONOTONIC: usize = 1;
const AF_UNIX: usize = 1;
/// `SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK`.
const STREAM: usize = 1 | 0o2_000_000 | 0o4_000;
const MSG_NOSIGNAL: usize = 0x4000;
const POLLIN: i16 = 1;

unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    asm!(
        "syscall",
        inlateout("rax") number as isize => result,
        in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
        lateout("rcx") _, lateout("r11") _,
        options(nostack),
    );
    result
}

/// Ends the process.
pub fn die(text: &[u8]) -> ! {
    loop {
        // SAFETY: no memory changes.
        unsafe {
            call(WRITE, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]);
            call(EXIT_GROUP, [134, 0, 0, 0, 0, 0]);
        }
    }
}

/// An open file or socket, closed at the end.
pub struct Descriptor(usize);

impl Descriptor {
    fn new(result: isize) -> Option<Self> {
        usize::try_from(result).ok().map(Self)
    }

    /// Opens a file to read, or to read and write.
    pub fn open(path: &CStr, writes: bool) -> Option<Self> {
        let flags = O_CLOEXEC | if writes { O_RDWR } else { 0 };
        // SAFETY: the path is a C string.
        Self::new(unsafe { call(OPEN, [path.as_ptr() as usize, flags, 0, 0, 0, 0]) })
    }

    pub fn read(&self, buffer: &mut [u8]) -> usize {
        let (at, size) = (buffer.as_mut_ptr() as usize, buffer.len());
        // SAFETY: the buffer has this size.
        usize::try_from(unsafe { call(READ, [self.0, at, size, 0, 0, 0]) }).unwrap_or(0)
    }

    /// The size of the file.
    pub fn size(&self) -> usize {
        let mut stat = [0_u64; 18];
        // SAFETY: `struct stat` has 144 bytes.
        let result = unsafe { call(FSTAT, [self.0, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) };
        if result < 0 { 0 } else { stat[6] as usize }
    }

    /// Maps the whole file for all processes; null if it can't.
    pub fn map(&self, size: usize, writes: bool) -> *mut u8 {
        let access = PROT_READ | if writes { PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address that the kernel chooses.
        mapped(unsafe { call(MMAP, [0, size, access, MAP_SHARED, self.0, 0]) })
    }

    pub fn socket() -> Option<Self> {
        // SAFETY: no memory is involved.
        Self::new(unsafe { call(SOCKET, [AF_UNIX, STREAM, 0, 0, 0, 0]) })
    }

    /// Connects to a socket in the file system; the path has at most 107 bytes.
    pub fn connect(&self, path: &CStr) -> isize {
        let mut address = [0_u8; 110];
        address[0] = AF_UNIX as u8;
        for (to, from) in address[2..109].iter_mut().zip(path.to_bytes()) {
            *to = *from;
        }
        // SAFETY: the buffer has this size.
        unsafe { call(CONNECT, [self.0, address.as_ptr() as usize, address.len(), 0, 0, 0]) }
    }

    pub fn send(&self, bytes: &[u8]) -> isize {
        let (at, size) = (bytes.as_ptr() as usize, bytes.len());
        // SAFETY: the buffer has this size.
        unsafe { call(SENDTO, [self.0, at, size, MSG_NOSIGNAL, 0, 0]) }
    }

    pub fn receive(&self, buffer: &mut [u8]) -> isize {
        let (at, size) = (buffer.as_mut_ptr() as usize, buffer.len());
        // SAFETY: the buffer has this size.
        unsafe { call(RECVFROM, [self.0, at, size, 0, 0, 0]) }
    }

    /// Waits until there is something to read.
    pub fn wait(&self, ms: u64) -> isize {
        #[repr(C)]
        struct PollFd {
            fd: i32,
            events: i16,
            revents: i16,
        }
        let mut poll = PollFd { fd: self.0 as i32, events: POLLIN, revents: 0 };
        let ms = ms.min(i32::MAX as u64) as usize;
        // SAFETY: one structure.
        unsafe { call(POLL, [(&raw mut poll) as usize, 1, ms, 0, 0, 0]) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: an own descriptor.
        unsafe { call(CLOSE, [self.0, 0, 0, 0, 0, 0]) };
    }
}

fn mapped(result: isize) -> *mut u8 {
    if (-4095..0).contains(&result) { core::ptr::null_mut() } else { result as *mut u8 }
}

/// New memory filled with zeros; null if there is none.
pub fn memory(size: usize) -> *mut u8 {
    let access = PROT_READ | PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    mapped(unsafe { call(MMAP, [0, size, access, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0]) })
}

/// Has a child process begin with zeros in this memory.
pub unsafe fn forget_on_fork(at: *mut u8, size: usize) {
    call(MADVISE, [at as usize, size, MADV_WIPEONFORK, 0, 0, 0]);
}

pub unsafe fn free(at: *mut u8, size: usize) {
    call(MUNMAP, [at as usize, size, 0, 0, 0, 0]);
}

/// Waits until a word changes, for at most `ms`. The word may be in a file that is mapped to read.
pub fn wait_for_change(word: &AtomicU32, value: u32, ms: u64) {
    let timeout = [ms / 1000, ms % 1000 * 1_000_000];
    let (at, until) = (word.as_ptr() as usize, timeout.as_ptr() as usize);
    // SAFETY: the word and the time are valid.
    unsafe { call(FUTEX, [at, FUTEX_WAIT, value as usize, until, 0, 0]) };
}

pub fn sleep(ms: u64) {
    let time = [ms / 1000, ms % 1000 * 1_000_000];
    // SAFETY: the time is valid.
    unsafe { call(NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

pub fn give_way() {
    // SAFETY: no memory is involved.
    unsafe { call(SCHED_YIELD, [0; 6]) };
}

/// Milliseconds of a clock that only goes forward.
pub fn now_ms() -> u64 {
    let mut time = [0_u64; 2];
    // SAFETY: `struct timespec` has two words.
    unsafe { call(CLOCK_GETTIME, [CLOCK_MONOTONIC, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0].wrapping_mul(1000).wrapping_add(time[1] / 1_000_000)
}

pub fn process_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call(GETPID, [0; 6]) as u32 }
}

pub fn thread_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call(GETTID, [0; 6]) as u32 }
}

/// Device and inode of a file.
pub fn file_id(path: &CStr) -> Option<[u64; 2]> {
    let mut stat = [0_u64; 18];
    let (path, at) = (path.as_ptr() as usize, stat.as_mut_ptr() as usize);
    // SAFETY: `struct stat` has 144 bytes.
    let result = unsafe { call(STAT, [path, at, 0, 0, 0, 0]) };
    (result >= 0).then_some([stat[0], stat[1]])
}

/// A variable of the environment.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is a C string. The value is used before the program can change it.
    unsafe {
        let value = getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// Changes a variable of the environment.
pub fn set_variable(name: &CStr, value: &CStr) {
    // SAFETY: both are C strings, which are copied. As with every change, a thread of the program
    // that reads the environment past the C library can see neither value.
    unsafe { setenv(name.as_ptr(), value.as_ptr(), 1) };
}

/// Loads a library; null if it can't.
pub fn load(path: &CStr) -> *mut c_void {
    // SAFETY: the path is a C string.
    unsafe { dlopen(path.as_ptr(), RTLD_NOW) }
}

/// The address of a symbol of a library; 0 if it has none.
pub fn symbol(library: *mut c_void, name: &CStr) -> usize {
    // SAFETY: a handle of `load`, and a C string.
    unsafe { dlsym(library, name.as_ptr()) as usize }
}
