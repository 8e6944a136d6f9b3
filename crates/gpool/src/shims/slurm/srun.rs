//! `srun`: runs a command as a job and stays with it; inside a job, runs it there, as a job here
//! is one task.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::flags::SRUN;
use super::translate::translate;
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::session::Session;
use crate::shims::{gpool, read, say_ignored};

/// Runs it.
///
/// # Errors
/// What was asked is not understood, impossible or refused.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(said) = read(&SRUN, words, session)? else { return Ok(Exit::OK) };
    let Some(program) = said.words.first() else {
        return Err(Failure::new(errors::USAGE, "srun: there is nothing to run")
            .tip("srun --gpus 1 python train.py"));
    };
    let mut told = translate(&said.flags)?;
    if std::env::var_os("GPOOL_JOB_ID").is_some() {
        // What a step asks for it has: it is the whole job.
        let error = Command::new(program).args(&said.words[1..]).exec();
        return Err(Failure::new(errors::USAGE, format!("srun: can't run {program}: {error}")));
    }
    say_ignored(&said, session);
    for warning in told.warnings.iter().chain(&told.contradictions) {
        session.screen.warn(warning);
    }
    if told.joins_output
        && !said.has("error")
        && let Some((path, from)) = told.words.iter().find(|(word, _)| word.starts_with("--stdout"))
    {
        let path = path.replacen("--stdout", "--stderr", 1);
        told.words.push((path, from.clone()));
    }
    let flags = told.words.into_iter().map(|(word, _)| word);
    let mut line: Vec<String> = vec!["run".to_owned(), "--compat=slurm".to_owned()];
    line.extend(flags);
    if said.has("pty") {
        // A flag of run alone, so not among those that are translated.
        line.push("--pty".to_owned());
    }
    line.push("--".to_owned());
    line.extend(said.words.iter().cloned());
    gpool(&line, session)
}
