//! The help of the commands: its sections, headings and examples, at 80 columns.

use std::collections::BTreeSet;

use clap::Command;
use gpool::cli::{self, HelpSection};
use gpool::verbs::VERBS;
use gpool_wire::field::heading;

use crate::place::{Place, stderr, stdout};
use crate::texts::{each, help_of, parsers};
use crate::words::words;

/// The commands that stand first.
const COMMON: [&str; 10] =
    ["up", "down", "run", "submit", "queue", "why", "show", "logs", "cancel", "gpus"];

#[test]
fn three_ways_to_ask_for_help_print_one_text() {
    let place = Place::new();
    let text = cli::sections(VERBS);
    assert_eq!(stdout(&place.run(&["--help"])), text);
    assert_eq!(stdout(&place.run(&["help"])), text);
    let alone = place.run(&[]);
    assert_eq!((stderr(&alone), alone.status.code()), (text, Some(2)));
}

#[test]
fn the_commands_that_everybody_needs_stand_first() {
    let common = VERBS.iter().filter(|verb| verb.group == HelpSection::Common);
    assert_eq!(common.map(|verb| verb.name).collect::<Vec<_>>(), COMMON);
    let text = cli::sections(VERBS);
    for verb in VERBS {
        let is_shown = HelpSection::IN_HELP.contains(&verb.group);
        assert_eq!(text.contains(&format!("\n  {} ", verb.name)), is_shown, "{}", verb.name);
    }
    let at = |title: &str| text.find(&format!("\n\n{title}:\n")).unwrap();
    assert!(HelpSection::IN_HELP.is_sorted_by_key(|group| at(group.title())));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn each_heading_stands_once_and_no_flag_is_without_one() {
    for verb in ["submit", "run", "shell", "edit"] {
        let (_, parser) = &parsers()[0];
        let command = parser.find_subcommand(verb).unwrap();
        let text = help_of(command);
        let is_heading = |line: &&str| line.ends_with(':') && !line.starts_with(' ');
        let headings: Vec<&str> = text.lines().filter(is_heading).collect();
        let single: BTreeSet<&str> = headings.iter().copied().collect();
        assert_eq!(single.len(), headings.len(), "{verb}: {headings:?}");
        let places = headings.iter().filter_map(|it| {
            heading::ALL.iter().position(|heading| it.strip_suffix(':') == Some(*heading))
        });
        let places: Vec<usize> = places.collect();
        let is_ordered = places.len() == heading::ALL.len() && places.is_sorted();
        assert!(is_ordered || verb == "edit", "{verb}: {headings:?}");
        let plain = command.get_arguments().filter(|it| it.get_help_heading().is_none());
        let plain: Vec<&str> = plain.filter_map(clap::Arg::get_long).collect();
        let known = ["help", "user", "yes"];
        assert!(plain.iter().all(|flag| known.contains(flag)), "{verb}: {plain:?}");
    }
}

/// Commands whose own help another program prints.
fn is_passed_on(command: &Command) -> bool {
    command.is_disable_help_flag_set() && command.get_name() != "shim"
}

#[test]
fn each_command_has_examples_that_its_parser_accepts() {
    for (program, parser) in parsers() {
        each(&parser, "", &mut |command, path| {
            if path.is_empty() || is_passed_on(command) {
                return;
            }
            let help = help_of(command);
            let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_default();
            let lines: Vec<&str> = examples.lines().collect();
            let is_pair = |pair: &[&str]| pair.len() == 2 && pair[0].starts_with("  # ");
            assert!((2..=8).contains(&lines.len()), "{program} {path}: {help}");
            assert!(lines.chunks(2).all(is_pair), "{program} {path}: wrapped: {examples}");
            for line in lines.iter().skip(1).step_by(2) {
                let line = words(line);
                let read = parser.clone().try_get_matches_from(&line);
                assert!(read.is_ok(), "{program} {path}: {line:?}: {}", read.unwrap_err());
                assert!(line.join(" ").contains(path), "{path}: {line:?}");
            }
        });
    }
}

#[test]
fn help_on_a_command_prints_its_flags_as_the_command_does() {
    let place = Place::new();
    for verb in ["submit", "policy", "logs", "shim"] {
        let help = place.run(&["help", verb]);
        assert_eq!(stdout(&place.run(&[verb, "--help"])), stdout(&help), "{verb}");
    }
}

#[test]
fn help_fits_80_columns() {
    // The parser does not wrap the line of the usage.
    let lines = crate::texts::help().into_iter().filter(|line| !line.text.starts_with("Usage:"));
    for line in lines {
        assert!(line.text.chars().count() <= 80, "{}: {}", line.place, line.text);
    }
}
