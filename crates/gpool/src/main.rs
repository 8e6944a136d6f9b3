//! The one binary. The processes that fork shepherds and that call the driver are also this
//! program: they branch off before any other setup, so that they hold nothing they do not need.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    gpool::failpoint::arm();
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    match words.get(1).and_then(|word| word.to_str()) {
        Some(gpool_shepherd::nursery::ARGUMENT) => gpool_shepherd::nursery::main(),
        Some(gpool_checkpoint::ARGUMENT) => {
            gpool_checkpoint::main(words.get(2).and_then(|word| word.to_str())).into()
        }
        _ => {
            // The server decides otherwise.
            gpool_sys::memory::never_give_back();
            gpool::entry::main(words).into()
        }
    }
}
