//! Every text for people that gpool and gpool-lab print, and the documents. Tests count the marker
//! words of hard prose in them, and look up the commands, flags and files that they name.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use gpool::verbs::VERBS;
use gpool::{cli, topics};
use gpool_cli::errors;
use gpool_compat::SHIMS;
use serde_json::Value;

mod literals;
mod named;
mod plain;

/// A line of a text, with its place.
pub struct Line {
    pub place: String,
    pub text: String,
}

fn line(place: &str, text: &str) -> Line {
    Line { place: place.to_owned(), text: text.to_owned() }
}

fn lines<'t>(place: &'t str, text: &'t str) -> impl Iterator<Item = Line> + 't {
    text.lines().filter(|it| !it.trim().is_empty()).map(move |it| line(place, it))
}

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files with this ending below a folder of the repository, in order.
pub fn files(below: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(below)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|it| it == ending) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// The path of a file inside the repository.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The parsers of both programs, at 80 columns, each with its name.
pub fn parsers() -> [(&'static str, Command); 2] {
    [("gpool", cli::command(VERBS)), ("gpool-lab", gpool_lab::command())].map(|(name, parser)| {
        let mut parser = parser.term_width(80);
        parser.build();
        (name, parser)
    })
}

/// Calls a function for a command and each visible command below it, with its words.
pub fn each(command: &Command, path: &str, then: &mut dyn FnMut(&Command, &str)) {
    then(command, path);
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        each(below, format!("{path} {}", below.get_name()).trim_start(), then);
    }
}

/// The help of a command as `--help` prints it: only bench has longer texts there.
pub fn help_of(command: &Command) -> String {
    let is_long = command.get_arguments().any(|arg| {
        let values = arg.get_possible_values();
        !arg.is_hide_possible_values_set() && values.iter().any(|it| it.get_help().is_some())
    });
    let mut command = command.clone();
    match is_long {
        true => command.render_long_help().to_string(),
        false => command.render_help().to_string(),
    }
}

/// The help of every command as it is printed.
pub fn help() -> Vec<Line> {
    let mut found = Vec::new();
    for (program, parser) in parsers() {
        each(&parser, "", &mut |command, path| {
            let text = help_of(command);
            found.extend(lines(&format!("{program} {path} --help"), &text));
        });
    }
    found
}

/// Every page of `gpool help` about a topic.
pub fn pages() -> Vec<Line> {
    let text = |name: &str| topics::text(name).unwrap();
    // Documents are checked as such.
    let written = topics::all().filter(|(name, _)| !["compat", "runai", "valohai"].contains(name));
    let pages = written.flat_map(|(name, _)| {
        lines(&format!("gpool help {name}"), &text(name)).collect::<Vec<_>>()
    });
    pages.chain(lines("gpool help topics", &topics::list())).collect()
}

/// The help of the commands of Slurm and gflow.
pub fn shims() -> Vec<Line> {
    let spoken = SHIMS.iter().flat_map(|shim| shim.spoken);
    let texts = spoken.flat_map(|it| {
        let notes = it.rows().map(|flag| line(&format!("{} --{}", it.name, flag.long), flag.note));
        std::iter::once(line(it.name, it.about)).chain(notes)
    });
    texts.collect()
}

/// The title and the explanation of every error.
pub fn catalogue() -> Vec<Line> {
    let texts = errors::all().flat_map(|it| {
        let place = it.code.to_string();
        [line(&place, it.title), line(&place, it.help)]
    });
    texts.collect()
}

/// The summaries and descriptions of the API document.
pub fn api() -> Vec<Line> {
    let document: Value = serde_json::from_str(&read(&root().join("docs/openapi.json"))).unwrap();
    let mut found = Vec::new();
    described(&document, "openapi.json", &mut found);
    found
}

fn described(value: &Value, place: &str, found: &mut Vec<Line>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member.as_str().filter(|_| ["summary", "description"].contains(&&**key)) {
                    Some(text) => found.extend(lines(place, text)),
                    None => described(member, &format!("{place}/{key}"), found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|it| described(it, place, found)),
        _ => {}
    }
}

/// The string literals of the sources in a folder, without those of tests.
pub fn literals(below: &str) -> Vec<Line> {
    let texts = files(below, "rs").into_iter().flat_map(|path| {
        let place = shown(&path);
        let found = literals::literals(&read(&path));
        found.into_iter().flat_map(move |text| lines(&place, &text).collect::<Vec<_>>())
    });
    texts.collect()
}

/// The folder `src` of each crate.
pub fn sources() -> Vec<String> {
    let crates = ["crates", "testing"].map(|it| fs::read_dir(root().join(it)).unwrap());
    let crates = crates.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut folders: Vec<String> = crates.map(|path| shown(&path.join("src"))).collect();
    folders.sort();
    folders
}

/// The documents of the repository, with their path.
pub fn documents() -> Vec<(String, String)> {
    let top = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let top = top.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let all = top.chain(files("docs", "md"));
    all.map(|path| (shown(&path), read(&path))).collect()
}
