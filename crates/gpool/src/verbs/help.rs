//! `gpool help`: explains errors, commands and topics without a server.

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::page::Page;
use gpool_cli::session::Session;
use gpool_wire::catalogue::CATALOGUE;

use crate::cli::{self, Verb};
use crate::topics;

#[derive(Debug, Clone, Default, Args)]
pub struct HelpArgs {
    /// Command, error code or topic, e.g. submit, GP0412 or states; topics and codes list all
    #[arg(value_name = "WHAT")]
    what: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &HelpArgs, verbs: &[Verb], session: &Session) -> Result {
    let text = match args.what.as_slice() {
        [] => cli::sections(verbs),
        [word] if word == "topics" => topics::list(),
        [word] if word == "codes" => codes(),
        [word] => match (errors::find(word), topics::text(word)) {
            (Some(entry), _) => explained(entry),
            (None, Some(text)) => format!("{}\n", text.trim()),
            (None, None) => of_verb(std::slice::from_ref(word), verbs)?,
        },
        [topic, command] if topic == "compat" => topics::compat_of(command).ok_or_else(|| {
            let what = format!("there is no command {command:?} of Slurm or gflow here");
            Failure::new(errors::NO_TOPIC, what).tip("gpool help compat")
        })?,
        words => of_verb(words, verbs)?,
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

fn explained(entry: &gpool_wire::catalogue::Entry) -> String {
    let mut page = Page::new(&format!("{}: {}", entry.code, entry.title));
    page.line("");
    page.line(entry.help);
    page.line("");
    page.line(&format!("The exit code of the command is {}.", entry.exit));
    page.text()
}

fn codes() -> String {
    let mut entries: Vec<_> = CATALOGUE.iter().chain(errors::OWN).collect();
    entries.sort_by_key(|entry| entry.code);
    entries
        .into_iter()
        .map(|entry| format!("{}  exit {}  {}\n", entry.code, entry.exit, entry.title))
        .collect()
}

fn of_verb(words: &[String], verbs: &[Verb]) -> Result<String> {
    let mut command = cli::command(verbs);
    command.build();
    let mut found = &mut command;
    for word in words {
        let names: Vec<String> =
            found.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        found = match found.find_subcommand_mut(word) {
            Some(verb) => verb,
            None => {
                let failure =
                    Failure::new(errors::NO_TOPIC, format!("there is no help on {word:?}"));
                let names =
                    names.iter().map(String::as_str).chain(topics::all().map(|(name, _)| name));
                return Err(match gpool_wire::json::nearest(word, names) {
                    Some(near) => failure.tip(format!("gpool help {near}")),
                    None => failure.tip("gpool help"),
                });
            }
        };
    }
    // No flag has a longer text for --help than for -h.
    Ok(found.render_help().to_string())
}
