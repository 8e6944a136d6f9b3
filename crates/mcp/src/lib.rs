//! `gpool mcp`: the answers of the API as tools for assistants, by the Model Context Protocol over
//! standard input and output. A program of its own, so that its library costs no other command.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

mod answer;
mod arguments;
mod asks;
mod changes;
mod cli;
mod field;
mod server;
mod table;

pub use answer::{failure, short};
pub use arguments::Arguments;
pub use cli::main;
pub use field::{Field, FieldKind};
pub use table::{TOOLS, Tool};
