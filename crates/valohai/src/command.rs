//! The command lines of a step: its commands with the arguments of its parameters.

use crate::config::Step;
use crate::parameter::ParameterType;
use gpool_yaml::Value;
use gpool_yaml::scalar;

/// Values of parameters by name; the last of a name counts.
pub type Values = Vec<(String, Value)>;

impl Step {
    /// The values of parameters that are not given: the defaults.
    #[must_use]
    pub fn defaults(&self) -> Values {
        let all = self.parameters.iter();
        all.filter_map(|it| Some((it.name.clone(), it.default.clone()?))).collect()
    }

    /// The command lines with these values. Parameters without a value have their default, except
    /// flags.
    #[must_use]
    pub fn command_lines(&self, given: &Values) -> Vec<String> {
        let is_flag = |name: &str| {
            let mut all = self.parameters.iter();
            all.any(|it| it.name == name && it.kind == ParameterType::Flag)
        };
        let mut values = self.defaults();
        values.retain(|(name, _)| !is_flag(name));
        values.extend(given.iter().cloned());
        let lines = self.commands.iter();
        lines.map(|line| self.interpolated(line, &values).trim().to_owned()).collect()
    }

    /// A command with its places `{…}` filled; unknown ones stay.
    fn interpolated(&self, command: &str, values: &Values) -> String {
        let (mut line, mut rest) = (String::new(), command);
        while let Some(begin) = rest.find('{') {
            let inner = &rest[begin + 1..];
            // A place has at least one character, and ends on its line.
            let first = inner.chars().next().map_or(0, char::len_utf8);
            let end = inner[first..].find(['}', '\n']).map(|end| end + first);
            let is_place = first > 0
                && !inner.starts_with('\n')
                && end.is_some_and(|end| inner[end..].starts_with('}'));
            let (Some(end), true) = (end, is_place) else {
                line.push_str(&rest[..=begin]);
                rest = inner;
                continue;
            };
            line.push_str(&rest[..begin]);
            match self.place(&inner[..end], values) {
                Some(text) => line.push_str(&text),
                None => line.push_str(&rest[begin..begin + end + 2]),
            }
            rest = &inner[end + 1..];
        }
        line.push_str(rest);
        line
    }

    /// The text of a place.
    fn place(&self, name: &str, values: &Values) -> Option<String> {
        let value = |name: &str| {
            let found = values.iter().rev().find(|(own, _)| own == name);
            found.map(|(_, value)| value)
        };
        let arguments = |name: &str| {
            let parameter = self.parameters.iter().rev().find(|it| it.name == name)?;
            let arguments = value(name).map(|value| parameter.arguments(value));
            Some(arguments.unwrap_or_default())
        };
        if name == "source-path"
            && let Some(path) = &self.source_path
        {
            return Some(quoted(path));
        }
        if matches!(name, "parameters" | "params") {
            let names = self.parameters.iter().map(|it| it.name.as_str());
            return Some(all_quoted(names.filter_map(arguments).flatten()));
        }
        if let Some(name) = name.strip_prefix("parameter:") {
            return arguments(name).map(|words| all_quoted(words.into_iter()));
        }
        let name = name.strip_prefix("parameter-value:")?;
        value(name).map(|value| quoted(&scalar::text(value)))
    }
}

fn all_quoted(words: impl Iterator<Item = String>) -> String {
    words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// A word of a shell's command line, as Python's `shlex.quote` writes it: command lines equal
/// Valohai's.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

/// The script of command lines: each runs only if those before it succeeded. A `#!` line stays the
/// first one.
#[must_use]
pub fn script(lines: &[String]) -> String {
    let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut first = "";
    if let Some(line) = lines.first_mut()
        && line.starts_with("#!")
    {
        (first, *line) = line.split_once('\n').unwrap_or((*line, ""));
    }
    lines.retain(|line| !line.trim().is_empty());
    let body = lines.join("\n");
    let first = if first.is_empty() { "#!/bin/bash" } else { first };
    let stop = if first.trim_end().ends_with("sh") { "set -e\n" } else { "" };
    format!("{first}\n{stop}{body}\n")
}
