//! `gpool help`: every command by group.

use std::fmt::Write as _;

use crate::cli::{Group, Verb};

/// Every command, one line each.
#[must_use]
pub fn overview(verbs: &[Verb]) -> String {
    let mut text =
        String::from("gpool schedules jobs on GPUs.   gpool VERB --help shows all flags\n");
    for group in Group::SHOWN {
        let _ = writeln!(text, "\n{}", group.title());
        for verb in verbs.iter().filter(|verb| verb.group == group) {
            let _ = writeln!(text, "  {:<14} {}", verb.name, verb.about);
        }
    }
    text
}
