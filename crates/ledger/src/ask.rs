//! Questions of the job's processes: more memory, or the return of released devices.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use crate::layout::{
    ASK_MEMORY, ASK_RETURN, Ask, MESSAGE_MAGIC, REPLY_NO, REPLY_WAIT, REPLY_YES, Reply,
};

/// A shim sends its question at once. Another program must not hold the agent up.
const PATIENCE: Duration = Duration::from_millis(200);

pub struct QuestionSocket {
    listener: UnixListener,
}

/// A question that waits for its answer.
pub struct Question {
    stream: UnixStream,
    pub pid: u32,
    pub wish: Wish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// An allocation that needs this more than is granted.
    Memory {
        /// The device's index in the ledger.
        device: usize,
        bytes: u64,
        /// How long it has waited already, by its own account.
        waited: Duration,
    },
    /// The released devices. The answer is ignored: the gate opens.
    Return,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The allocation fails.
    No,
    /// The grant was raised, or memory was freed: the process tries again.
    Yes,
    /// Another answer follows within this time.
    Wait(Duration),
}

impl QuestionSocket {
    pub(crate) fn new(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// The next question; `None` if there is none now, or the process sent something else.
    pub fn next(&self) -> io::Result<Option<Question>> {
        let mut stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut bytes = [0; size_of::<Ask>()];
        if stream.read_exact(&mut bytes).is_err() {
            return Ok(None);
        }
        let Some(wish) = wish(&bytes) else { return Ok(None) };
        Ok(Some(Question { pid: peer(&stream)?, stream, wish }))
    }
}

impl AsFd for QuestionSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Question {
    /// Sends an answer. After [`Answer::Wait`], another one must follow.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn answer(&mut self, answer: Answer) -> io::Result<()> {
        let (kind, ms) = match answer {
            Answer::No => (REPLY_NO, 0),
            Answer::Yes => (REPLY_YES, 0),
            Answer::Wait(time) => (REPLY_WAIT, u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
        };
        let mut bytes = [0; size_of::<Reply>()];
        for (to, from) in bytes.as_chunks_mut::<4>().0.iter_mut().zip([MESSAGE_MAGIC, kind, ms]) {
            *to = from.to_ne_bytes();
        }
        self.stream.write_all(&bytes)
    }

    /// Whether the process has ended, or waits no more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let mut byte = 0_u8;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: a buffer of one byte.
        let n = unsafe { libc::recv(self.stream.as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
        // A process that waits sends nothing more.
        n >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
    }
}

fn wish(bytes: &[u8; size_of::<Ask>()]) -> Option<Wish> {
    let half = |at: usize| bytes[at..].first_chunk().map_or(0, |it| u32::from_ne_bytes(*it));
    if half(std::mem::offset_of!(Ask, magic)) != MESSAGE_MAGIC {
        return None;
    }
    match half(std::mem::offset_of!(Ask, kind)) {
        ASK_MEMORY => {
            let size = bytes[std::mem::offset_of!(Ask, bytes)..].first_chunk();
            let device = half(std::mem::offset_of!(Ask, device)) as usize;
            let waited = half(std::mem::offset_of!(Ask, waited_ms));
            let waited = Duration::from_millis(waited.into());
            size.map(|it| Wish::Memory { device, bytes: u64::from_ne_bytes(*it), waited })
        }
        ASK_RETURN => Some(Wish::Return),
        _ => None,
    }
}

/// The process at the other end, as the kernel knows it.
fn peer(stream: &UnixStream) -> io::Result<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or_default();
    let fd = stream.as_raw_fd();
    // SAFETY: the buffer has the size that is passed.
    let result = unsafe {
        let buffer = (&raw mut found).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, buffer, &raw mut size)
    };
    if result == 0 {
        Ok(u32::try_from(found.pid).unwrap_or_default())
    } else {
        Err(io::Error::last_os_error())
    }
}
