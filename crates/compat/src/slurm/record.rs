//! Records of `scontrol show`: lines of `Key=value` pairs.

use std::fmt::Write as _;

use gpool_cli::render::safe::safe;

/// Lines of `Key=value` pairs.
#[derive(Debug, Default)]
pub struct ScontrolRecord {
    lines: Vec<Vec<String>>,
}

impl ScontrolRecord {
    /// Adds a line. Line breaks in values become blanks.
    pub fn line(&mut self, pairs: &[(&str, String)]) {
        let pair =
            |(key, value): &(&str, String)| format!("{key}={}", safe(value).replace('\n', " "));
        self.lines.push(pairs.iter().map(pair).collect());
    }
}

/// The text of records: one line each, or blocks of lines.
#[must_use]
pub fn text(records: &[ScontrolRecord], is_short: bool) -> String {
    let mut text = String::new();
    for record in records {
        let _ = if is_short {
            let pairs = record.lines.concat();
            let pairs: Vec<&str> = pairs.iter().map(|pair| pair.trim_start()).collect();
            writeln!(text, "{}", pairs.join(" "))
        } else {
            let lines: Vec<String> = record.lines.iter().map(|line| line.join(" ")).collect();
            writeln!(text, "{}\n", lines.join("\n   "))
        };
    }
    text
}
