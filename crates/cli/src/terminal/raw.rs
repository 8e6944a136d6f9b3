//! A terminal whose keys come as they are typed, and its way back: whatever ends this program, but
//! what can't be caught, leaves the terminal as it was.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// How the terminal was, while it is raw.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();
/// Whether this program fills the screen itself meanwhile.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// The second screen, without a cursor, on which long lines are cut.
const FULL: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l";

/// What programs turn on that fill a whole screen, turned off: the second screen, a hidden cursor,
/// lines that are cut, the mouse, marked pastes, colours.
const PLAIN: &[u8] =
    b"\x1b[?1049l\x1b[?25h\x1b[?7h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m";

/// The terminal of standard input is raw as long as this is there.
#[derive(Debug)]
pub struct Raw(());

impl Raw {
    /// Makes it raw.
    ///
    /// # Errors
    /// Standard input is no terminal.
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

    /// Makes it raw, and leaves what is on it alone: it shows another screen.
    ///
    /// # Errors
    /// Standard input is no terminal.
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

/// Whether the terminal is raw.
#[must_use]
pub fn is_on() -> bool {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Makes it raw again, after somebody else has changed it: a shell does when this program was
/// stopped and goes on.
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

/// Makes it as it was.
pub fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        if IS_FULL.swap(false, Ordering::SeqCst) {
            plain();
        }
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

/// Turns off what a program that goes on elsewhere has turned on.
pub fn plain() {
    say(PLAIN);
}

fn say(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
