//! The parser of the command line, built from the table of verbs. A normal start builds the flags
//! of one verb only: those of all verbs take 1 MB and most of the run time of a short command.

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _, Parser};
use gpool_cli::args::Global;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

/// Schedule jobs on GPUs
#[derive(Debug, Clone, Parser)]
#[command(name = "gpool", version, disable_help_subcommand = true, disable_version_flag = true)]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "gpool help GP0412 explains an error; gpool help lists topics.")]
struct Top {
    #[command(flatten)]
    global: Global,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// A section of `gpool help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Start and stop gpool.
    Start,
    /// Submit jobs.
    Submit,
    /// Show jobs, nodes and GPUs.
    See,
    /// Change jobs.
    Steer,
    /// Manage a cluster.
    Administer,
    /// Help.
    Help,
    /// Verbs that only gpool itself calls; help does not show them.
    Internal,
}

impl Group {
    /// The groups in help, in order.
    pub const SHOWN: [Self; 6] =
        [Self::Start, Self::Submit, Self::See, Self::Steer, Self::Administer, Self::Help];

    /// The heading of the group in help.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Start => "Start",
            Self::Submit => "Submit",
            Self::See => "Show",
            Self::Steer => "Control",
            Self::Administer => "Administer",
            Self::Help => "Help",
            Self::Internal => "Internal",
        }
    }
}

/// A verb of the command line.
pub struct Verb {
    /// The name.
    pub name: &'static str,
    /// Other names that help shows.
    pub aliases: &'static [&'static str],
    /// Other names that help does not show.
    pub hidden_aliases: &'static [&'static str],
    /// The section of help that lists the verb.
    pub group: Group,
    /// The line in help.
    pub about: &'static str,
    /// Adds the flags of the verb to a parser.
    pub flags: fn(Command) -> Command,
    /// Runs the verb.
    pub run: fn(ArgMatches, &Line<'_>) -> Result,
}

impl Verb {
    fn has_name(&self, word: &str) -> bool {
        self.name == word || self.aliases.contains(&word) || self.hidden_aliases.contains(&word)
    }

    fn command(&self) -> Command {
        let command = (self.flags)(Command::new(self.name));
        command
            .about(self.about)
            .long_about(None)
            .visible_aliases(self.aliases)
            .aliases(self.hidden_aliases)
            .hide(self.group == Group::Internal)
    }
}

/// A command line with its session.
pub struct Line<'a> {
    /// All words; the first is the name of the program.
    pub words: &'a [String],
    /// The session.
    pub session: &'a Session,
}

impl Line<'_> {
    /// Whether `--` stands before the last words; the parser does not keep that.
    #[must_use]
    pub fn has_dashes_before(&self, last: &[String]) -> bool {
        let n_before = self.words.len().saturating_sub(last.len());
        !last.is_empty() && n_before > 0 && self.words[n_before - 1] == "--"
    }
}

/// A parsed command line.
pub struct Parsed {
    /// The flags that every verb has.
    pub global: Global,
    verb: &'static Verb,
    found: ArgMatches,
}

impl Parsed {
    /// Runs the verb.
    ///
    /// # Errors
    /// The errors of the verb.
    pub fn run(self, line: &Line<'_>) -> Result {
        (self.verb.run)(self.found, line)
    }
}

/// The parser of all verbs.
#[must_use]
pub fn command(verbs: &[Verb]) -> Command {
    Top::command().subcommands(verbs.iter().map(Verb::command))
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

#[cfg(test)]
mod tests {
    use gpool_cli::screen::{ColorWhen, Screen};

    use super::*;
    use crate::verbs::VERBS;

    #[test]
    fn the_value_of_a_flag_is_no_verb() {
        for line in ["gpool --server queue show 1", "gpool --tz=UTC show queue", "gpool show q"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let parsed = parse(VERBS, &words).expect("it is a command line");
            assert_eq!(parsed.verb.name, "show", "{line}");
        }
    }

    #[test]
    fn two_dashes_are_told_from_words() {
        let screen = Screen::detect(ColorWhen::Never, false, false, false, None);
        let session = Session::new(screen, Global::default());
        let is = |line: &str, n_last: usize| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let last = words[words.len() - n_last..].to_vec();
            Line { words: &words, session: &session }.has_dashes_before(&last)
        };
        assert!(is("gpool submit -- a b", 2));
        assert!(is("gpool submit -- -- b", 2));
        assert!(!is("gpool submit a -- b", 3));
        assert!(!is("gpool submit", 0));
    }
}
