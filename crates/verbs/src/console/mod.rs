//! Connects the user's terminal with the terminal of a job: sends what the user types, shows what
//! the job writes. The terminal is raw meanwhile and is restored in every case.

pub mod keys;
mod stay;

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpool_cli::terminal::window;
use gpool_wire::Window;
use gpool_wire::frame::Frame;

pub use keys::DetachKeys;
pub use stay::{Stayed, say, stay};

/// Why the user left a console before the end of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// The detach keys were typed.
    Detached,
    /// A signal asked this program to end.
    Signal(i32),
}

/// The sending end of a stream, shared by threads; the stream may be replaced.
#[derive(Clone, Default)]
pub struct Outgoing(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<OutgoingState>,
    /// The window size that the other end knows. The lock is held while a frame is sent, so that
    /// frames of two threads do not mix.
    peer_window: Mutex<Option<Window>>,
}

#[derive(Default)]
struct OutgoingState {
    line: Option<Arc<UnixStream>>,
    leaving: Option<Leaving>,
}

impl Outgoing {
    fn state(&self) -> MutexGuard<'_, OutgoingState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peer_window(&self) -> MutexGuard<'_, Option<Window>> {
        self.0.peer_window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends over this stream from now on; its other end knows this window size.
    pub fn set(&self, line: Option<Arc<UnixStream>>, window: Option<Window>) {
        *self.peer_window() = window;
        self.state().line = line;
    }

    /// Sends a frame, if there is a stream. The reading thread notices a broken stream.
    pub fn say(&self, frame: &Frame) {
        let _turn = self.peer_window();
        self.write(frame);
    }

    /// Sends the window size if it has changed.
    pub fn say_size(&self) {
        let mut peer_window = self.peer_window();
        let now = window();
        if peer_window.replace(now) != Some(now) {
            self.write(&Frame::Resize(now.into()));
        }
    }

    fn write(&self, frame: &Frame) {
        let line = self.state().line.clone();
        if let Some(line) = line {
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            let _ = (&*line).write_all(&bytes);
        }
    }

    /// Makes the thread that reads the stream leave it.
    pub fn leave(&self, why: Leaving) {
        let mut state = self.state();
        state.leaving.get_or_insert(why);
        if let Some(line) = &state.line {
            let _ = line.shutdown(Shutdown::Both);
        }
    }

    /// Why the stream has to be left, if it has to.
    #[must_use]
    pub fn leaving(&self) -> Option<Leaving> {
        self.state().leaving
    }
}
