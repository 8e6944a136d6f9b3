//! Valohai: its command `vh`, which is `gpool vh`.

use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::shim::{Family, Shim, gpool};

/// Runs steps of a valohai.yaml.
pub const VH: Shim = Shim { name: "vh", family: Family::Valohai, run, spoken: &[] };

fn run(words: &[String], session: &Session) -> Result {
    let mut line = vec!["vh".to_owned()];
    line.extend_from_slice(words);
    gpool(&line, session)
}
