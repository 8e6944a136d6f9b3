//! The command line of a submission, as Slurm's `SubmitLine` shows it.

use std::path::Path;

use gpool_wire::Origin;

/// Flags with values of environment variables.
const VARIABLES: [&str; 2] = ["--export", "-e"];

/// The origin of a job: the command with its words, and the script.
#[must_use]
pub fn of(command: &str, words: &[String], script: Option<&str>) -> Origin {
    let mut line = command.to_owned();
    let mut is_variables = false;
    for word in words {
        line.push(' ');
        let masked = match word.split_once('=') {
            Some((flag, value)) if VARIABLES.contains(&flag) => {
                format!("{flag}={}", without_values(value))
            }
            _ if is_variables => without_values(word),
            _ => word.clone(),
        };
        line.push_str(&masked);
        is_variables = word == VARIABLES[0];
    }
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let line = line.chars().take(Origin::LINE_MAX).map(shown).collect();
    Origin { line, script: script.filter(|path| *path != "-").map(absolute) }
}

/// `A=1,B` as `A=...,B`: values may be secrets.
fn without_values(variables: &str) -> String {
    let one = |part: &str| match part.split_once('=') {
        Some((name, _)) => format!("{name}=..."),
        None => part.to_owned(),
    };
    variables.split(',').map(one).collect::<Vec<_>>().join(",")
}

fn absolute(path: &str) -> String {
    std::path::absolute(Path::new(path))
        .map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}
