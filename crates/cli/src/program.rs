//! The steps from a command line to an exit code that all programs of gpool share, and how one
//! program finds another.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use gpool_wire::catalogue;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::screen::{ColorWhen, Screen};
use crate::usage;

/// The screen before the flags are parsed: errors are JSON if a word is `--json`.
#[must_use]
pub fn early_screen(words: &[OsString]) -> Screen {
    let json = words.iter().any(|word| word == "--json");
    Screen::detect(ColorWhen::Auto, false, false, json, None)
}

/// The screen that the flags request.
#[must_use]
pub fn screen(global: &Global) -> Screen {
    Screen::detect(global.colors(), global.ascii, global.quiet, global.json, global.zone())
}

/// Converts all words to UTF-8, since requests are JSON.
///
/// # Errors
/// A word is not UTF-8.
pub fn text(words: Vec<OsString>) -> Result<Vec<String>> {
    let word = |(place, word): (usize, OsString)| {
        word.into_string().map_err(|word| {
            let shown = word.to_string_lossy().into_owned();
            Failure::new(catalogue::NOT_UTF8, format!("word {place} is not UTF-8: {shown:?}"))
                .why("commands, names and paths are sent as UTF-8")
                .tip("put it into a script, which may contain any bytes: gpool submit script.sh")
        })
    };
    words.into_iter().enumerate().map(word).collect()
}

/// Ends a command line that the parser did not accept. Prints help or the version, or reports the
/// error with the verb of the line, if `is_verb` knows it.
#[must_use]
pub fn not_parsed(
    error: &clap::Error,
    words: &[String],
    is_verb: impl Fn(&str) -> bool,
    screen: &Screen,
) -> Exit {
    let first = words.iter().skip(1).find(|word| !word.starts_with('-'));
    let verb = || first.map(String::as_str).filter(|word| is_verb(word));
    ended(not_read(error, verb, screen), screen)
}

fn not_read<'w>(
    error: &clap::Error,
    verb: impl FnOnce() -> Option<&'w str>,
    screen: &Screen,
) -> Result {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            screen.data(&error.to_string())?;
            Ok(Exit::OK)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            screen.note(error.to_string().trim_end());
            Ok(Exit(catalogue::EXIT_USAGE))
        }
        _ => Err(usage::failure(error, verb())),
    }
}

/// The exit code of what a command came to; a failure is reported.
#[must_use]
pub fn ended(result: Result, screen: &Screen) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(failure) => {
            screen.fail(&failure);
            failure.exit()
        }
    }
}

/// Finds a program in the folder of the running one, or else in a folder of `PATH`.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(|own| own.parent()).map(|folder| folder.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A relative folder would run a program from the user's working folder.
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let in_path = folders.map(|folder| folder.join(name));
    beside.into_iter().chain(in_path).find(|program| program.is_file())
}
