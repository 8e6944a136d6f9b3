//! Reads a line from the terminal without an echo.

use std::io::BufRead as _;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// Asks for a line that the terminal does not show; `None` if standard input is no terminal.
///
/// # Errors
/// The line can't be read.
pub(crate) fn hidden(prompt: &str) -> Result<Option<String>> {
    let terminal = std::io::stdin();
    let Ok(before) = tcgetattr(&terminal) else { return Ok(None) };
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    eprint!("{prompt}");
    // Without success the line is echoed, which is better than no answer.
    let _ = tcsetattr(&terminal, OptionalActions::Flush, &silent);
    let mut line = String::new();
    let read = terminal.lock().read_line(&mut line);
    let _ = tcsetattr(&terminal, OptionalActions::Flush, &before);
    eprintln!();
    read.map_err(|error| Failure::new(errors::USAGE, format!("can't read the answer: {error}")))?;
    Ok(Some(line))
}
