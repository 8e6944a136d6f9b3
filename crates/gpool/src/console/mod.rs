//! The user's terminal as a window to one at a job: typed bytes go there, its output comes here.
//! Raw meanwhile, and as it was before however it ends.

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

/// Why a console is left before its job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// The detach keys were typed.
    Detached,
    /// This program was told to end by a signal.
    Signal(i32),
}

/// One end of a line, for several threads to speak over; which line it is may change.
#[derive(Clone, Default)]
pub struct Outgoing(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Held while something is said, so that frames of two threads do not mix; with the size of
    /// the window that the other end knows.
    known: Mutex<Option<Window>>,
}

#[derive(Default)]
struct State {
    line: Option<Arc<UnixStream>>,
    leaving: Option<Leaving>,
}

impl Outgoing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Option<Window>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Speaks over that line from now on; its other end takes the window to be of that size.
    pub fn set(&self, line: Option<Arc<UnixStream>>, window: Option<Window>) {
        *self.known() = window;
        self.state().line = line;
    }

    /// Says something, if there is a line. What can't be said shows where the line is read.
    pub fn say(&self, frame: &Frame) {
        let _turn = self.known();
        self.write(frame);
    }

    /// Says how large the window is now, unless that is known.
    pub fn say_size(&self) {
        let mut known = self.known();
        let now = window();
        if known.replace(now) != Some(now) {
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

    /// Has whoever reads the line leave it.
    pub fn leave(&self, why: Leaving) {
        let mut state = self.state();
        state.leaving.get_or_insert(why);
        if let Some(line) = &state.line {
            let _ = line.shutdown(Shutdown::Both);
        }
    }

    /// Why the line is to be left, if it is.
    #[must_use]
    pub fn leaving(&self) -> Option<Leaving> {
        self.state().leaving
    }
}
