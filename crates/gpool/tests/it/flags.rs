//! The table of flags: their short forms, and checks for conflicts.

use std::collections::BTreeSet;

use clap::Command;
use gpool::cli;
use gpool::verbs::VERBS;

/// All short flags, with their long forms.
const SHORT: [(char, &str); 18] = [
    ('g', "gpus"),
    ('c', "cpus"),
    ('m', "mem"),
    ('t', "time"),
    ('N', "nodes"),
    ('J', "name"),
    ('a', "elements"),
    ('p', "project"),
    ('e', "env"),
    ('q', "quiet"),
    ('v', "verbose"),
    ('u', "user"),
    ('s', "state"),
    ('n', "limit"),
    ('o', "output"),
    ('w', "watch"),
    ('f', "follow"),
    ('h', "help"),
];

fn each(command: &Command, path: &str, then: &mut dyn FnMut(&Command, &str)) {
    then(command, path);
    for verb in command.get_subcommands() {
        each(verb, &format!("{path} {}", verb.get_name()), then);
    }
}

fn built() -> Command {
    let mut command = cli::command(VERBS);
    command.build();
    command
}

#[test]
fn the_command_line_has_no_clash() {
    cli::command(VERBS).debug_assert();
}

#[test]
fn only_listed_flags_are_short_and_each_means_one_thing() {
    each(&built(), "gpool", &mut |command, path| {
        // These have the letters of Valohai's client.
        if path.starts_with("gpool vh ") {
            return;
        }
        for argument in command.get_arguments() {
            let Some(short) = argument.get_short() else { continue };
            let long = argument.get_long().unwrap_or_default();
            assert!(SHORT.contains(&(short, long)), "{path}: -{short} is --{long}");
        }
    });
}

#[test]
fn on_run_and_submit_o_is_no_format() {
    for verb in ["run", "submit"] {
        let command = built();
        let verb = command.find_subcommand(verb).unwrap();
        assert!(verb.get_arguments().all(|argument| argument.get_short() != Some('o')));
    }
}

#[test]
fn every_verb_and_flag_has_a_help_text() {
    each(&built(), "gpool", &mut |command, path| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.contains("See ["), "{path}: {about:?}");
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            assert!(argument.get_help().is_some(), "{path}: {}", argument.get_id());
        }
    });
}

#[test]
fn verbs_have_the_names_that_people_expect() {
    let command = built();
    let names: BTreeSet<&str> = command
        .get_subcommands()
        .flat_map(|verb| std::iter::once(verb.get_name()).chain(verb.get_all_aliases()))
        .collect();
    for name in [
        "demo",
        "up",
        "down",
        "doctor",
        "status",
        "version",
        "run",
        "submit",
        "batch",
        "sub",
        "queue",
        "q",
        "ps",
        "show",
        "why",
        "logs",
        "wait",
        "cancel",
        "hold",
        "release",
        "retry",
        "signal",
        "edit",
        "prio",
        "note",
        "gpus",
        "nodes",
        "events",
        "history",
        "report",
        "backup",
        "restore",
        "verify",
        "bench",
        "sim",
        "help",
        "completion",
    ] {
        assert!(names.contains(name), "{name}");
    }
}
