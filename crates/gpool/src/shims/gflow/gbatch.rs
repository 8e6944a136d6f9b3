//! `gbatch`: hands in a script or a command.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::flags::GBATCH;
use super::translate::translate;
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::request::{self, Request};
use crate::script::Script;
use crate::session::Session;
use crate::shims::flag::{Said, Spoken};
use crate::shims::{gpool_line, print, read};
use crate::verbs::submit::{dry_run, hand_in, say};

/// `gbatch new`.
pub static NEW: Spoken =
    Spoken { name: "gbatch new", about: "Write a script to begin with", flags: &[], words: "NAME" };

/// What a new script holds.
const TEMPLATE: &str = "#!/bin/bash
# GFLOW --gpus=1
# GFLOW --time=1:00:00
# Others: --priority, --memory, --conda-env, --depends-on, --project, --begin

echo \"Begun on $(hostname) with GPUs $CUDA_VISIBLE_DEVICES\"
";

/// Runs it.
///
/// # Errors
/// What was asked is not understood, impossible or refused.
pub fn run(words: &[String], session: &Session) -> Result {
    match words.split_first() {
        Some((word, rest)) if word == "new" => return new(rest, session),
        Some((word, rest)) if word == "completion" => {
            let shell = rest.first().map_or("bash", String::as_str);
            return gpool_line(&["completion", shell], session);
        }
        _ => {}
    }
    let Some(said) = read(&GBATCH, words, session)? else { return Ok(Exit::OK) };
    let mut request = request(&said)?;
    request.job.compat.push("gflow".to_owned());
    let client = session.client()?;
    request.resolve(&client, session)?;
    say(&request, session);
    if said.has("dry-run") {
        return dry_run(&client, &request.job, session);
    }
    let job = hand_in(&client, &request)?;
    print(&format!("Submitted batch job {} ({})\n", job.id, job.name), session)
}

fn request(said: &Said) -> Result<Request> {
    let told = translate(&said.flags)?;
    let line = told.flags()?;
    let no_file = |_: &_| None;
    match said.words.split_first() {
        None => request::of_brought_script(line, told, no_file, &Script::read("-")?, &[]),
        Some((script, arguments)) if is_script(script) => {
            request::of_brought_script(line, told, no_file, &Script::read(script)?, arguments)
        }
        Some(_) => {
            let strict = line.strict;
            let mut request = request::of_command(line, &said.words)?;
            if strict {
                told.refuse_unclear()?;
            }
            told.say(&mut request.remarks, &mut request.warnings);
            Ok(request)
        }
    }
}

/// Whether a word names a script rather than a command.
fn is_script(word: &str) -> bool {
    let begins = || {
        let mut file = std::fs::File::open(word).ok()?;
        let mut start = [0; 2];
        std::io::Read::read_exact(&mut file, &mut start).ok()?;
        Some(&start == b"#!")
    };
    Path::new(word).is_file() && begins() == Some(true)
}

fn new(words: &[String], session: &Session) -> Result {
    let Some(said) = read(&NEW, words, session)? else { return Ok(Exit::OK) };
    let [name] = said.words.as_slice() else {
        return Err(
            Failure::new(errors::USAGE, "gbatch new: one name is expected").tip("gbatch new train")
        );
    };
    let path = if name.ends_with(".sh") { name.clone() } else { format!("{name}.sh") };
    let mut open = OpenOptions::new();
    // Never over a file that is there.
    let written = open.write(true).create_new(true).mode(0o755).open(&path);
    let written = written.and_then(|mut file| file.write_all(TEMPLATE.as_bytes()));
    written.map_err(|error| Failure::new(errors::NOT_WRITTEN, format!("{path}: {error}")))?;
    session.screen.note(&format!("{path} is written; gbatch {path} submits it"));
    Ok(Exit::OK)
}
