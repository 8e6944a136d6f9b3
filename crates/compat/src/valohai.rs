//! Valohai: its command `vh`, which is `gpool vh`.

use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::shim::{Family, Shim, gpool};

/// Runs steps of a valohai.yaml.
pub const VH: Shim = Shim { name: "vh", family: Family::Valohai, run, spoken: &[] };

fn run(words: &[String], session: &Session) -> Result {
    let asks_help = words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h");
    let start: &[&str] = if asks_help { &["help", "vh"] } else { &["vh"] };
    let words = words.iter().filter(|word| !asks_help || !word.starts_with('-'));
    let line: Vec<String> =
        start.iter().map(|word| (*word).to_owned()).chain(words.cloned()).collect();
    gpool(&line, session)
}
