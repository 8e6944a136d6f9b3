//! A full-screen picture on the terminal. The previous contents are restored in every case.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gpool_wire::Window;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGQUIT, SIGTERM};
use signal_hook::flag;

use super::raw::{self, Raw};
use super::window;
use crate::errors;
use crate::failure::{Failure, Result};
use crate::screen::Screen;

/// A picture on the terminal of standard input and output.
pub struct FullScreen {
    _raw: Raw,
    /// Whether the terminal is restored, so that a signal takes its default effect.
    is_left: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    goes_on: Arc<AtomicBool>,
    window: Window,
    screen_lines: Vec<String>,
}

/// The terminal has gone, or a signal ends this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalClosed;

impl FullScreen {
    /// Starts with an empty picture. While it exists, signals do not end this program.
    ///
    /// # Errors
    /// Standard input is not a terminal, or signals can't be caught.
    pub fn enter() -> Result<Self> {
        let no_signals =
            |error| Failure::new(errors::INTERNAL, format!("can't catch signals: {error}"));
        let [is_left, goes_on] = [true, false].map(|is_so| Arc::new(AtomicBool::new(is_so)));
        let signal = Arc::new(AtomicUsize::new(0));
        for ends in [SIGHUP, SIGQUIT, SIGTERM] {
            let number = usize::try_from(ends).unwrap_or_default();
            flag::register_conditional_default(ends, Arc::clone(&is_left))
                .and_then(|_| flag::register_usize(ends, Arc::clone(&signal), number))
                .map_err(no_signals)?;
        }
        flag::register(SIGCONT, Arc::clone(&goes_on)).map_err(no_signals)?;
        is_left.store(false, Ordering::SeqCst);
        let raw = Raw::enter_full().inspect_err(|_| is_left.store(true, Ordering::SeqCst));
        let raw = raw.map_err(|error| {
            let what = format!("can't use standard input as a terminal: {error}");
            Failure::new(errors::NO_TERMINAL_HERE, what)
        })?;
        Ok(Self { _raw: raw, is_left, signal, goes_on, window: window(), screen_lines: Vec::new() })
    }

    /// Its current size: columns and lines. The last column stays empty, since some terminals wrap
    /// after it.
    pub fn size(&mut self) -> (usize, usize) {
        let window = window();
        if self.goes_on.swap(false, Ordering::SeqCst) {
            // The shell has changed the terminal while this program was stopped.
            raw::again();
            self.screen_lines.clear();
        }
        if window != self.window {
            self.window = window;
            self.screen_lines.clear();
        }
        (usize::from(window.columns).saturating_sub(1), usize::from(window.rows))
    }

    /// Shows exactly these lines in terminal format, none wider than the screen; only changed ones
    /// are written.
    pub fn show_lines(&mut self, screen: &Screen, lines: Vec<String>) -> Result<()> {
        let mut text = String::new();
        if self.screen_lines.is_empty() {
            text.push_str("\x1b[2J");
        }
        for ix in 0..lines.len().max(self.screen_lines.len()) {
            let line = lines.get(ix).map_or("", String::as_str);
            if self.screen_lines.get(ix).map(String::as_str) != Some(line) {
                text.push_str(&format!("\x1b[{};1H{line}\x1b[K", ix + 1));
            }
        }
        self.screen_lines = lines;
        if text.is_empty() { Ok(()) } else { screen.data(&text) }
    }

    /// Waits for input until the timeout; returns the typed bytes.
    ///
    /// # Errors
    /// The terminal has gone, or a signal asks this program to end.
    pub fn typed(&self, timeout: Duration) -> std::result::Result<Vec<u8>, TerminalClosed> {
        let stdin = std::io::stdin();
        let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        // A signal interrupts the wait with an error; then there is no input.
        let n_ready = poll(&mut ends, timeout.as_ref()).unwrap_or(0);
        if self.ending().is_some() {
            return Err(TerminalClosed);
        }
        if n_ready == 0 {
            return Ok(Vec::new());
        }
        let mut buffer = [0; 256];
        match rustix::io::read(&stdin, &mut buffer) {
            Ok(n_read @ 1..) => Ok(buffer[..n_read].to_vec()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Vec::new()),
            Ok(_) | Err(_) => Err(TerminalClosed),
        }
    }

    /// The signal that asked this program to end.
    #[must_use]
    pub fn ending(&self) -> Option<i32> {
        i32::try_from(self.signal.load(Ordering::SeqCst)).ok().filter(|signal| *signal != 0)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        raw::restore();
        self.is_left.store(true, Ordering::SeqCst);
    }
}
