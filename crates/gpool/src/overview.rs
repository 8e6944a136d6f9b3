//! `gpool help`: every command by what it is for.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use crate::cli::Cli;

/// What commands are for, in the order in which people come to them.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Start",
        &["demo", "up", "down", "status", "doctor", "init", "version", "import", "install-shims"],
    ),
    ("Submit", &["run", "submit", "shell", "retry", "edit"]),
    (
        "See",
        &["queue", "gpus", "nodes", "why", "show", "logs", "wait", "events", "history", "report"],
    ),
    (
        "Steer",
        &[
            "cancel", "hold", "release", "pause", "resume", "extend", "prio", "note", "requeue",
            "signal", "exec", "attach", "forward", "notify",
        ],
    ),
    (
        "Administer",
        &[
            "project", "quota", "pool", "drain", "undrain", "reserve", "maint", "policy", "user",
            "backup", "restore", "verify", "simulate", "bench", "sim", "debug", "replay",
        ],
    ),
    ("Help", &["help", "man", "completion", "shim"]),
];

/// Every command, a line each.
#[must_use]
pub fn overview() -> String {
    let command = Cli::command();
    let mut text = String::from("gpool gives GPUs to jobs.   gpool VERB --help says all of one\n");
    for (name, verbs) in GROUPS {
        let _ = writeln!(text, "\n{name}");
        for verb in *verbs {
            let found = command.find_subcommand(verb);
            let about = found.and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {verb:<14} {about}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        grouped.sort_unstable();
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut all: Vec<&str> = visible.map(clap::Command::get_name).collect();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
}
