//! Command lines in this process, for rows of tables: none starts a process.

use gpool::cli::{self, CommandLine};
use gpool::verbs::VERBS;
use gpool_cli::args::Global;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::program;
use gpool_cli::session::Session;
use gpool_cli::usage;

/// The command line of a user, with the socket of a server that may not be there.
#[derive(Debug, Clone)]
pub struct Here {
    socket: String,
}

impl Here {
    pub fn of(socket: impl Into<String>) -> Self {
        Self { socket: socket.into() }
    }

    /// Runs a line, without the name of the program, as the program does.
    fn run(&self, words: &[&str]) -> Result {
        let mut line = vec!["gpool".to_owned(), format!("--server={}", self.socket)];
        line.extend(words.iter().map(|word| (*word).to_owned()));
        let parsed = cli::parse(VERBS, &line).map_err(|error| {
            let first = words.iter().find(|word| !word.starts_with('-'));
            usage::failure(&error, first.copied().filter(|word| cli::find(VERBS, word).is_some()))
        })?;
        let session = Session::new(program::screen(&parsed.global), parsed.global.clone());
        parsed.run(&CommandLine { words: &line, session: &session.with_verbs(verb) })
    }

    /// Runs a command of another scheduler, with a blank between its words.
    fn run_shim(&self, line: &str) -> Result {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let shim = gpool_compat::find(&words[0]).unwrap_or_else(|| panic!("no command {line}"));
        let global = Global { server: Some(self.socket.clone()), ..Global::default() };
        let session = Session::new(program::screen(&global), global).with_verbs(verb);
        (shim.run)(&words[1..], &session)
    }

    /// Checks that a line is refused with this code, in one message that has all of these words.
    #[track_caller]
    pub fn refused(&self, words: &[&str], code: u8, said: &[&str]) {
        check(&format!("{words:?}"), self.run(words), code, said);
    }

    /// The same for a command of another scheduler.
    #[track_caller]
    pub fn shim_refused(&self, line: &str, code: u8, said: &[&str]) {
        check(line, self.run_shim(line), code, said);
    }
}

/// Runs the line of gpool that a command of another scheduler becomes.
fn verb(words: &[String], session: &Session) -> Result {
    let server = session.global.server.clone().unwrap_or_default();
    Here::of(server).run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[track_caller]
fn check(line: &str, result: Result, code: u8, said: &[&str]) {
    let shown: String = line.chars().take(200).collect();
    let failure = result.expect_err(&shown);
    let text = failure.text(false);
    assert_eq!(failure.exit(), Exit(code), "{shown}: {text}");
    assert_eq!(text.matches("error:").count(), 1, "{shown}: {text}");
    for words in said {
        assert!(text.contains(words), "{shown}: {words:?} is not in {text}");
    }
}
