//! The program behind `gpool mcp`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    gpool_mcp::main(std::env::args_os().collect())
}
