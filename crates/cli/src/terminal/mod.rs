//! The user's terminal: its size, its keys, and full-screen pictures.

pub mod full;
pub mod keys;
pub mod raw;

use gpool_wire::Window;

use crate::errors;
use crate::failure::Failure;

/// The size of this program's terminal; a default size if it is unknown.
#[must_use]
pub fn window() -> Window {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    match size {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            Window { rows: size.ws_row, columns: size.ws_col }
        }
        _ => Window { rows: 24, columns: 80 },
    }
}

/// The failure for a command that needs a terminal.
pub fn no_terminal(flag: &str) -> Failure {
    Failure::new(errors::NO_TERMINAL_HERE, format!("{flag} needs a terminal"))
        .why("standard input and output must be a terminal, not a pipe or a file")
}
