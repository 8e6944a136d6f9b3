//! The examples at the end of the help of each command, from a table.

use std::fmt::Write as _;

use clap::Command;

/// A command line, and its effect.
pub type Example = (&'static str, &'static str);

/// The examples of each command, by its words without the program's name, such as `policy set`.
pub type Table = [(&'static str, &'static [Example])];

/// Adds the examples of the tables to the help of a command and of the commands below it. `path`
/// has the words of the command.
#[must_use]
pub fn with_examples(command: Command, path: &str, tables: &[&Table]) -> Command {
    let command = command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        with_examples(below, path.trim_start(), tables)
    });
    let mut rows = tables.iter().flat_map(|table| table.iter());
    let Some((_, examples)) = rows.find(|(words, _)| *words == path) else { return command };
    let before = command.get_after_help().map(|text| format!("{text}\n\n"));
    let mut text = before.unwrap_or_default() + "Examples:";
    for (line, effect) in *examples {
        let _ = write!(text, "\n  # {effect}\n  {line}");
    }
    command.after_help(text)
}
