//! The whole terminal as a picture that changes, beside what was on it before: that is there again
//! however this ends.

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
use crate::render::row::Row;
use crate::screen::Screen;

/// A picture on the terminal of standard input and output.
pub struct FullScreen {
    _raw: Raw,
    is_left: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    goes_on: Arc<AtomicBool>,
    window: Window,
    /// What is shown, line by line.
    shown: Vec<String>,
}

/// The terminal has gone, or a signal ends this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

impl FullScreen {
    /// Begins with an empty picture. While it is there, `is_left` is not so: a signal that ends
    /// this program must wait for that then.
    ///
    /// # Errors
    /// Standard input is no terminal, or signals can't be caught.
    pub fn enter(is_left: &Arc<AtomicBool>) -> Result<Self> {
        let no_signals =
            |error| Failure::new(errors::INTERNAL, format!("can't catch signals: {error}"));
        let (signal, goes_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for ends in [SIGHUP, SIGQUIT, SIGTERM] {
            let number = usize::try_from(ends).unwrap_or_default();
            flag::register_conditional_default(ends, Arc::clone(is_left))
                .and_then(|_| flag::register_usize(ends, Arc::clone(&signal), number))
                .map_err(no_signals)?;
        }
        flag::register(SIGCONT, Arc::clone(&goes_on)).map_err(no_signals)?;
        is_left.store(false, Ordering::SeqCst);
        let raw = Raw::enter_full().inspect_err(|_| is_left.store(true, Ordering::SeqCst));
        let raw = raw.map_err(|error| {
            let what = format!("standard input is no terminal that can be used: {error}");
            Failure::new(errors::NO_TERMINAL_HERE, what)
        })?;
        let is_left = Arc::clone(is_left);
        Ok(Self { _raw: raw, is_left, signal, goes_on, window: window(), shown: Vec::new() })
    }

    /// How large it is now: columns and lines. The last column stays empty, since some terminals
    /// begin another line behind it.
    pub fn size(&mut self) -> (usize, usize) {
        let window = window();
        if self.goes_on.swap(false, Ordering::SeqCst) {
            // A shell made it its own meanwhile.
            raw::again();
            self.shown.clear();
        }
        if window != self.window {
            self.window = window;
            self.shown.clear();
        }
        (usize::from(window.columns).saturating_sub(1), usize::from(window.rows))
    }

    /// Shows these lines and no others; only those that changed are written.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn show(&mut self, screen: &Screen, rows: &[Row], columns: usize) -> Result<()> {
        self.show_lines(screen, rows.iter().map(|row| row.text(columns, screen.colors)).collect())
    }

    /// The same with lines as they are written to a terminal, none wider than it.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn show_lines(&mut self, screen: &Screen, lines: Vec<String>) -> Result<()> {
        let mut text = String::new();
        if self.shown.is_empty() {
            text.push_str("\x1b[2J");
        }
        for ix in 0..lines.len().max(self.shown.len()) {
            let line = lines.get(ix).map_or("", String::as_str);
            if self.shown.get(ix).map(String::as_str) != Some(line) {
                text.push_str(&format!("\x1b[{};1H{line}\x1b[K", ix + 1));
            }
        }
        self.shown = lines;
        if text.is_empty() { Ok(()) } else { screen.data(&text) }
    }

    /// Waits so long at most for keys; what was typed.
    ///
    /// # Errors
    /// The terminal has gone, or this program was told to end by a signal: then it is to be left.
    pub fn typed(&self, timeout: Duration) -> std::result::Result<Vec<u8>, Gone> {
        let stdin = std::io::stdin();
        let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        // A signal ends the waiting, as an error; then there is nothing to read.
        let n_ready = poll(&mut ends, timeout.as_ref()).unwrap_or(0);
        if self.ending().is_some() {
            return Err(Gone);
        }
        if n_ready == 0 {
            return Ok(Vec::new());
        }
        let mut buffer = [0; 256];
        match rustix::io::read(&stdin, &mut buffer) {
            Ok(n_read @ 1..) => Ok(buffer[..n_read].to_vec()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Vec::new()),
            Ok(_) | Err(_) => Err(Gone),
        }
    }

    /// The signal that this program was told to end by.
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
