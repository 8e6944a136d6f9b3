//! The inputs of the command line: arguments, scripts with directives, settings, names of jobs and
//! devices, times. Also the cleaning of foreign text before a terminal shows it.

use std::io::Write as _;

use gpool::cli;
use gpool::config::Config;
use gpool::verbs::VERBS;
use gpool_cli::args::values;
use gpool_cli::caller::Variable;
use gpool_cli::failure::Failure;
use gpool_cli::flags;
use gpool_cli::reference::Reference;
use gpool_cli::render::clock::Clock;
use gpool_cli::render::safe::{Plain, safe, safe_json};
use gpool_cli::script::Script;
use gpool_cli::usage;
use gpool_wire::Time;

use crate::input::{are_shown, choose, cut, is_said, is_shown, text};

/// Runs the checks.
pub fn check(input: &[u8]) {
    let Some((parser, rest)) = choose(input, 11) else { return };
    match parser {
        0 | 1 => return script(rest),
        10 => return output(rest),
        _ => {}
    }
    let Some(text) = text(rest) else { return };
    match parser {
        2 => words(text),
        3 => variable(text),
        4 => settings(text),
        5 => references(text),
        6 => devices(text),
        7 => moment(text),
        8 => environment(text),
        _ => shown(text),
    }
}

/// Checks that a failure can be printed.
fn is_failure(failure: &Failure) {
    let text = failure.text(false);
    assert!(text.starts_with("error: ") && text.ends_with('\n'), "{text}");
    assert!(text.chars().count() <= 8000, "{} bytes are said: {text:.200}…", text.len());
    are_shown(&text);
    assert_ne!(failure.exit().0, 0);
    let json = failure.json();
    are_shown(&json);
    let _: serde_json::Value = serde_json::from_str(&json).expect("it is one JSON document");
}

/// The server accepts every script that the command line accepts.
fn script(bytes: &[u8]) {
    let script = match Script::check("train.sh", bytes.to_vec()) {
        Ok(script) => script,
        Err(failure) => return is_failure(&failure),
    };
    if let Err(failure) = flags::from_directives(&script, &[]) {
        is_failure(&failure);
        assert!(failure.what().starts_with("train.sh:"), "{}", failure.what());
    }
    let written = script.to_wire();
    assert_eq!(written.text.is_some(), std::str::from_utf8(bytes).is_ok());
    gpool_wire::Script::new(&written.name, bytes.to_vec()).expect("the server takes it too");
}

/// One argument on each line.
fn words(text: &str) {
    let words = std::iter::once("gpool").chain(text.split('\n'));
    let words: Vec<String> = words.map(str::to_owned).collect();
    if let Err(error) = cli::parse(VERBS, &words)
        && error.use_stderr()
    {
        is_failure(&usage::failure(&error, None));
    }
}

fn variable(text: &str) {
    let Some((name, value)) = text.split_once('=') else { return };
    let variable = (format!("GPOOL_SUBMIT_{name}"), value.to_owned());
    if let Err(failure) = flags::from_variables(std::iter::once(variable)) {
        is_failure(&failure);
    }
}

fn settings(text: &str) {
    if let Err(failure) = Config::parse(text, "gpool.toml") {
        is_failure(&failure);
        assert!(failure.what().starts_with("gpool.toml:"), "{}", failure.what());
    }
}

fn references(text: &str) {
    match Reference::list(text) {
        Ok(references) => {
            let printed: Vec<String> = references.iter().map(Reference::to_string).collect();
            assert_eq!(Reference::list(&printed.join(",")).as_ref(), Ok(&references), "{text:?}");
        }
        Err(error) => is_said(&error.to_string()),
    }
}

fn devices(text: &str) {
    match values::devices(text) {
        Ok(devices) => {
            assert!(devices.len() <= 4096, "{} devices", devices.len());
            assert_eq!(values::devices(&devices.join(",")).ok(), Some(devices));
        }
        Err(failure) => is_failure(&failure),
    }
}

fn moment(text: &str) {
    let now: Time = "2026-11-20T15:30:00Z".parse().expect("a valid time");
    let clock = Clock::new(true);
    match clock.read(text, now) {
        Ok(moment) => is_shown(&clock.second(moment, now)),
        Err(why) => is_said(&why),
    }
}

fn environment(text: &str) {
    match text.parse::<Variable>() {
        Ok(variable) => {
            let value = variable.value.as_ref().map(|value| format!("={value}"));
            assert_eq!(format!("{}{}", variable.name, value.unwrap_or_default()), text);
        }
        Err(why) => is_said(&why),
    }
}

/// A terminal interprets nothing in the result, and printable text stays unchanged.
fn shown(text: &str) {
    let once = safe(text).into_owned();
    is_shown(&once);
    assert_eq!(safe(&once), once);
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        assert_eq!(once, text);
    }
    let document = serde_json::to_string(text).expect("text is JSON");
    let escaped = safe_json(&document);
    is_shown(&escaped);
    for line in gpool_top::testing::lines(text) {
        is_shown(&line);
        let whole: String = line.split_whitespace().collect();
        for width in [1, 7, 80] {
            let wrapped = gpool_top::testing::wrapped(&line, width);
            let kept: String = wrapped.iter().flat_map(|it| it.split_whitespace()).collect();
            assert_eq!(kept, whole, "at width {width}");
        }
    }
    assert_eq!(serde_json::from_str::<String>(&escaped).expect("it is JSON still"), text);
}

/// A terminal interprets nothing in the shown output of a job, and the result is the same in any
/// split.
fn output(bytes: &[u8]) {
    let Some((one, other)) = cut(bytes) else { return };
    let shown = |parts: &[&[u8]]| {
        let mut shown = Vec::new();
        let mut plain = Plain::new(&mut shown);
        parts.iter().for_each(|part| plain.write_all(part).expect("writing to memory succeeds"));
        shown
    };
    let whole = shown(&[&[one, other].concat()]);
    assert_eq!(shown(&[one, other]), whole);
    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    let text = String::from_utf8_lossy(&whole);
    assert!(!text.contains(is_obeyed), "{text:?} would reach a terminal");
}
