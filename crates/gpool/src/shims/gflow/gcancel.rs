//! `gcancel`: ends jobs.

use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::reference::Reference;
use crate::resolve::{self, Scope};
use crate::session::Session;
use crate::shims::flag::Standing::{Covered, Instead};
use crate::shims::flag::Takes::{Nothing, Value};
use crate::shims::flag::{Flag, Spoken, row};
use crate::shims::{gpool, print, read};
use crate::verbs::act::Each;

static FLAGS: &[Flag] = &[
    row("dry-run", '\0', Nothing, Covered, "says which jobs it would end"),
    row("fail", '\0', Value, Instead, "jobs report their end by ending"),
    row("finish", '\0', Value, Instead, "jobs report their end by ending"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

/// `gcancel`.
pub static SPOKEN: Spoken =
    Spoken { name: "gcancel", about: "End jobs of gpool", flags: &[FLAGS], words: "IDS" };

/// Runs it.
///
/// # Errors
/// There are no such jobs, or the server refuses.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(said) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    if said.words.is_empty() {
        return Err(Failure::new(errors::USAGE, "gcancel: no job is named").tip("gcancel 1-3,7"));
    }
    if !said.has("dry-run") {
        let words = std::iter::once("cancel".to_owned()).chain(said.words);
        return gpool(&words.collect::<Vec<_>>(), session);
    }
    let mut references = Vec::new();
    for word in &said.words {
        let read = Reference::list(word);
        references.extend(read.map_err(|e| Failure::new(errors::INVALID, e.to_string()))?);
    }
    let client = session.client()?;
    let mut found = resolve::each(&client, references.iter(), None, session.me(), Scope::Living)?;
    let lines = found.ids.iter().map(|id| format!("would cancel job {id}\n"));
    let exit = print(&lines.collect::<String>(), session)?;
    Each::of(&mut found).end("cancel", exit)
}
