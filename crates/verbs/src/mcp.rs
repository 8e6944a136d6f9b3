//! `gpool mcp`: tools for assistants. The program `gpool-mcp` has the library of the protocol.

use gpool_cli::failure::Result;

use crate::other_program;

/// Replaces this process by `gpool-mcp` with the same command line.
///
/// # Errors
/// There is no such program.
pub fn run() -> Result {
    other_program::run("gpool-mcp", "crates/mcp")
}
