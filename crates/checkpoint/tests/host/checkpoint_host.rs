//! The program of keepers and helpers in tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1) {
        Some(word) if word == gpool_checkpoint::ARGUMENT => {
            gpool_checkpoint::main(words.get(2).map(String::as_str)).into()
        }
        _ => ExitCode::from(2),
    }
}
