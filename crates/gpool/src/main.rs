//! The one binary. The process that forks shepherds is also this program: it branches off before
//! any other setup, so that a shepherd holds nothing it does not need.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    gpool::failpoint::arm();
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    match words.get(1).and_then(|word| word.to_str()) {
        Some(gpool_agent::nursery::ARGUMENT) => gpool_agent::nursery::main(),
        _ => gpool::entry::main(words).into(),
    }
}
