//! The tables of Slurm's accounting commands: aligned under rules, or with a delimiter.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::Said;

/// A field: its name, its default width, whether it is left-aligned, and its content.
pub type Field<C> = (&'static str, usize, bool, C);

/// A field that a format names, with its width and alignment there.
pub struct Picked<C: 'static> {
    field: &'static Field<C>,
    width: usize,
    is_left: bool,
}

/// Parses a format: `JobID,User%-12`. Names may be cut, as in Slurm, and leave out blanks.
///
/// # Errors
/// There is no such field.
pub fn picked<C>(
    command: &str,
    format: &str,
    fields: &'static [Field<C>],
) -> Result<Vec<Picked<C>>> {
    let mut found = Vec::new();
    for name in format.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let (name, width) = name.split_once('%').unwrap_or((name, ""));
        let is = |known: &str, length: usize| {
            let known = known.replace(' ', "");
            known.get(..length.min(known.len())).is_some_and(|cut| cut.eq_ignore_ascii_case(name))
        };
        let field = fields.iter().find(|(known, ..)| is(known, usize::MAX));
        let Some(field) = field.or_else(|| fields.iter().find(|(known, ..)| is(known, name.len())))
        else {
            let known: Vec<&str> = fields.iter().map(|(known, ..)| *known).collect();
            let what = format!("{command} of gpool has no field {name:?}");
            return Err(Failure::new(errors::BAD_COLUMN, what)
                .why(format!("the choices are {}", known.join(", "))));
        };
        let (is_left, width) = match width.strip_prefix('-') {
            Some(width) => (true, width),
            None => (field.2, width),
        };
        let width = width.parse().ok().filter(|width: &usize| (1..=1000).contains(width));
        found.push(Picked { field, width: width.unwrap_or(field.1), is_left });
    }
    Ok(found)
}

/// The table of some rows, as `--noheader`, `--parsable`, `--parsable2` and `--delimiter` request.
pub fn text<C: Copy, R>(
    said: &Said,
    picked: &[Picked<C>],
    rows: &[R],
    cell: impl Fn(C, &R) -> String,
) -> String {
    let delimiter = said.value("delimiter").unwrap_or("|");
    let is_open = said.has("parsable2");
    let is_plain = is_open || said.has("parsable");
    let mut text = String::new();
    let mut put = |cells: Vec<String>| match (is_plain, is_open) {
        (true, true) => text.push_str(&format!("{}\n", cells.join(delimiter))),
        (true, false) => text.push_str(&format!("{}{delimiter}\n", cells.join(delimiter))),
        _ => text.push_str(&aligned(&cells, picked)),
    };
    if !said.has("noheader") {
        put(picked.iter().map(|it| it.field.0.to_owned()).collect());
        if !is_plain {
            put(picked.iter().map(|it| "-".repeat(it.width)).collect());
        }
    }
    for row in rows {
        put(picked.iter().map(|it| cell(it.field.3, row)).collect());
    }
    text
}

fn aligned<C>(cells: &[String], picked: &[Picked<C>]) -> String {
    let mut line = String::new();
    for (text, Picked { width, is_left, .. }) in cells.iter().zip(picked) {
        let mut cut: String = text.chars().take(*width).collect();
        if cut.len() < text.len() {
            // As Slurm marks a cut.
            cut.pop();
            cut.push('+');
        }
        let _ = match is_left {
            true => write!(line, "{cut:<width$} "),
            false => write!(line, "{cut:>width$} "),
        };
    }
    line.push('\n');
    line
}
