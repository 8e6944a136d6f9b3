//! The events that the agent's thread waits for. Each descriptor has a token that is never reused,
//! so a late event can't be taken for another's.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, epoll, eventfd};

/// Identifies one watched descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token(u64);

/// Wakes the agent's thread from another one.
#[derive(Debug, Clone)]
pub(crate) struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event) })
    }

    pub(crate) fn wake(&self) {
        // It fails only if the counter is full; then the thread is about to wake anyway.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }

    /// The descriptor that becomes readable.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Resets the waker; call it before taking the inputs.
    pub(crate) fn clear(&self) {
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&*self.event, &mut count[..]);
    }
}

pub(crate) struct Poller {
    epoll: OwnedFd,
    next: u64,
}

impl Poller {
    pub(crate) const WAKER: Token = Token(0);

    pub(crate) fn new(waker: &Waker) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut watch = Self { epoll, next: 0 };
        watch.add(&*waker.event)?;
        Ok(watch)
    }

    /// Watches a descriptor for input or a hang-up. Closing the descriptor ends the watch.
    pub(crate) fn add(&mut self, fd: impl AsFd) -> io::Result<Token> {
        let token = Token(self.next);
        self.next += 1;
        let data = epoll::EventData::new_u64(token.0);
        epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?;
        Ok(token)
    }

    /// Stops watching a descriptor, because another thread takes it over.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // The descriptor was added, so it can be removed.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Starts or stops watching for room to write.
    pub(crate) fn want_room(&self, fd: impl AsFd, token: Token, wanted: bool) -> io::Result<()> {
        let room = if wanted { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
        let data = epoll::EventData::new_u64(token.0);
        Ok(epoll::modify(&self.epoll, fd, data, epoll::EventFlags::IN | room)?)
    }

    pub(crate) fn wait(&self) -> Vec<Token> {
        let mut room = [const { MaybeUninit::uninit() }; 64];
        match epoll::wait(&self.epoll, &mut room, None) {
            Ok((events, _)) => events.iter().map(|event| Token(event.data.u64())).collect(),
            // Interrupted: there are no events, and the next call waits again.
            Err(_) => Vec::new(),
        }
    }
}
