//! A terminal in raw mode. However this program ends, except by SIGKILL, the terminal is restored.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// The previous settings while the terminal is raw.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();
/// Whether this program shows a full-screen picture.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Turns on the alternate screen without a cursor, with long lines cut.
const FULL: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l";

/// Turns off everything that full-screen programs turn on: alternate screen, hidden cursor, cut
/// lines, mouse, bracketed paste, colors.
const PLAIN: &[u8] =
    b"\x1b[?1049l\x1b[?25h\x1b[?7h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m";

/// Keeps the terminal of standard input raw until it is dropped.
#[derive(Debug)]
pub struct Raw(());

impl Raw {
    /// Makes the terminal raw.
    ///
    /// # Errors
    /// Standard input is not a terminal.
    pub fn enter() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                usual(info);
            }));
        });
        BEFORE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(before);
        again();
        Ok(Self(()))
    }

    /// Makes the terminal raw and switches to the alternate screen, so that its contents stay.
    ///
    /// # Errors
    /// Standard input is not a terminal.
    pub fn enter_full() -> std::io::Result<Self> {
        IS_FULL.store(true, Ordering::SeqCst);
        Self::enter().inspect_err(|_| IS_FULL.store(false, Ordering::SeqCst))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

#[must_use]
pub fn is_on() -> bool {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Makes the terminal raw again: a shell resets it while this program is stopped.
pub fn again() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = &*before {
        let mut raw = before.clone();
        raw.make_raw();
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &raw);
        if IS_FULL.load(Ordering::SeqCst) {
            say(FULL);
        }
    }
}

pub fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        if IS_FULL.swap(false, Ordering::SeqCst) {
            plain();
        }
        // If the terminal has gone, there is nothing to restore.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

/// Turns off the modes that a detached program has turned on.
pub fn plain() {
    say(PLAIN);
}

fn say(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
