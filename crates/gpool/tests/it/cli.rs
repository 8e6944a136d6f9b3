//! The parser of the command line, built from the table of verbs. A normal start builds the flags
//! of one verb only: those of all verbs take 1 MB and most of the run time of a short command.

use gpool_cli::screen::{ColorWhen, Screen};

use gpool::cli::{CommandLine, parse};
use gpool::verbs::VERBS;
use gpool_cli::args::Global;
use gpool_cli::session::Session;

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
        CommandLine { words: &words, session: &session }.has_dashes_before(&last)
    };
    assert!(is("gpool submit -- a b", 2));
    assert!(is("gpool submit -- -- b", 2));
    assert!(!is("gpool submit a -- b", 3));
    assert!(!is("gpool submit", 0));
}
