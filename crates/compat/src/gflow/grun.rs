//! `grun`: runs a command as a job, shows its output, and exits with its exit code.

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::gflow::flags::GRUN;
use gpool_cli::foreign::gflow::translate::translate;
use gpool_cli::session::Session;

use super::completion;
use super::gbatch::is_script;
use crate::shim::{gpool, read, say_ignored};

/// Flags of `gbatch` for several jobs, or for a later start.
const NOT_ATTENDED: [&str; 6] =
    ["array", "begin", "max-concurrent", "max-retries", "param", "param-file"];

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    if let [word, rest @ ..] = words
        && word == "completion"
    {
        return completion(rest, session);
    }
    let Some(args) = read(&GRUN, words, session)? else { return Ok(Exit::OK) };
    if let Some(given) = args.flags.iter().find(|it| NOT_ATTENDED.contains(&it.flag.long)) {
        let what = format!("grun follows one job, and has no {}", given.flag.spelling());
        return Err(Failure::new(errors::NO_SUCH_FLAG, what)
            .tip(format!("gbatch {} …   (submits such jobs)", given.flag.spelling())));
    }
    let Some(first) = args.words.first() else {
        return Err(Failure::new(errors::USAGE, "grun: the command is missing")
            .tip("grun --gpus 1 -- python train.py"));
    };
    if is_script(first) {
        // The directives of the script would not be read.
        let what = format!("grun runs commands, and {first} is a script");
        return Err(Failure::new(errors::USAGE, what)
            .tip(format!("gbatch {first} && gpool wait @"))
            .tip(format!("grun -- sh {first}   (ignores the flags in it)")));
    }
    let translation = translate(&args.flags)?;
    say_ignored(&args, session);
    for text in translation.warnings.iter().chain(&translation.contradictions) {
        session.screen.warn(text);
    }
    let flags = translation.words.into_iter().map(|(word, _)| word);
    let mut line: Vec<String> = vec!["run".to_owned(), "--compat=gflow".to_owned()];
    line.extend(flags);
    line.extend(args.has("dry-run").then(|| "--dry-run".to_owned()));
    line.extend(args.has("no-export-env").then(|| "--clean-env".to_owned()));
    line.push("--".to_owned());
    line.extend(args.words.iter().cloned());
    gpool(&line, session)
}
