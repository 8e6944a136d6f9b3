//! The parser of the command line, built from the table of verbs. A normal start builds the flags
//! of one verb only: those of all verbs take 1 MB and most of the run time of a short command.

use std::fmt::Write as _;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _, Parser};
use gpool_cli::args::Global;
use gpool_cli::examples::with_examples;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::examples;

/// The end of the list of commands.
const WAYS_ON: &str = "
gpool COMMAND --help   flags and examples of a command
gpool help TOPIC       e.g. gpu-requests, states, scheduling; gpool help topics
gpool help GP0412      the meaning of an error code
";

/// Schedule jobs on GPUs
#[derive(Debug, Clone, Parser)]
#[command(name = "gpool", version, disable_help_subcommand = true, disable_version_flag = true)]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
struct Top {
    #[command(flatten)]
    global: Global,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelpSection {
    /// The commands that every user needs.
    Common,
    /// Set up gpool and check it.
    Start,
    Submit,
    Show,
    Control,
    Administer,
    Help,
    /// Measure and repeat, with `gpool-lab`, which most users do not have; the list of commands in
    /// help leaves them out.
    Lab,
    /// Verbs that only gpool itself calls; help does not show them.
    Internal,
}

impl HelpSection {
    /// The groups in help, in order.
    pub const IN_HELP: [Self; 7] = [
        Self::Common,
        Self::Start,
        Self::Submit,
        Self::Show,
        Self::Control,
        Self::Administer,
        Self::Help,
    ];

    /// The heading of the group in help.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Common => "Common commands",
            Self::Start => "Start",
            Self::Submit => "Submit",
            Self::Show => "Show",
            Self::Control => "Control",
            Self::Administer => "Administer",
            Self::Help => "Help",
            Self::Lab => "With gpool-lab",
            Self::Internal => "Internal",
        }
    }
}

/// A verb of the command line.
pub struct Verb {
    pub name: &'static str,
    /// Other names that help shows.
    pub aliases: &'static [&'static str],
    /// Other names that help does not show.
    pub hidden_aliases: &'static [&'static str],
    /// The section of help that lists the verb.
    pub group: HelpSection,
    /// The line in help.
    pub about: &'static str,
    /// Adds the flags of the verb to a parser.
    pub flags: fn(Command) -> Command,
    pub run: fn(ArgMatches, &CommandLine<'_>) -> Result,
}

impl Verb {
    fn has_name(&self, word: &str) -> bool {
        self.name == word || self.aliases.contains(&word) || self.hidden_aliases.contains(&word)
    }

    fn command(&self) -> Command {
        let command = (self.flags)(Command::new(self.name));
        with_examples(command, self.name, examples::TABLES)
            .about(self.about)
            .long_about(None)
            .visible_aliases(self.aliases)
            .aliases(self.hidden_aliases)
            .hide(!HelpSection::IN_HELP.contains(&self.group))
    }
}

/// A command line with its session.
pub struct CommandLine<'a> {
    /// All words; the first is the name of the program.
    pub words: &'a [String],
    pub session: &'a Session,
}

impl CommandLine<'_> {
    /// Whether `--` stands before the last words; the parser does not keep that.
    #[must_use]
    pub fn has_dashes_before(&self, last: &[String]) -> bool {
        let n_before = self.words.len().saturating_sub(last.len());
        !last.is_empty() && n_before > 0 && self.words[n_before - 1] == "--"
    }
}

pub struct Parsed {
    /// The flags that every verb has.
    pub global: Global,
    pub verb: &'static Verb,
    found: ArgMatches,
}

impl Parsed {
    /// Runs the verb.
    pub fn run(self, line: &CommandLine<'_>) -> Result {
        (self.verb.run)(self.found, line)
    }
}

#[must_use]
pub fn command(verbs: &[Verb]) -> Command {
    let top = Top::command().override_help(sections(verbs));
    top.subcommands(verbs.iter().map(Verb::command))
}

/// The text of `gpool`, `gpool help` and `gpool --help`: every command by group.
#[must_use]
pub fn sections(verbs: &[Verb]) -> String {
    let mut text = String::from("gpool schedules jobs on GPUs.\n");
    for group in HelpSection::IN_HELP {
        let _ = writeln!(text, "\n{}:", group.title());
        for verb in verbs.iter().filter(|verb| verb.group == group) {
            let _ = writeln!(text, "  {:<14} {}", verb.name, verb.about);
        }
    }
    text.push_str(WAYS_ON);
    text
}

/// Reads a command line; its first word is the name of the program.
///
/// # Errors
/// The parser refuses it, or it asks for help or the version.
pub fn parse(verbs: &'static [Verb], words: &[String]) -> std::result::Result<Parsed, clap::Error> {
    // A parser of one verb accepts nothing that the whole parser refuses or reads in another way.
    // Help and errors name other verbs, so the whole parser writes them.
    let named = words.iter().skip(1).find_map(|word| find(verbs, word));
    let one = Top::command().subcommands(named.map(Verb::command));
    let mut found = match one.try_get_matches_from(words) {
        Err(error) if error.kind() != ErrorKind::DisplayVersion => {
            command(verbs).try_get_matches_from(words)?
        }
        read => read?,
    };
    let global = Global::from_arg_matches_mut(&mut found)?;
    let (name, found) = found.remove_subcommand().expect("the parser requires a verb");
    let verb = find(verbs, &name).expect("the parser knows only verbs of the table");
    Ok(Parsed { global, verb, found })
}

/// The verb of that name, or of that alias.
#[must_use]
pub fn find<'v>(verbs: &'v [Verb], word: &str) -> Option<&'v Verb> {
    verbs.iter().find(|verb| verb.has_name(word))
}
